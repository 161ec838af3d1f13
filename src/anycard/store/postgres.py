"""The store on a PostgreSQL server: the same tables and code, one setting. Needs the extra ``postgres`` (psycopg 3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.engine import URL, Engine, make_url

from anycard.errors import AnycardError, UsageError
from anycard.store.failures import (
    DiskFullError,
    StoreAccessError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreRefusedError,
)

_WRITER_LOCK = (
    0x616E7963  # "anyc": held by the one daemon that writes; a second one is told instead of giving out the same ids
)
_LOCK_WAIT_S = 10.0  # the server needs a moment to see that a killed daemon is gone
_CONNECT_TIMEOUT_S = 10


class Postgres:
    begin = "BEGIN"
    errors: tuple[type[Exception], ...] = (psycopg.Error,)

    def __init__(self, url: str) -> None:
        self.url: URL = make_url(url).set(drivername="postgresql+psycopg")
        self.name = self.url.set(drivername="postgresql").render_as_string(hide_password=True)
        self.dialect = PGDialect_psycopg(paramstyle="format")  # type: ignore[no-untyped-call]

    def prepare(self) -> None:
        """The server keeps its files itself."""

    def connect_writer(self) -> Any:
        arguments: dict[str, Any] = self.dialect.create_connect_args(self.url)[1]  # type: ignore[no-untyped-call]
        connection = psycopg.connect(
            **arguments, autocommit=True, connect_timeout=_CONNECT_TIMEOUT_S, application_name="anycard"
        )
        try:
            connection.execute(f"SET lock_timeout = {round(_LOCK_WAIT_S * 1000)}")
            connection.execute("SELECT pg_advisory_lock(%s)", (_WRITER_LOCK,))
            connection.execute("SET lock_timeout = 0")
        except psycopg.errors.LockNotAvailable as error:
            connection.close()
            raise StoreBusyError(
                "another anycard daemon writes to {path}",
                hint="One daemon a database: stop the other, or give this one a database of its own.",
                path=self.name,
            ) from error
        except BaseException:
            connection.close()
            raise
        return connection

    def is_usable(self, writer: Any) -> bool:
        return not writer.closed

    def readers(self) -> Engine:
        return sqlalchemy.create_engine(
            self.url,
            pool_size=4,
            max_overflow=4,
            pool_pre_ping=True,
            isolation_level="REPEATABLE READ",
            connect_args={
                "connect_timeout": _CONNECT_TIMEOUT_S,
                "application_name": "anycard",
                "options": "-c default_transaction_read_only=on",
            },
        )

    def find_damage(self) -> None:
        """The server checks its own pages."""

    def backup(self, target: Path) -> int:
        raise UsageError(
            "anycard does not back up a PostgreSQL database itself",
            hint="pg_dump --format=custom --file={target} {path}",
            path=self.name,
            target=target,
        )

    def explain(self, error: BaseException) -> AnycardError | None:
        if not isinstance(error, psycopg.Error):
            return None
        detail = str(error).strip().partition("\n")[0]
        state = error.sqlstate or ""
        if isinstance(error, psycopg.IntegrityError | psycopg.DataError):
            return StoreRefusedError("the store refused a row: {detail}", detail=detail)
        if state == "53100":  # disk_full, https://www.postgresql.org/docs/current/errcodes-appendix.html
            return DiskFullError(
                "the database server's disk is full ({detail})",
                hint="Free some space on it; new work starts then.",
                detail=detail,
            )
        if state in ("XX001", "XX002"):  # data_corrupted, index_corrupted
            return StoreDamagedError(
                "the database {path} is damaged ({detail})",
                hint="Restore it on the server from its backup.",
                path=self.name,
                detail=detail,
            )
        if state.startswith(("55P03", "40")):  # lock_not_available, transaction_rollback
            return StoreBusyError("another program holds {path} ({detail})", path=self.name, detail=detail)
        if isinstance(error, psycopg.OperationalError) or state.startswith(("28", "3D", "42501")):
            return StoreAccessError(
                "the database {path} cannot be used: {detail}",
                hint="Try it by hand: psql {path}",
                path=self.name,
                detail=detail,
            )
        return StoreError("the database {path} failed: {detail}", path=self.name, detail=detail)
