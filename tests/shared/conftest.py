"""A shared daemon as root, and two users without rights. Skipped, and said why, where this is not root."""

from __future__ import annotations

import grp
import json
import os
import pwd
import secrets
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from called import Cli

import anycard

SOURCE = str(Path(anycard.__file__).parents[1])
PACKAGES = sysconfig.get_path("purelib")


@dataclass(frozen=True)
class Member:
    """One user of the machine, at their own command line."""

    name: str
    uid: int
    gid: int
    shared_home: Path
    python: str

    @property
    def folder(self) -> Path:
        return Path(pwd.getpwuid(self.uid).pw_dir)

    def run(
        self, *argv: str, anycard_home: str | None = "", cwd: Path | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Any program, as this user with their groups."""
        env = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.folder),
            "USER": self.name,
            "LC_ALL": "C.UTF-8",
            "PYTHONPATH": f"{SOURCE}:{PACKAGES}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "ANYCARD_HOME": str(self.shared_home) if anycard_home == "" else anycard_home,
        }
        return subprocess.run(
            argv,
            capture_output=True,
            timeout=120,
            cwd=cwd or self.folder,
            env={name: value for name, value in env.items() if value is not None},
            user=self.uid,
            group=self.gid,
            extra_groups=os.getgrouplist(self.name, self.gid),
            umask=0o022,
        )

    def __call__(self, *argv: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
        return self.run(self.python, "-m", "anycard.cli", *argv, **more)

    def json(self, *argv: str) -> Any:
        return json.loads(self(argv[0], "--json", *argv[1:]).stdout)

    def file(self, name: str, text: str, mode: int = 0o600) -> str:
        path = self.folder / name
        path.write_text(text)
        os.chown(path, self.uid, self.gid)
        path.chmod(mode)
        return str(path)

    def ran(self, text: str) -> Any:
        """Submits a job file and follows it to its end: JOB with its items."""
        answer = self("run", "--json", self.file("job.yaml", text))
        assert answer.stdout, answer.stderr
        return json.loads(answer.stdout)

    def may_read(self, path: str | Path) -> bool:
        return (
            self.run(
                "/bin/sh", "-c", 'if [ -d "$1" ]; then ls -- "$1"; else cat -- "$1"; fi', "sh", str(path)
            ).returncode
            == 0
        )


@dataclass(frozen=True)
class Team:
    root: Cli
    ann: Member
    ben: Member


def _python_for(uid: int) -> str:
    """An interpreter that other users may run, with our packages on its path."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, f"/usr/bin/python{version}", f"/usr/local/bin/python{version}"):
        env = {"PYTHONPATH": f"{SOURCE}:{PACKAGES}", "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            ran = subprocess.run(
                [python, "-c", "import anycard.cli.main"], user=uid, cwd="/", env=env, capture_output=True
            )
        except OSError:
            continue
        if ran.returncode == 0:
            return python
    pytest.skip(f"other users cannot run {sys.executable} nor read {SOURCE}: apt-get install python{version}")


@pytest.fixture(scope="module")
def team() -> Iterator[Team]:
    if os.getuid() != 0:
        pytest.skip("run as root: a shared daemon starts programs as other users")
    if shutil.which("useradd") is None:
        pytest.skip("apt-get install passwd: it holds useradd")
    tag = secrets.token_hex(3)
    base = Path(tempfile.mkdtemp(prefix="anycard-shared-"))  # pytest's own folders are closed to other users
    base.chmod(0o711)
    names = [f"ann-{tag}", f"ben-{tag}"]
    group = f"lab-{tag}"
    subprocess.run(["groupadd", group], check=True)
    root = Cli(base / "home")
    try:
        for name in names:
            subprocess.run(
                ["useradd", "--create-home", "--home-dir", str(base / name), "--groups", group, name], check=True
            )
            (base / name).chmod(0o700)
        users = [pwd.getpwnam(name) for name in names]
        python = _python_for(users[0].pw_uid)
        ann, ben = (Member(user.pw_name, user.pw_uid, user.pw_gid, root.home, python) for user in users)
        started = root("up", "--shared", "-d")
        assert started.returncode == 0, started.stderr
        yield Team(root, ann, ben)
    finally:
        root("down", "--stop")
        for name in names:
            subprocess.run(["userdel", "--force", name], check=False, capture_output=True)
        if any(entry.gr_name == group for entry in grp.getgrall()):
            subprocess.run(["groupdel", group], check=False, capture_output=True)
        shutil.rmtree(base, ignore_errors=True)
