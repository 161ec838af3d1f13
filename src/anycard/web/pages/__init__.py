"""Every page: a module with a ``router``, and a ``NAV`` where it has a place in the navigation (docs/page.md: how to add one)."""

from __future__ import annotations

from types import ModuleType

from anycard.web.nav import Entry
from anycard.web.pages import cards, doctor, job, jobs, log, login, look, outputs, queue, sizing, stream, submit

# In the order of the navigation.
MODULES: tuple[ModuleType, ...] = (cards, queue, jobs, sizing, doctor, job, log, outputs, submit, stream, login, look)

NAV: tuple[Entry, ...] = tuple(module.NAV for module in MODULES if hasattr(module, "NAV"))
