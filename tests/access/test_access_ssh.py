"""The tunnels of docs/access.md, with a real sshd on loopback."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from called import Cli, until

from anycard.api.client import Client
from anycard.config import Paths

_WAYS = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@dataclass(frozen=True)
class Far:
    """The host at the other end: an sshd that knows our key."""

    port: int
    folder: Path

    def tunnel(self, *options: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["ssh", "-N", "-F", "none", "-p", str(self.port), "-i", str(self.folder / "key"), "-o", "ExitOnForwardFailure=yes",
             "-o", f"UserKnownHostsFile={self.folder / 'known'}", "-o", "StrictHostKeyChecking=accept-new", *options,
             f"{pwd.getpwuid(os.getuid()).pw_name}@127.0.0.1"], stdin=subprocess.DEVNULL,
        )  # fmt: skip


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Far]:
    sshd = shutil.which("sshd", path=_WAYS)
    if sshd is None or not shutil.which("ssh") or not shutil.which("ssh-keygen"):
        pytest.skip("ssh and sshd are not installed: apt-get install openssh-server openssh-client")
    folder = tmp_path_factory.mktemp("ssh")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(
            mode=0o755, exist_ok=True
        )  # where it gives its rights away; a package's service makes it else
    for name in ("host", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True, timeout=60)
    (folder / "authorized").write_text((folder / "key.pub").read_text())
    port = free_port()
    (folder / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {folder / 'host'}\nAuthorizedKeysFile {folder / 'authorized'}\n"
        f"PidFile {folder / 'pid'}\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n"
    )
    with (folder / "sshd.log").open("wb") as log:
        running = subprocess.Popen([sshd, "-D", "-e", "-f", folder / "sshd_config"], stdout=log, stderr=log)

    def listens() -> bool:
        assert running.poll() is None, (folder / "sshd.log").read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    until(listens)
    yield Far(port, folder)
    running.terminate()
    running.wait(timeout=60)


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    called = Cli(tmp_path / "home")
    yield called
    called("down", "--stop")


def test_the_socket_through_a_tunnel(far, cli, tmp_path):
    assert cli("up", "-d").returncode == 0
    near = tmp_path / "gpu1.sock"
    tunnel = far.tunnel("-o", "StreamLocalBindMask=0177", "-L", f"{near}:{Paths(cli.home).socket}")
    try:
        until(near.exists)
        assert stat.S_IMODE(near.stat().st_mode) == 0o600  # nobody else on this machine may use it
        with Client(socket=near) as client:
            job = client.submit(command=["echo", "from afar"], cwd=str(tmp_path))["jobs"][0]["id"]
            assert list(client.watch(job))[-1]["job"]["state"] == "succeeded"
            assert b"from afar" in b"".join(client.log(job))
            assert client.job(job)["user"] == pwd.getpwuid(os.getuid()).pw_name
    finally:
        tunnel.terminate()
        tunnel.wait(timeout=60)


def test_a_port_through_a_tunnel(far, cli):
    told = cli.json("up", "-d", "--port", "0")
    port = free_port()
    tunnel = far.tunnel("-L", f"127.0.0.1:{port}:{told['url'].removeprefix('http://')}")
    try:

        def reached() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        until(reached)
        with Client(url=f"http://127.0.0.1:{port}", token=told["token"]) as client:
            assert client.status()["home"] == str(cli.home)
    finally:
        tunnel.terminate()
        tunnel.wait(timeout=60)
