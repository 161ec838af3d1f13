"""``python -m anycard.store.migrate URL``: brings a store to the newest revision with Alembic. ``-`` reads the URL from stdin."""

from __future__ import annotations

import sys
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy.exc import DBAPIError

_MIGRATIONS = Path(__file__).parent / "migrations"


def configuration(url: str) -> Config:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["url"] = url
    return config


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m anycard.store.migrate URL", file=sys.stderr)
        return 2
    url = sys.stdin.readline().strip() if arguments[0] == "-" else arguments[0]
    try:
        command.upgrade(configuration(url), "head")
    except DBAPIError as error:
        print(error.orig, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
