"""A job as the house knows it once its file was read, checked and expanded. Kept whole in the store; everything later reads this."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from anycard.model.demand import Demand


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RetryRule(_Frozen):
    """``times`` retries beyond the first attempt, ``wait_s`` before the first of them, doubled each time. ``when`` None: the end reasons
    whose consequence has ``default_retry``; else only these reasons, exit codes or causes that the doctor named."""

    times: int = 0
    wait_s: float = 0.0
    when_reasons: tuple[str, ...] | None = None
    when_exit_codes: tuple[int, ...] = ()
    when_causes: tuple[str, ...] = ()


class ReleaseRule(_Frozen):
    """``idle_s``: release when neither its CPUs nor its cards did anything for so long. ``max_s``: from the job's first grant."""

    idle_s: float | None = None
    max_s: float | None = None


class Mount(_Frozen):
    """A local path made visible at ``target`` (absolute, or relative to the workdir) as a symbolic link."""

    target: str
    source: str


class ModelAsk(_Frozen):
    """`anycard.model`: what the job runs, as its file says. ``name``: a folder, a file, or a name; ``context`` and ``batch``: tokens of a
    sequence and sequences at once. ``too_large``: what becomes of a job that cannot fit, "refuse" or "warn"."""

    name: str
    task: str = "infer"
    context: int = 4096
    batch: int = 1
    quant: str | None = None
    server: str | None = None
    cache: str = "f16"
    rank: int = 16
    checkpointing: bool = True
    too_large: str = "refuse"


class Need(_Frozen):
    """What one card of ``cards`` must hold, in bytes; ``cards`` 0: the host's memory, on the CPU. ``parts`` add up to ``total_bytes``;
    ``low_bytes`` to ``high_bytes`` is where the truth is expected; ``buffers_bytes``: the total without the runtime's own context."""

    cards: int
    parts: dict[str, int]
    total_bytes: int
    low_bytes: int
    high_bytes: int
    buffers_bytes: int


class Remedy(_Frozen):
    """What would make it fit on the largest card here: a slug, and what a card would then hold."""

    name: str
    total_bytes: int


class Sizing(_Frozen):
    """What the job's model needs, computed when it was submitted. ``needs`` is empty, and ``unsized`` says why, when nobody could say.
    ``tokens_per_s``: expected, by the name of a card ("cpu" for the CPU)."""

    ask: ModelAsk
    model: str = ""
    server: str | None = None
    exact: bool = False
    needs: tuple[Need, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    tokens_per_s: dict[str, float] = Field(default_factory=dict)
    unsized: str | None = None
    unsized_msgid: str | None = None  # the same for faces that translate
    unsized_params: dict[str, str | int | float] = Field(default_factory=dict)

    def need(self, cards: int) -> Need | None:
        return next((need for need in self.needs if need.cards == cards), None)


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
    sizing: Sizing | None = None  # None: the file names no model
    ignored: tuple[str, ...] = ()  # keys of other systems that mean nothing here

    @property
    def n_items(self) -> int:
        return 1 if self.items is None else len(self.items)
