"""What is private on this machine and known beforehand: names of people and of the machine, secrets in the environment."""

from __future__ import annotations

import platform
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from anycard.host.host import Host

SECRET_NAME = re.compile(
    r"(?i)(passw|passphrase|secret|token|credential|cookie|session_?key|private|api_?key|access_?key|auth|bearer|signature|dsn"
    r"|(?:^|_)(?:key|pass|pwd|pat|sas)(?:$|_))"
)
# A value of such a variable may be a path or a flag rather than a secret: those are no secrets.
_NO_SECRET = re.compile(r"(?i)(?:[01]|true|false|yes|no|on|off|none|null|/[\w./-]*)")


@dataclass(frozen=True, slots=True)
class Private:
    """What must not be in a bundle. ``people`` are user, group and full names; ``machines`` host and domain names; ``secrets`` values."""

    people: frozenset[str] = frozenset()
    machines: frozenset[str] = frozenset()
    secrets: frozenset[str] = frozenset()


def of_this_machine(host: Host) -> Private:
    """Reads the user and group lists, the machine's names and the environment of a live host."""
    return Private(_people(host.environ), _machines(host), _secrets(host.environ))


def _people(environ: Mapping[str, str]) -> frozenset[str]:
    names = {environ.get(variable, "") for variable in ("USER", "LOGNAME", "SUDO_USER", "USERNAME")}
    try:
        import grp
        import pwd
    except ImportError:  # Windows
        return frozenset(name for name in names if name)
    for user in pwd.getpwall():
        if _is_person(user.pw_uid):
            names |= {user.pw_name, user.pw_gecos.split(",")[0].strip(), Path(user.pw_dir).name}
    names |= {group.gr_name for group in grp.getgrall() if _is_person(group.gr_gid)}
    return frozenset(name for name in names if name)


def _is_person(number: int) -> bool:
    """System accounts end below 1000 (Linux) or 500 (macOS); 65534 is nobody."""
    first = 500 if platform.system() == "Darwin" else 1000
    return number >= first and number != 65534


def _machines(host: Host) -> frozenset[str]:
    names = {socket.gethostname(), platform.node()}
    names |= {host.environ.get(variable, "") for variable in ("HOSTNAME", "COMPUTERNAME", "USERDOMAIN")}
    names.add((host.read("/etc/hostname").text or "").strip())
    for line in (host.read("/etc/resolv.conf").text or "").splitlines():
        words = line.split()
        if words and words[0] in ("search", "domain"):
            names |= {word.strip(".") for word in words[1:]}
    for name in list(names):
        first, _, domain = name.partition(".")
        names |= {first, domain if "." in domain else ""}
    return frozenset(name for name in names if name)


def _secrets(environ: Mapping[str, str]) -> frozenset[str]:
    return frozenset(
        value.strip()
        for name, value in environ.items()
        if SECRET_NAME.search(name) and len(value.strip()) >= 4 and not _NO_SECRET.fullmatch(value.strip())
    )
