"""A followed job as plain lines, for files, pipes and logs: no control codes."""

from __future__ import annotations

from collections.abc import Callable

from anycard.api.client import Json
from anycard.i18n import _, words


class PlainView:
    """One line when the job starts to wait for something else, one for each item of a batch that ended."""

    def __init__(self, out: Callable[[str], None]) -> None:
        self._out = out
        self._waits = ""
        self._ended: set[tuple[int, int]] = set()

    def __enter__(self) -> PlainView:
        return self

    def __exit__(self, *_error: object) -> None:
        return

    def update(self, job: Json, items: list[Json]) -> None:
        batch = job["counts"]["items"] > 1
        for item in items:
            key = (item["item"], item["attempts"])
            if batch and item["state"] in words.OVER and key not in self._ended:
                self._ended.add(key)
                self._out(self._line(job, item))
        waits = words.reason(job) if job["state"] == "queued" else ""
        if waits and waits != self._waits:
            hint = words.sooner(job)
            told = words.told(words.title(job), waits)
            self._out(f"{told} ({hint})" if hint else told)
        self._waits = waits

    def _line(self, job: Json, item: Json) -> str:
        line = _(
            "[{done}/{all}] item {item} {state}, {length}",
            done=len({number for number, _attempt in self._ended}),
            all=job["counts"]["items"],
            item=item["item"],
            state=words.state(item["state"]),
            length=words.took(item),
        )
        details = [text for text in (words.values(item), words.reason(item)) if text]
        return words.told(line, _("; ").join(details))
