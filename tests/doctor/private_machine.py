"""A /dev of one's own: a mount namespace in which device nodes and /dev/shm can be made as a test wants them, and nobody else sees them.

Needs root, or sudo without a password.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping

_OWN_DEV = """
mount --make-rprivate /
old=$(mktemp -d)
mount --rbind /dev "$old"
mount -t tmpfs -o mode=755,dev own /dev
for name in null zero full random urandom tty; do cp -a "$old/$name" /dev/; done
ln -s /proc/self/fd /dev/fd
mkdir /dev/pts /dev/shm
mount --rbind "$old/pts" /dev/pts
ln -s pts/ptmx /dev/ptmx
mount -t tmpfs -o mode=1777 shm /dev/shm
"""
AS_ROOT = () if os.geteuid() == 0 else ("sudo", "-n")
# root that must keep to modes as anybody must
NO_OVERRIDE = (
    "setpriv",
    "--bounding-set",
    "-dac_override,-dac_read_search",
    "--inh-caps",
    "-dac_override,-dac_read_search",
)


def shell(script: str, env: Mapping[str, str] | None = None) -> list[str]:
    """The command that runs ``script`` with a /dev of its own and ``env`` on top of ours."""
    given = " ".join(f"{name}={shlex.quote(value)}" for name, value in (env or {}).items())
    exported = f"export {given}\n" if given else ""
    return [*AS_ROOT, "unshare", "--mount", "/bin/sh", "-ec", _OWN_DEV + exported + script]


def anycard(*arguments: str) -> str:
    return shlex.join([sys.executable, "-m", "anycard.cli", *arguments])


def run(script: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(shell(script, env), stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=120)
