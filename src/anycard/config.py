"""Where anycard keeps its things. Configuration file < environment < flag.

ANYCARD_HOME/
  config.toml           what is set for this home, if anything
  anycard.db            the store (SQLite, WAL)
  readings.db           what cards did in the last month
  reserve               space freed when the disk is full, so that the pause can be recorded
  daemon.log supervisor.log
  jobs/J/               job.yaml as submitted, run.sh; ITEM.N.log, ITEM.N.output/ ... of attempt N; ITEM.checkpoint/ of them all
  outputs/J/ITEM/       of succeeded items, arrived by rename
  offers/               catalogues of offers, when somebody had them fetched
  shared                there when the home is a shared daemon's (docs/shared.md)
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anycard.errors import UsageError

SHARED_HOME = Path(
    "/var/lib/anycard"
)  # of this machine's shared daemon; once it was started every user's verbs go there
_TABLES = ("cards", "hooks", "page")
_SOCKET_PATH_MAX = 100  # AF_UNIX paths end at 108 bytes on Linux, 104 on macOS


@dataclass(frozen=True, slots=True)
class Paths:
    """Every path below one ANYCARD_HOME."""

    home: Path

    @property
    def database(self) -> Path:
        return self.home / "anycard.db"

    @property
    def configuration(self) -> Path:
        return self.home / "config.toml"

    @property
    def reserve(self) -> Path:
        return self.home / "reserve"

    @property
    def daemon_log(self) -> Path:
        return self.home / "daemon.log"

    @property
    def daemon_lock(self) -> Path:
        return self.home / "daemon.lock"

    @property
    def jobs(self) -> Path:
        return self.home / "jobs"

    def job(self, job_id: int) -> Path:
        return self.jobs / str(job_id)

    def attempt(self, job_id: int, item: int | str, number: int, *, owned: bool = False) -> Path:
        """The stem of an attempt's files, all in the job's folder. ``owned``: in a folder of their own, the submitting user's."""
        folder, name = self.job(job_id), f"{item}.{number}"
        return folder / name / name if owned else folder / name

    def relative(self, path: str) -> str:
        """``path`` as it is kept in the store: counted from the home where it lies inside, so that the home can be moved."""
        return path.removeprefix(f"{self.home}/")

    def absolute(self, kept: str) -> str:
        """What ``relative`` was given, in the home as it now is."""
        return os.path.join(self.home, kept)  # noqa: PTH118  of thousands at once, and a Path costs ten times as much

    def checkpoint(self, job_id: int, item: int) -> Path:
        return self.job(job_id) / f"{item}.checkpoint"

    def output(self, job_id: int, item: int) -> Path:
        return self.home / "outputs" / str(job_id) / str(item)

    @property
    def offers(self) -> Path:
        """Catalogues of offers that somebody had fetched."""
        return self.home / "offers"

    @property
    def shared_mark(self) -> Path:
        """Exists when this is the home of a shared daemon."""
        return self.home / "shared"

    @property
    def socket(self) -> Path:
        """The daemon's API socket."""
        return self._socket("run", "d")

    @property
    def supervisor_socket(self) -> Path:
        """In a folder of its own, 0700 also where everybody may reach the API."""
        return self._socket("run/supervisor", "s")

    def socket_name(self, kind: str = "d") -> str:
        """Short, and the same however the home is spelled."""
        return hashlib.sha256(os.fsencode(os.path.realpath(self.home))).hexdigest()[:12] + f".{kind}"

    def _socket(self, folder: str, kind: str) -> Path:
        name = self.socket_name(kind)
        runtime = os.environ.get("XDG_RUNTIME_DIR")
        path = self.home / folder / name
        if runtime and Path(runtime).is_dir():
            path = Path(runtime) / "anycard" / name
        if fits_a_socket(path):
            return path
        return Path("/tmp") / f"anycard-{os.getuid()}" / name  # noqa: S108  the folder is made 0700 and its owner checked


def fits_a_socket(path: Path) -> bool:
    """Whether the system can give a socket this name."""
    return len(os.fsencode(path)) <= _SOCKET_PATH_MAX


def home_from_environment(flag: str | None = None) -> Path:
    """ANYCARD_HOME: the flag, the environment, else the machine's shared home where there is one, else the user's data folder
    (``~/.local/share/anycard`` on Linux)."""
    chosen = flag or os.environ.get("ANYCARD_HOME")
    if chosen:
        return Path.cwd() / os.path.expanduser(chosen)  # noqa: PTH111  Path.expanduser raises for a user that is not there
    if os.path.exists(Paths(SHARED_HOME).shared_mark):  # noqa: PTH110  Path.exists raises where a folder is closed to us
        return SHARED_HOME
    return data_folder(sys.platform) / "anycard"


def data_folder(system: str) -> Path:
    """Where the user's programs keep their data on ``system`` (as ``sys.platform`` names it)."""
    if system == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return Path(local) if local else Path.home() / "AppData" / "Local"
    if system == "darwin":
        return Path.home() / "Library" / "Application Support"
    xdg = os.environ.get(
        "XDG_DATA_HOME", ""
    )  # https://specifications.freedesktop.org/basedir-spec/: a relative one is ignored
    return Path(xdg) if xdg.startswith("/") else Path.home() / ".local" / "share"


def paths(flag: str | None = None) -> Paths:
    return Paths(home_from_environment(flag))


def configuration(where: Paths) -> dict[str, Any]:
    """What ``config.toml`` of the home says (docs/webhooks.md), {} where there is none.

    UsageError when it is no TOML, holds a table that nobody reads, or others may read it: it may hold secrets.
    """
    import tomllib

    try:
        with where.configuration.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            read = tomllib.load(file)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UsageError("{file} cannot be read: {why}", file=where.configuration, why=error.strerror) from None
    except ValueError as error:  # TOMLDecodeError, UnicodeDecodeError; it says the line and not what stands there
        raise UsageError("{file} is no TOML: {why}", file=where.configuration, why=str(error)) from None
    if os.name == "posix" and mode & 0o077:
        raise UsageError(
            "{file} may be read by others (mode {mode}), and it may hold secrets",
            hint="chmod 600 {file}",
            file=where.configuration,
            mode=f"{mode:04o}",
        )
    for table in read:
        if table not in _TABLES:
            raise UsageError(
                "{file}: {table} is not a table of the configuration",
                hint="it takes {known}",
                file=where.configuration,
                table=table,
                known=", ".join(_TABLES),
            )
    return read
