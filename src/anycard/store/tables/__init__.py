"""Every table of the store, on one MetaData. Columns ending in _json hold JSON text; money is text; times are UTC seconds since the
epoch as floats, each with the boot clock beside it where a length is computed from it."""

from anycard.store.tables.base import metadata
from anycard.store.tables.events import events
from anycard.store.tables.jobs import attempts, grants, items, jobs
from anycard.store.tables.meta import meta

__all__ = ["attempts", "events", "grants", "items", "jobs", "meta", "metadata"]
