"""All tables of the spine: jobs, items, attempts, grants, events, meta."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0001"
down_revision = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "attempts",
        sa.Column("id", ID, autoincrement=False, nullable=False),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("item", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("engine", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("stem", sa.String(), nullable=False),
        sa.Column("pid", sa.BigInteger()),
        sa.Column("started_at", sa.Float(), nullable=False),
        sa.Column("started_boot_s", sa.Float(), nullable=False),
        sa.Column("boot_id", sa.String(), nullable=False),
        sa.Column("ended_at", sa.Float()),
        sa.Column("run_s", sa.Float()),
        sa.Column("stop_reason", sa.String()),
        sa.Column("end_reason", sa.String()),
        sa.Column("exit_code", sa.Integer()),
        sa.Column("detail_json", sa.Text()),
        sa.Column("limits", sa.String()),
        sa.Column("cpu_s", sa.Float()),
        sa.Column("peak_memory_bytes", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempts")),
        sa.UniqueConstraint("job_id", "item", "number", name=op.f("uq_attempts_job_id_item_number")),
    )
    op.create_index("ix_attempts_state", "attempts", ["state"], unique=False)
    op.create_table(
        "events",
        sa.Column("seq", ID, nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("boot_s", sa.Float(), nullable=False),
        sa.Column("boot_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("user", sa.String(), nullable=False),
        sa.Column("job_id", ID),
        sa.Column("item", sa.Integer()),
        sa.Column("attempt_id", ID),
        sa.Column("data_json", sa.Text()),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_events")),
    )
    op.create_index("ix_events_job_id_seq", "events", ["job_id", "seq"], unique=False)
    op.create_table(
        "grants",
        sa.Column("id", ID, autoincrement=False, nullable=False),
        sa.Column("attempt_id", ID, nullable=False),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("user", sa.String(), nullable=False),
        sa.Column("cards_json", sa.Text(), nullable=False),
        sa.Column("cpus", sa.Float(), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger()),
        sa.Column("from_utc", sa.Float(), nullable=False),
        sa.Column("from_boot_s", sa.Float(), nullable=False),
        sa.Column("boot_id", sa.String(), nullable=False),
        sa.Column("to_utc", sa.Float()),
        sa.Column("seconds", sa.Float()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_grants")),
    )
    op.create_index("ix_grants_attempt_id", "grants", ["attempt_id"], unique=False)
    op.create_index("ix_grants_job_id", "grants", ["job_id"], unique=False)
    op.create_table(
        "items",
        sa.Column("job_id", ID, autoincrement=False, nullable=False),
        sa.Column("item", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("values_json", sa.Text()),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("not_before", sa.Float()),
        sa.Column("reason_json", sa.Text()),
        sa.Column("end_reason", sa.String()),
        sa.Column("exit_code", sa.Integer()),
        sa.Column("started_at", sa.Float()),
        sa.Column("ended_at", sa.Float()),
        sa.Column("run_s", sa.Float()),
        sa.Column("fresh_from", sa.Integer()),
        sa.PrimaryKeyConstraint("job_id", "item", name=op.f("pk_items")),
    )
    op.create_index("ix_items_job_id_state", "items", ["job_id", "state"], unique=False)
    op.create_table(
        "jobs",
        sa.Column("id", ID, autoincrement=False, nullable=False),
        sa.Column("submit_key", sa.String(), nullable=False),
        sa.Column("pipeline", sa.String()),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("user", sa.String(), nullable=False),
        sa.Column("uid", sa.BigInteger()),
        sa.Column("gid", sa.BigInteger()),
        sa.Column("prepare_key", sa.String()),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("held", sa.Boolean(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("spec_json", sa.Text(), nullable=False),
        sa.Column("submitted_at", sa.Float(), nullable=False),
        sa.Column("first_granted_at", sa.Float()),
        sa.Column("first_granted_boot_s", sa.Float()),
        sa.Column("first_granted_boot_id", sa.String()),
        sa.Column("ended_at", sa.Float()),
        sa.Column("reason_json", sa.Text()),
        sa.Column("n_items", sa.Integer(), nullable=False),
        sa.Column("n_queued", sa.Integer(), nullable=False),
        sa.Column("n_running", sa.Integer(), nullable=False),
        sa.Column("n_succeeded", sa.Integer(), nullable=False),
        sa.Column("n_failed", sa.Integer(), nullable=False),
        sa.Column("n_cancelled", sa.Integer(), nullable=False),
        sa.Column("pruned_at", sa.Float()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
        sa.UniqueConstraint("submit_key", name=op.f("uq_jobs_submit_key")),
    )
    op.create_index("ix_jobs_name_id", "jobs", ["name", "id"], unique=False)
    op.create_index("ix_jobs_state_id", "jobs", ["state", "id"], unique=False)
    op.create_index("ix_jobs_user_id", "jobs", ["user", "id"], unique=False)
    op.create_table(
        "meta",
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_meta")),
    )
