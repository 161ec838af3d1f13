"""release: see ``VERBS`` in cli/main.py."""

from __future__ import annotations

from anycard.cli import options
from anycard.cli.each import each_job


def release(jobs: options.JobRefs, json: options.Json = False) -> int:
    return each_job(jobs, lambda client, ref: client.release(ref), as_json=json)
