"""Facts about the store itself: who made it, the last boot seen."""

from sqlalchemy import Column, String, Table, Text

from anycard.store.tables.base import metadata

meta = Table("meta", metadata, Column("key", String, primary_key=True), Column("value", Text, nullable=False))
