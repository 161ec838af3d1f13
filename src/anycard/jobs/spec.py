"""A job as the house knows it once its file was read, checked and expanded. Kept whole in the store; everything later reads this."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from anycard.model.demand import Demand


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RetryRule(_Frozen):
    """``times`` retries beyond the first attempt, ``wait_s`` before the first of them, doubled each time. ``when`` None: the end reasons
    whose consequence has ``default_retry``; else only these reasons or exit codes."""

    times: int = 0
    wait_s: float = 0.0
    when_reasons: tuple[str, ...] | None = None
    when_exit_codes: tuple[int, ...] = ()


class ReleaseRule(_Frozen):
    """``idle_s``: release when neither its CPUs nor its cards did anything for so long. ``max_s``: from the job's first grant."""

    idle_s: float | None = None
    max_s: float | None = None


class Mount(_Frozen):
    """A local path made visible at ``target`` (absolute, or relative to the workdir) as a symbolic link."""

    target: str
    source: str


class JobSpec(_Frozen):
    """``command`` (argv, run directly) or ``run`` (a shell script) but not both. Lengths in seconds, sizes in bytes, ``options`` in the
    order in which they are tried. ``envs`` and ``items`` values become environment variables, never pasted into a shell line.
    ``secrets`` holds names only: values live in a 0600 file of the job's folder. ``environment`` is what the submitter stood in (PATH,
    VIRTUAL_ENV, HOME, LANG ...), already reduced to the allowed names."""

    name: str
    command: tuple[str, ...] | None = None
    run: str | None = None
    setup: str | None = None
    setup_environment: str | None = None  # name of a cached environment; None: the one the submitter stood in
    workdir: str
    copy_workdir: bool = False
    envs: dict[str, str] = Field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    environment: dict[str, str] = Field(default_factory=dict)
    umask: int = 0o022
    mounts: tuple[Mount, ...] = ()
    options: tuple[Demand, ...] = (Demand(),)
    cpus_given: bool = False  # the file or the command line named cpus: the limit is enforced, not only planned
    items: tuple[dict[str, str], ...] | None = None  # foreach values, one dict an item; None: a plain job of one item
    parallel: int | None = None
    priority: int = 0
    after: tuple[str, ...] = ()  # ids or names as written
    after_ids: tuple[int, ...] = ()  # resolved at submission
    not_before: float | None = None  # UTC seconds
    time_limit_s: float | None = None
    stop_grace_s: float = 30.0
    retry: RetryRule = RetryRule()
    release: ReleaseRule = ReleaseRule()
    resumable: bool = False
    preemptible: bool = False
    stop_on_item_error: bool = False
    ignored: tuple[str, ...] = ()  # keys of other systems that mean nothing here

    @property
    def n_items(self) -> int:
        return 1 if self.items is None else len(self.items)
