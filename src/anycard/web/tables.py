"""A table's order as its address has it (``?sort=took&order=desc``), so that a view can be sent on and survives a reload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from anycard.host.clock import now
from anycard.store.ordering import ASCENDING, DESCENDING, Sort, sorting
from anycard.web.visit import Visit

_MOST_FIRST = (
    "id",
    "items",
    "failed",
    "attempts",
    "submitted",
    "ended",
    "took",
)  # what one looks for is the largest or latest


@dataclass(frozen=True, slots=True)
class Sorted:
    """``asked``: None where the address says nothing, the table then stands by ``by`` as ever. ``kept``: what else the address says."""

    asked: Sort | None
    by: str
    descending: bool
    path: str
    kept: Mapping[str, str]

    def address(self, key: str) -> str:
        """Of the same table by ``key``; the other way round where it is sorted by that already. From its first page."""
        down = not self.descending if key == self.by else key in _MOST_FIRST
        return self._to({"sort": key, "order": DESCENDING if down else ASCENDING})

    def page(self, **cursor: str | None) -> str:
        """Of another page in the same order."""
        return self._to(self.order() | {name: value for name, value in cursor.items() if value})

    def with_(self, **changed: str) -> str:
        """With another filter; from its first page."""
        return Sorted(self.asked, self.by, self.descending, self.path, {**self.kept, **changed}).page()

    def part(self, name: str, **cursor: str | None) -> str:
        """The address below this table's page that gives only the table."""
        return Sorted(self.asked, self.by, self.descending, f"{self.path}/{name}", self.kept).page(**cursor)

    def order(self) -> dict[str, str]:
        """What the address says of it, for the addresses of parts."""
        if self.asked is None:
            return {}
        return {"sort": self.by, "order": DESCENDING if self.descending else ASCENDING}

    def _to(self, said: dict[str, str]) -> str:
        query = {name: value for name, value in self.kept.items() if value} | said
        return f"{self.path}?{urlencode(query)}" if query else self.path


def sorted_table(
    who: Visit, known: Mapping[str, object], *, path: str, usual: str, down: bool, kept: Mapping[str, str]
) -> Sorted:
    """As the address has it; without a word there by ``usual``. UsageError for what cannot be sorted by."""
    asked = sorting(who.query("sort"), who.query("order"), known, now().utc_s)
    if asked is None:
        return Sorted(None, usual, down, path, kept)
    return Sorted(asked, asked.by, asked.descending, path, kept)
