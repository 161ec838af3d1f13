"""Where the home is when nobody says."""

from __future__ import annotations

from pathlib import Path

import pytest

from anycard.config import data_folder


@pytest.mark.parametrize(
    ("system", "env", "expected"),
    [
        ("linux", {}, "/u/.local/share"),
        ("linux", {"XDG_DATA_HOME": "/data"}, "/data"),
        ("linux", {"XDG_DATA_HOME": "data"}, "/u/.local/share"),
        ("freebsd14", {}, "/u/.local/share"),
        ("darwin", {"XDG_DATA_HOME": "/data"}, "/u/Library/Application Support"),
        ("win32", {}, "/u/AppData/Local"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local"),
    ],
)
def test_data_folders_of_the_systems(
    monkeypatch: pytest.MonkeyPatch, system: str, env: dict[str, str], expected: str
) -> None:
    for name in ("XDG_DATA_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/u")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert data_folder(system) == Path(expected)
