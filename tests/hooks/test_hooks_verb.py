"""anycard hooks: lists them without their addresses, and tries them."""

from __future__ import annotations

import json

import pytest
from called import Cli

TOKEN = "t0ken-of-the-address"


@pytest.fixture
def cli(tmp_path, receiver):
    called = Cli(tmp_path / "home")
    called.home.mkdir(mode=0o700)
    file = called.home / "config.toml"
    file.touch(mode=0o600)
    file.write_text(
        f'[[hooks]]\nname = "team"\nshape = "wecom"\nurl = "{receiver.url}/{TOKEN}"\nlanguage = "zh"\n'
        f'[[hooks]]\nname = "pager"\non = ["card-lost"]\nurl = "{receiver.url}/{TOKEN}"\n'
    )
    return called


def test_lists_them(cli, receiver):
    told = cli("hooks")
    lines = told.stdout.decode().splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["team", "pager"]
    assert lines[2].split()[2:] == ["json", "card-lost"]
    shown = cli.json("hooks")
    assert [hook["shape"] for hook in shown["hooks"]] == ["wecom", "json"]
    assert TOKEN not in told.stdout.decode() + json.dumps(shown)
    assert receiver.posts == []
    assert not (cli.home / "anycard.db").exists()  # no daemon was started for it


def test_tries_them(cli, receiver):
    receiver.answers = [(200, b'{"errcode":93000,"errmsg":"invalid webhook url"}', {})]
    told = cli("hooks", "--test")
    assert told.returncode == 1
    assert b"team: was not taken: code 93000" in told.stdout
    assert b"pager: was taken" in told.stdout
    assert "\u6d4b\u8bd5" in receiver.posts[0].json["text"]["content"]
    assert receiver.posts[1].json["kind"] == "card-lost"
    receiver.body = b'{"errcode":0}'
    only = cli.json("hooks", "--test", "team")
    assert only["hooks"] == [
        {"name": "team", "host": receiver.url.removeprefix("http://"), "shape": "wecom",
         "on": ["card-idle", "card-lost", "done", "failed", "too-hot"], "language": "zh", "taken": True, "why": None}
    ]  # fmt: skip
    assert cli("hooks", "nobody").returncode == 3


def test_none(tmp_path):
    told = Cli(tmp_path / "home")("hooks")
    assert told.returncode == 0
    assert b"no hooks" in told.stderr
