"""Folders that attempts find ready: made, or handed on from an attempt of a moment that left them as they were."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from anycard.engines.local.supervisor.folders import Folders


def numbers(*folders: Path) -> list[int]:
    return [folder.stat().st_ino for folder in folders]


def test_an_empty_folder_is_handed_on_once(tmp_path: Path) -> None:
    folders, first, second, third = Folders(), *(tmp_path / name for name in ("job/a", "next/b", "next/c"))
    folders.make(str(first))
    number = first.stat().st_ino
    folders.hand_on([str(first)], 0.1)
    folders.make(str(second))
    folders.make(str(third))
    assert not first.exists()
    assert second.stat().st_ino == number != third.stat().st_ino
    assert second.stat().st_mode & 0o777 == third.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("change", ["file", "mode", "link", "gone", "long"])
def test_a_folder_that_may_mean_something_stays(tmp_path: Path, change: str) -> None:
    folders, first, second = Folders(), tmp_path / "a", tmp_path / "b"
    folders.make(str(first))
    if change == "file":
        (first / "result").touch()
    elif change == "mode":
        first.chmod(0o750)
    elif change in ("link", "gone"):
        first.rmdir()
        if change == "link":
            first.symlink_to(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    folders.hand_on([str(first)], 60.0 if change == "long" else 0.1)
    folders.make(str(second))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*before, "b"])
    assert not any(second.iterdir())


def test_one_that_is_there_is_not_replaced(tmp_path: Path) -> None:
    """As the checkpoint folder of a second try, and a spare one filled or taken away meanwhile is not handed on."""
    folders, spare, mine, other = Folders(), tmp_path / "spare", tmp_path / "mine", tmp_path / "other"
    folders.make(str(spare))
    folders.hand_on([str(spare)], 0.0)
    mine.mkdir()
    (mine / "step-1").touch()
    folders.make(str(mine))
    assert [path.name for path in mine.iterdir()] == ["step-1"]
    os.rmdir(spare)
    folders.make(str(other))
    assert other.is_dir()
    plain = tmp_path / "plain"
    plain.touch()
    with pytest.raises(FileExistsError):
        folders.make(str(plain))


def test_the_next_attempt_finds_its_folders_empty_and_its_own(rig: Any) -> None:
    """What one wrote is never seen by another, in output nor checkpoint."""
    script = 'ls -A "$OUT" "$CHECK" | grep -v : ; [ $((N % 2)) = 0 ] || echo mine >"$OUT/$N"; [ $((N % 3)) = 0 ] || echo mine >"$CHECK/$N"'

    async def scenario() -> None:
        async with rig:
            for number in range(1, 25):
                check = f"{rig.stem(number)}.checkpoint"
                env = {"OUT": str(rig.file(number, "output")), "CHECK": check, "N": str(number)}
                await rig.run(rig.sh(number, script, env=env, checkpoint=check))
                assert rig.log(number).split() == []
            for number in range(1, 25):
                made = rig.file(number, "output")
                assert [path.name for path in made.glob("*")] == ([str(number)] if number % 2 else [])
                check = rig.file(number, "checkpoint")
                assert [path.name for path in check.glob("*")] == ([str(number)] if number % 3 else [])

    asyncio.run(scenario())
