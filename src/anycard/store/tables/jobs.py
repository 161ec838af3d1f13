"""A job has items, an item has attempts, an attempt holds one grant."""

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, String, Table, Text, UniqueConstraint

from anycard.store.tables.base import Id, metadata

jobs = Table(
    "jobs",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=False),
    Column(
        "submit_key", String, nullable=False
    ),  # the client's idempotency key: a repeated submit returns the same job
    Column("pipeline", String),  # jobs of one file with `---` share it
    Column("name", String, nullable=False),
    Column("tenant", String, nullable=False),
    Column("user", String, nullable=False),
    Column("uid", BigInteger),  # of the submitter in shared mode; null: the daemon's own user
    Column("gid", BigInteger),
    Column("prepare_key", String),  # what must be prepared before items start, see jobs/prepare.py; null: nothing
    Column("kind", String, nullable=False),  # batch | session | service
    Column("state", String, nullable=False),
    Column("held", Boolean, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("spec_json", Text, nullable=False),
    Column("submitted_at", Float, nullable=False),
    Column("first_granted_at", Float),
    Column("first_granted_boot_s", Float),
    Column("first_granted_boot_id", String),
    Column("ended_at", Float),
    Column("reason_json", Text),  # why it waits or how it ended, a Text
    Column("n_items", Integer, nullable=False),
    Column("n_queued", Integer, nullable=False),
    Column("n_running", Integer, nullable=False),  # starting, running, stopping
    Column("n_succeeded", Integer, nullable=False),
    Column("n_failed", Integer, nullable=False),
    Column("n_cancelled", Integer, nullable=False),
    Column("pruned_at", Float),  # its items, attempts, logs and outputs are gone since; null: all there
    UniqueConstraint("submit_key"),
    Index("ix_jobs_state_id", "state", "id"),
    Index("ix_jobs_name_id", "name", "id"),
    Index("ix_jobs_user_id", "user", "id"),
)

items = Table(
    "items",
    metadata,
    Column("job_id", Id, primary_key=True, autoincrement=False),
    Column("item", Integer, primary_key=True, autoincrement=False),  # 0-based
    Column("state", String, nullable=False),  # queued starting running stopping succeeded failed cancelled
    Column("values_json", Text),  # foreach values of this item: {"file": "data/a.csv"}; null for a plain job
    Column("attempts", Integer, nullable=False),  # started so far
    Column("not_before", Float),
    Column("reason_json", Text),  # why it waits or failed, a Text
    Column("end_reason", String),
    Column("exit_code", Integer),
    Column("started_at", Float),  # first attempt
    Column("ended_at", Float),
    Column("run_s", Float),  # of all attempts together, by the boot clock
    Column("fresh_from", Integer),  # attempts up to this number do not count as retries: a person asked for more
    Index("ix_items_job_id_state", "job_id", "state"),
)

attempts = Table(
    "attempts",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=False),
    Column("job_id", Id, nullable=False),
    Column("item", Integer, nullable=False),
    Column("number", Integer, nullable=False),  # 1-based within the item: ANYCARD_ATTEMPT
    Column("engine", String, nullable=False),
    Column("state", String, nullable=False),  # starting running stopping ended
    Column("stem", String, nullable=False),  # of its files (STEM.log, STEM.output/), counted from the home
    Column("pid", BigInteger),
    Column("started_at", Float, nullable=False),
    Column("started_boot_s", Float, nullable=False),
    Column("boot_id", String, nullable=False),
    Column("ended_at", Float),
    Column("run_s", Float),
    Column("stop_reason", String),  # asked to stop for this
    Column("end_reason", String),
    Column("exit_code", Integer),
    Column("detail_json", Text),  # a Text
    Column("limits", String),
    Column("cpu_s", Float),
    Column("peak_memory_bytes", BigInteger),
    UniqueConstraint("job_id", "item", "number"),
    Index("ix_attempts_state", "state"),
)

grants = Table(
    "grants",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=False),
    Column("attempt_id", Id, nullable=False),
    Column("job_id", Id, nullable=False),
    Column("tenant", String, nullable=False),
    Column("user", String, nullable=False),
    Column("cards_json", Text, nullable=False),  # list of card ids
    Column("cpus", Float, nullable=False),
    Column("memory_bytes", BigInteger),
    Column("from_utc", Float, nullable=False),
    Column("from_boot_s", Float, nullable=False),
    Column("boot_id", String, nullable=False),
    Column("to_utc", Float),
    Column("seconds", Float),  # length by the boot clock; null while held
    Index("ix_grants_attempt_id", "attempt_id"),
    Index("ix_grants_job_id", "job_id"),
)
