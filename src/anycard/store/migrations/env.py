"""How Alembic connects. Each run is one transaction on both databases: a migration that dies leaves the store as it was."""

from __future__ import annotations

import sqlalchemy
from alembic import context
from sqlalchemy.engine import make_url
from sqlalchemy.pool import NullPool

from anycard.store.files import APPLICATION_ID
from anycard.store.tables import metadata

_FULLY_SYNCED = ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL")


def run() -> None:
    url = make_url(context.config.attributes["url"])
    is_sqlite = url.get_backend_name() == "sqlite"
    arguments = {"isolation_level": None, "timeout": 60} if is_sqlite else {}
    engine = sqlalchemy.create_engine(url, poolclass=NullPool, connect_args=arguments)
    with engine.connect() as connection:
        if is_sqlite:
            for statement in _FULLY_SYNCED:
                connection.exec_driver_sql(statement).close()
            connection.rollback()
            connection.exec_driver_sql("BEGIN IMMEDIATE")  # the driver would not begin before a CREATE TABLE
        context.configure(
            connection=connection,
            target_metadata=metadata,
            transactional_ddl=True,
            render_as_batch=is_sqlite,
            compare_type=True,
        )
        with context.begin_transaction():
            context.run_migrations()
        if is_sqlite:
            connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.commit()


run()
