"""Which daemon a verb speaks to, and who may start which."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from anycard import config
from anycard.config import Paths


def test_the_machines_shared_home_is_everybodys_default_once_it_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "SHARED_HOME", tmp_path / "lib")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("ANYCARD_HOME", raising=False)
    personal = config.home_from_environment()
    assert personal != tmp_path / "lib"
    (tmp_path / "lib").mkdir()
    assert config.home_from_environment() == personal  # a folder alone is none
    Paths(tmp_path / "lib").shared_mark.touch()
    assert config.home_from_environment() == tmp_path / "lib"
    assert config.home_from_environment(str(tmp_path / "own")) == tmp_path / "own"
    monkeypatch.setenv("ANYCARD_HOME", str(tmp_path / "mine"))
    assert config.home_from_environment() == tmp_path / "mine"


def test_a_home_has_one_socket_however_it_is_spelled(tmp_path, monkeypatch):
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    names = {Paths(tmp_path / name).socket.name for name in ("real", "link", "real/../real")}
    assert len(names) == 1
    paths = Paths(Path("/h"))
    assert paths.socket.parent != paths.supervisor_socket.parent


def test_without_their_daemon_users_are_told_and_start_none(team):
    team.root("down")
    try:
        told = team.ann("jobs")
        assert told.returncode == 125
        assert b"shared daemon" in told.stderr
        assert b"ANYCARD_HOME" in told.stderr
        for verb in (["jobs"], ["up", "-d"]):
            told = team.root(*verb)
            assert told.returncode == 125, told.stdout
            assert b"up --shared" in told.stderr
        assert b"shared" in team.root("up").stderr
    finally:
        assert team.root("up", "--shared", "-d").returncode == 0
    assert team.ann("jobs").returncode == 0


def test_a_user_may_still_have_a_daemon_of_their_own(team):
    own = str(team.ann.folder / "own")
    try:
        ran = team.ann("run", "--", "id", "-u", anycard_home=own)
        assert ran.stdout == f"{team.ann.uid}\n".encode(), ran.stderr
        foreign = team.ben("jobs", anycard_home=own)
        assert foreign.returncode != 0
        assert not foreign.stdout
    finally:
        team.ann("down", "--stop", anycard_home=own)


def test_a_personal_daemon_lets_nobody_else_in_even_when_its_socket_is_reached(team):
    own = team.ann.folder / "own2"
    team.ann.folder.chmod(0o711)
    try:
        assert team.ann("up", "-d", anycard_home=str(own)).returncode == 0
        socket = Paths(own).home / "run" / Paths(own).socket_name()
        for path in (own, own / "run"):
            path.chmod(0o711)
        socket.chmod(0o666)  # as if its owner had opened everything by mistake
        refused = team.ben("jobs", anycard_home=str(own))
        assert refused.returncode == 2
        assert b"serves only the user it runs as" in refused.stderr
    finally:
        team.ann("down", "--stop", anycard_home=str(own))
        team.ann.folder.chmod(0o700)


def test_only_root_opens_a_shared_home_and_only_where_users_can_reach_it(team, tmp_path):
    user = team.ann("up", "--shared", "-d", anycard_home=str(team.ann.folder / "x"))
    assert user.returncode == 125
    assert b"must run as root" in user.stderr
    closed = Path(tempfile.mkdtemp(prefix="ac-"))  # 0700, and short: a shared home holds its sockets
    told = team.root("--home", str(closed / "home"), "up", "--shared", "-d")
    assert told.returncode == 125
    assert b"cannot reach" in told.stderr
    shutil.rmtree(closed)


def test_the_daemon_is_known_as_shared(team):
    with team.root.client() as client:
        assert client.status()["mode"] == "shared"
    assert team.ann.json("status")["mode"] == "shared"


@pytest.mark.parametrize("unit", ["anycard.service", "anycard-user.service"])
def test_the_units_are_ones_that_systemd_reads(unit):
    file = Path(__file__).parents[2] / "packaging" / "systemd" / unit
    keys = dict(
        line.split("=", 1) for line in file.read_text().splitlines() if "=" in line and not line.startswith("#")
    )
    assert keys["Type"] == "notify"
    assert keys["KillMode"] == "process"
    if Path("/usr/bin/systemd-analyze").exists():
        checked = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", str(file)],
            capture_output=True,
            text=True,
            env={**os.environ, "SYSTEMD_OFFLINE": "1"},
        )
        fine = ("is not executable", "'DelegateSubgroup'")  # not installed here; a key that older ones say they ignore
        complaints = [
            line for line in checked.stderr.splitlines() if unit in line and not any(word in line for word in fine)
        ]
        assert not complaints
