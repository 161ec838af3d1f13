"""What an attempt's program sees: its argv and its whole environment. Pure but for the paths it names."""

from __future__ import annotations

import math
from collections.abc import Mapping

from anycard.config import Paths
from anycard.jobs.board import PREPARE, OpenJob
from anycard.model.demand import Allocation
from anycard.model.instant import Instant, rfc3339

# Libraries that start a thread a core of the machine unless told; each then fights the others for the CPUs granted.
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "BLIS_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
)


def argv(job: OpenJob, paths: Paths, shell: str) -> tuple[str, ...]:
    """The command as it was given, or the shell on the script that the submission wrote."""
    if job.spec.command is not None:
        return job.spec.command
    return (shell, str(paths.job(job.id) / "run.sh"))


def workdir(job: OpenJob, paths: Paths) -> str:
    return str(paths.job(job.id) / "workdir") if job.spec.copy_workdir else job.spec.workdir


def named_environment(job: OpenJob, paths: Paths) -> str | None:
    """The cached Python environment that the file names, one per user; None: the one the submitter stood in."""
    if job.spec.setup_environment is None:
        return None
    owner = "" if job.uid is None else f"{job.uid}-"
    return str(paths.home / "environments" / f"{owner}{job.spec.setup_environment}")


def build(
    job: OpenJob,
    item: int,
    number: int,
    allocation: Allocation,
    *,
    paths: Paths,
    stem: str,
    visibility: Mapping[str, str],
    item_variables: Mapping[str, str],
    secrets: Mapping[str, str],
) -> dict[str, str]:
    """The submitter's environment, then ours, then the file's own, then the item's: the later wins.

    ``visibility`` holds the vendors' variables for the cards granted and ANYCARD_DEVICE.
    """
    spec = job.spec
    threads = str(max(1, math.ceil(allocation.cpus)))
    cards = str(len(allocation.card_ids))
    env = dict(spec.environment)
    named = named_environment(job, paths)
    if named is not None:
        env["VIRTUAL_ENV"] = named
        env["PATH"] = f"{named}/bin:{env.get('PATH', '/usr/bin:/bin')}"
        env.pop("PYTHONHOME", None)
    env.setdefault(
        "PYTHONUNBUFFERED", "1"
    )  # else a log that is followed stays empty, and a killed program's last lines are lost
    env.update(dict.fromkeys(_THREAD_VARIABLES, threads))
    env.update(visibility)
    env.update(
        ANYCARD_HOME=str(paths.home),
        ANYCARD_JOB=str(job.id),
        ANYCARD_JOB_NAME=spec.name,
        ANYCARD_ATTEMPT=str(number),
        ANYCARD_CARDS=cards,
        ANYCARD_CPUS=f"{allocation.cpus:g}",
        ANYCARD_WORKDIR=workdir(job, paths),
    )
    if item != PREPARE:
        env.update(
            ANYCARD_ITEM=str(item),
            ANYCARD_OUTPUT_DIR=f"{stem}.output",
            ANYCARD_CHECKPOINT_DIR=str(paths.checkpoint(job.id, item)),
        )
        env.update(_other_systems(job, item, number, cards, threads, spec.workdir))
    env.update(spec.envs)
    env.update(secrets)
    env.update(item_variables)
    return env


def _other_systems(job: OpenJob, item: int, number: int, cards: str, threads: str, submit_dir: str) -> dict[str, str]:
    """The names that scripts written for SkyPilot, Slurm and dstack read. SLURM_NTASKS is left out on purpose: frameworks take it for a
    real `srun` and wait for peers."""
    env = {
        "SKYPILOT_NUM_NODES": "1",
        "SKYPILOT_NODE_RANK": "0",
        "SKYPILOT_NODE_IPS": "127.0.0.1",
        "SKYPILOT_NUM_GPUS_PER_NODE": cards,
        "SKYPILOT_TASK_ID": f"anycard-{job.id}-{item}",
        "SLURM_JOB_ID": str(job.id),
        "SLURM_JOB_NAME": job.spec.name,
        "SLURM_SUBMIT_DIR": submit_dir,
        "SLURM_CPUS_PER_TASK": threads,
        "SLURM_RESTART_COUNT": str(number - 1),
        "DSTACK_RUN_NAME": job.spec.name,
        "DSTACK_NODES_NUM": "1",
        "DSTACK_NODE_RANK": "0",
        "DSTACK_MASTER_NODE_IP": "127.0.0.1",
        "DSTACK_GPUS_NUM": cards,
        "DSTACK_GPUS_PER_NODE": cards,
    }
    if job.item_values:
        env["SLURM_ARRAY_JOB_ID"] = str(job.id)
        env["SLURM_ARRAY_TASK_ID"] = str(item)
        env["SLURM_ARRAY_TASK_COUNT"] = str(job.n_items)
    return env


def log_header(job: OpenJob, item: int, number: int, allocation: Allocation, now: Instant) -> str:
    what = "prepare " if item == PREPARE else f"item {item} " if job.n_items > 1 else ""
    cards = f", cards {' '.join(allocation.card_ids)}" if allocation.card_ids else ""
    name = "".join(char if char.isprintable() else "?" for char in job.spec.name)
    return (
        f"[anycard] job {job.id} ({name}) {what}attempt {number} started {rfc3339(now.utc_s)}"
        f" on {allocation.cpus:g} {'CPU' if allocation.cpus <= 1 else 'CPUs'}{cards}\n"
    )
