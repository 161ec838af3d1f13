"""A job's prepare attempt: copy of the workdir, mounts, setup. It holds no card; setup runs once per content."""

from __future__ import annotations

from pathlib import Path

from anycard.config import Paths
from anycard.jobs import environment
from anycard.jobs.board import OpenJob
from anycard.jobs.spec import JobSpec

_SCRIPT = Path(__file__).with_name("prepare.sh")  # handed over as text: users need not be able to read our files


def key_for(spec: JobSpec, setup_key: str | None, uid: int | None, paths: Paths) -> str | None:
    """What must be prepared before items start: None when nothing, the setup's key when only that, else a key of this job alone.

    ``setup_key`` (jobs/file) names setup + lock files + environment. Keys are per user: nobody runs another's setup.
    """
    setup = f"{'' if uid is None else f'{uid}-'}{setup_key}" if setup_key else None
    if spec.copy_workdir or spec.mounts:
        return f"{setup or ''}+"  # never shared: the copy and the links are this job's own
    if setup is not None and marker(paths, setup).exists():
        return None
    return setup


def marker(paths: Paths, key: str) -> Path:
    return paths.home / "setups" / key.rstrip("+")


def already_done(job: OpenJob, paths: Paths) -> bool:
    """True when another job has run the very same setup meanwhile."""
    key = job.prepare_key or ""
    return is_shared(key) and marker(paths, key).exists()


def is_shared(key: str) -> bool:
    """Whether what is prepared for one job with this key serves every other."""
    return bool(key) and not key.endswith("+")


def note_done(paths: Paths, key: str) -> None:
    """Remembers that the setup of ``key`` succeeded."""
    if key.rstrip("+"):
        path = marker(paths, key)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)


def folders(job: OpenJob, paths: Paths) -> tuple[Path, ...]:
    """What preparing fills; made beforehand, because only the daemon may make folders there."""
    named = environment.named_environment(job, paths)
    copied = (Path(environment.workdir(job, paths)),) if job.spec.copy_workdir else ()
    return (*copied, *((Path(named),) if named is not None else ()))


def argv(job: OpenJob, paths: Paths, shell: str) -> tuple[str, ...]:
    folder = paths.job(job.id)
    spec = job.spec
    key = job.prepare_key or ""
    setup_due = (
        spec.setup is not None and not marker(paths, key).exists() if key.rstrip("+") else spec.setup is not None
    )
    arguments = [
        shell,
        str(folder / "setup.sh") if setup_due else "",
        spec.workdir if spec.copy_workdir else "",
        environment.workdir(job, paths),
        environment.named_environment(job, paths) or "",
    ]
    for mount in spec.mounts:
        arguments += [mount.target, mount.source]
    return ("/bin/sh", "-c", _SCRIPT.read_text(encoding="utf-8"), "anycard-prepare", *arguments)
