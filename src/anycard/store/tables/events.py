"""The append-only event log: the truth for money and audit. Rows are never updated or deleted, not by `prune` either."""

from sqlalchemy import Column, Float, Index, Integer, String, Table, Text

from anycard.store.tables.base import Id, metadata

events = Table(
    "events",
    metadata,
    Column("seq", Id, primary_key=True),
    Column("at", Float, nullable=False),
    Column("boot_s", Float, nullable=False),
    Column("boot_id", String, nullable=False),
    Column("kind", String, nullable=False),  # job.submitted, item.started, item.ended, job.ended, card.lost ...
    Column("tenant", String, nullable=False),
    Column("user", String, nullable=False),
    Column("job_id", Id),
    Column("item", Integer),
    Column("attempt_id", Id),
    Column("data_json", Text),
    Index("ix_events_job_id_seq", "job_id", "seq"),
)
