"""What a job left as files, for whoever may see it: parts of logs, and outputs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anycard.config import Paths
from anycard.errors import NotFoundError
from anycard.jobs import logparts, outputs
from anycard.jobs.caller import Caller
from anycard.jobs.logs import log_of
from anycard.jobs.service import Jobs
from anycard.store.engine import Store


class JobFiles:
    """Every method raises NotFoundError for what is not there and ForbiddenError for someone else's job."""

    def __init__(self, paths: Paths, store: Store, jobs: Jobs) -> None:
        self._paths = paths
        self._store = store
        self._jobs = jobs

    async def log(self, ref: str, caller: Caller, *, item: int, attempt: int | None) -> Path | None:
        """The file of an item's log; None when nothing of it was started."""
        row = await self._jobs.own(ref, caller)
        if not -1 <= item < row["n_items"]:
            raise NotFoundError("job {job} has no item {item}", job=row["id"], item=item)
        return await asyncio.to_thread(log_of, self._store, row["id"], item, attempt)

    async def with_output(self, ref: str, caller: Caller) -> tuple[Mapping[str, Any], list[int]]:
        """The job's row, and the items that have outputs."""
        row = await self._jobs.own(ref, caller)
        folder = self._paths.output(row["id"], 0).parent
        return row, await asyncio.to_thread(outputs.items_with_output, folder)

    async def output_files(self, ref: str, caller: Caller, item: int) -> tuple[list[outputs.OutputFile], bool]:
        """The files of an item, and whether there are more than are listed."""
        row = await self._jobs.own(ref, caller)
        return await asyncio.to_thread(outputs.files_of, self._paths.output(row["id"], item))

    async def open_output(self, ref: str, caller: Caller, item: int, path: bytes) -> int:
        """A descriptor of one output file; the caller closes it."""
        row = await self._jobs.own(ref, caller)
        return await asyncio.to_thread(outputs.open_file, self._paths.output(row["id"], item), path)


async def part(log: Path | None, *, before: int | None = None, after: int | None = None) -> dict[str, Any]:
    """LOG_PART: {start, end, size, lines: [[text, kind]], open}, see logparts.Part."""
    if log is None:
        return {"start": 0, "end": 0, "size": 0, "lines": [], "open": ""}
    if after is not None:
        found = await asyncio.to_thread(logparts.part_after, log, after)
    elif before is not None:
        found = await asyncio.to_thread(logparts.part_before, log, before)
    else:
        found = await asyncio.to_thread(logparts.last_part, log)
    return part_json(found)


def part_json(found: logparts.Part) -> dict[str, Any]:
    return {
        "start": found.start,
        "end": found.end,
        "size": found.size,
        "lines": [[text, int(kind)] for text, kind in found.lines],
        "open": found.open,
    }


def attempt_of(log: Path) -> int | None:
    """The number of the attempt whose log this is: its name is ITEM.NUMBER.log."""
    number = log.stem.rpartition(".")[2]
    return int(number) if number.isdigit() else None
