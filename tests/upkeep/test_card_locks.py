"""Cards are one daemon's at a time, whichever home it has; and the locks' folder is everybody's, so nothing in it is believed."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import uuid

import pytest
from called import Cli, until
from nvml_standin import NvmlStandin

from anycard.jobs import cardlocks
from anycard.jobs.cardlocks import CardLocks

ONE_CARD = "resources: {accelerators: 'A100:1'}\n"


@pytest.fixture
def two_homes(nvml_library, tmp_path):
    """Two daemons of one machine with two cards."""
    standin = NvmlStandin(nvml_library, tmp_path / "cards.txt")
    uuids = [f"GPU-{uuid.uuid4()}" for _ in range(2)]
    standin.describe(
        "driver = 580.95.05\ncuda = 13000\n"
        + "".join(f"[card]\nbus = 00000000:{16 + at:02X}:00.0\nuuid = {card}\n" for at, card in enumerate(uuids))
    )
    homes = [Cli(tmp_path / name / "home", standin.env) for name in ("one", "two")]
    for home in homes:
        home.folder.mkdir()
        assert home("up", "-d").returncode == 0
    yield homes
    for home in homes:
        home("down", "--stop")


def free_cards(cli) -> list[bool]:
    with cli.client() as client:
        return [card["free"] for card in client.cards()["cards"] if card["accelerator"]]


def test_the_second_daemon_says_who_holds_a_card_and_waits(two_homes):
    one, two = two_homes
    holder = one.submit(ONE_CARD + "run: echo on $ANYCARD_CARDS; sleep 600\n")
    until(lambda: sorted(free_cards(two)) == [False, True])
    with two.client() as client:
        taken = next(card for card in client.cards()["cards"] if card["free"] is False)
        pid = one.client().status()["pid"]
    assert f"pid {pid}" in taken["not_free_because"]
    assert str(one.home) in taken["not_free_because"]
    assert two.ran(ONE_CARD + "run: 'true'\n")["state"] == "succeeded"  # the other card is free

    both = two.submit("resources: {accelerators: 'A100:2'}\nrun: echo $CUDA_VISIBLE_DEVICES\n")
    with two.client() as client:
        until(lambda: client.job(both)["reason"])
        assert client.job(both)["state"] == "queued"
    one("cancel", str(holder))
    one.over(holder)
    assert two.over(both)["state"] == "succeeded"  # given back with the attempt's end
    until(lambda: free_cards(one) == [True, True])


def test_two_daemons_never_share_a_card(two_homes):
    one, two = two_homes
    # Each program leaves its mark on its card while it runs; a second mark at the same time is the proof of a double grant.
    marks = one.folder.parent / "marks"
    marks.mkdir()
    batch = (
        ONE_CARD
        + f"run: |\n  mkdir {marks}/$CUDA_VISIBLE_DEVICES || exit 9\n  sleep 0.2\n  rmdir {marks}/$CUDA_VISIBLE_DEVICES\n"
        + "anycard: {foreach: {count: 8}}\n"
    )
    jobs = [(home, home.submit(batch)) for home in (one, two)]
    for home, job in jobs:
        assert home.over(job)["counts"]["succeeded"] == 8


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "locks"
    made.mkdir()
    return made


def test_one_holder_at_a_time(folder, tmp_path):
    one, two = CardLocks(tmp_path / "one", folder), CardLocks(tmp_path / "two", folder)
    assert one.take(["a", "b"])
    assert not two.take(["c", "b"])
    assert two.holder("c") is None  # what was taken on the way was given back
    assert str(tmp_path / "one") in (two.holder("a") or "")
    assert one.holder("a") is None
    one.give_back(["a"])
    assert two.take(["a"])
    two.close()
    one.close()
    assert two.holder("a") is None


def test_a_lock_dies_with_its_daemon(folder, tmp_path):
    script = (
        "import sys, time; from pathlib import Path; from anycard.jobs.cardlocks import CardLocks\n"
        f"locks = CardLocks(Path('/its/home'), Path({str(folder)!r})); assert locks.take(['a']); print('held', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        mine = CardLocks(tmp_path, folder)
        assert f"pid {other.pid}, /its/home" in (mine.holder("a") or "")
        other.kill()
    assert mine.holder("a") is None
    assert mine.take(["a"])
    mine.close()


def test_what_lies_there_and_is_no_lock_is_neither_taken_nor_touched(folder, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("precious")
    locks = CardLocks(tmp_path, folder)
    tricks = {
        "link": lambda path: path.symlink_to(precious),
        "dangling": lambda path: path.symlink_to(tmp_path / "made-by-us"),
        "second-name": lambda path: os.link(precious, path),
        "pipe": os.mkfifo,
        "folder": os.mkdir,
    }
    for name, trick in tricks.items():
        trick(folder / f"{name}.lock")
        assert not locks.take([name]), name
        assert locks.holder(name), name
    assert precious.read_text() == "precious"
    assert not (tmp_path / "made-by-us").exists()


def test_a_card_whose_name_is_a_path_stays_in_the_folder(folder, tmp_path):
    locks = CardLocks(tmp_path, folder)
    assert locks.take(["../../x/y", "GPU 0\n"])
    assert sorted(path.parent for path in folder.iterdir()) == [folder, folder]
    locks.close()


def test_a_lock_that_was_removed_is_not_held(folder, tmp_path):
    one, two = CardLocks(tmp_path / "one", folder), CardLocks(tmp_path / "two", folder)
    assert one.take(["a"])
    (folder / "a.lock").unlink()
    assert two.take(["a"])  # nothing can be done about that; but one file is one lock
    two.close()
    one.close()


def test_other_users_daemons_can_take_a_lock_that_ours_made(folder, tmp_path):
    before = os.umask(0o077)
    locks = CardLocks(tmp_path, folder)
    assert locks.take(["a"])
    os.umask(before)
    locks.close()  # the kernel would refuse O_CREAT on another's file there, and 0600 any open at all
    assert stat.S_IMODE((folder / "a.lock").stat().st_mode) == 0o666


def test_the_machines_folder_is_a_real_one(tmp_path, monkeypatch):
    first, second = tmp_path / "run-lock", tmp_path / "tmp"
    for place in (first, second):
        place.mkdir()
    monkeypatch.setattr(cardlocks, "_PLACES", (first, second))
    assert CardLocks(tmp_path)._folder == first / "anycard"
    assert stat.S_IMODE((first / "anycard").stat().st_mode) == 0o1777
    (first / "anycard").rmdir()
    (first / "anycard").symlink_to(tmp_path)  # somebody was there before us
    assert CardLocks(tmp_path)._folder == second / "anycard"
