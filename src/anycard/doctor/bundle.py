"""Whether what was handed over is a bundle of ``anycard capture``: then the whole recorded machine is examined."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

from anycard.errors import UsageError

if TYPE_CHECKING:
    from anycard.host.recorded import RecordedHost

_MANIFEST = "manifest.json"


def recorded_host(path: str) -> RecordedHost | None:
    """The recorded machine in ``path``, or None where it is other evidence."""
    if path == "-" or not _looks_like_one(Path(path)):
        return None
    from anycard.host.recorded import RecordedHost

    try:
        return RecordedHost.open(Path(path))
    except UsageError:
        return None  # read as any other folder or archive


def _looks_like_one(path: Path) -> bool:
    if path.is_dir():
        return (path / _MANIFEST).is_file()
    if not path.name.endswith((".tar.gz", ".tgz")):
        return False
    try:
        with tarfile.open(path, mode="r:gz") as archive:
            first = archive.next()
            return first is not None and first.name == _MANIFEST
    except (OSError, tarfile.TarError, EOFError):
        return False
