"""A page's place in the navigation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """``title`` is a gettext key; ``address`` begins with /; ``key`` is pressed after g to go there ("c" for cards)."""

    title: str
    address: str
    key: str
