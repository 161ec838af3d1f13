"""What an installation holds: every file of the package, whatever its kind, and not more."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "anycard"


def test_every_file_that_is_no_module_is_package_data() -> None:
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    installed = {file for pattern in setup["package-data"]["anycard"] for file in PACKAGE.glob(pattern)}
    there = {file for file in PACKAGE.rglob("*") if file.is_file() and file.suffix not in (".py", ".pyc")}
    assert sorted(str(file.relative_to(ROOT)) for file in there - installed) == []


def test_every_folder_with_modules_is_a_package() -> None:
    """Setuptools leaves the others out, and an editable installation would not show it."""
    folders = {file.parent for file in PACKAGE.rglob("*.py")}
    assert [str(folder.relative_to(ROOT)) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []
