"""A token of one's own, which holds when the daemon starts again."""

from __future__ import annotations

import pytest
from called import Cli

from anycard.api.client import Client
from anycard.errors import ForbiddenError

TOKEN = "kTq3v0yPzQ8mJw5sXcRb7NfL2aHdUeGi"


@pytest.fixture
def cli(tmp_path):
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text(TOKEN + "\n")
    called = Cli(tmp_path / "home", {"ANYCARD_TOKEN_FILE": str(file)})
    yield called
    called("down", "--stop")


def test_it_holds_when_the_daemon_starts_again(cli):
    for _ in range(2):
        url = cli.json("up", "-d", "--port", "0")["url"]
        with Client(url=url, token=TOKEN) as client:
            assert client.status()["home"] == str(cli.home)
        with Client(url=url, token=TOKEN[:-1]) as client, pytest.raises(ForbiddenError):
            client.status()
        assert cli("down").returncode == 0
    for path in cli.home.rglob("*"):
        assert not path.is_file() or TOKEN.encode() not in path.read_bytes(), path


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        (TOKEN, 0o644, "may be read by everybody"),
        ("short", 0o600, "holds no token"),
        (f"{TOKEN} {TOKEN}", 0o600, "holds no token"),
        (None, 0o600, "cannot be read"),
    ],
)
def test_a_file_that_will_not_do(cli, text, mode, said):
    file = cli.folder / "token"
    if text is None:
        file.unlink()
    else:
        file.write_text(text)
        file.chmod(mode)
    told = cli("up", "-d", "--port", "0")
    assert told.returncode != 0
    assert said in told.stderr.decode()
    assert TOKEN not in told.stderr.decode() + (cli.home / "daemon.log").read_text()
