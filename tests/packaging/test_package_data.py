"""What an installation holds: the package as it lies in src/, every file of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "anycard"


def test_every_folder_with_modules_is_a_package() -> None:
    """mypy and the import contracts leave the others out."""
    folders = {file.parent for file in PACKAGE.rglob("*.py")}
    assert [str(folder.relative_to(ROOT)) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_no_file_lies_in_the_package_that_git_ignores() -> None:
    """The build takes in whatever is there."""
    if not (ROOT / ".git").exists():
        pytest.skip("no git checkout: what is ignored is not known")
    ignored = subprocess.run(
        ["git", "ls-files", "--others", "--ignored", "--exclude-standard", "src/anycard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    assert [name for name in ignored if name and "__pycache__" not in name] == []
