"""Alembic scripts. A revision is frozen once released: it describes the tables as they were, never as `tables/` is now."""
