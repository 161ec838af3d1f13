"""capture needs no daemon and disturbs none; nothing private is in what it writes."""

from __future__ import annotations

import json
import os
import socket
import stat
import tarfile


def test_beside_a_running_daemon(up):
    up.ran("run: 'true'\n")
    secret = "sk-" + os.urandom(8).hex()
    told = up("capture", "--json", "bundle.tar.gz", env={"MY_API_KEY": secret})
    assert told.returncode == 0, told.stderr
    bundle = up.folder / "bundle.tar.gz"
    assert json.loads(told.stdout)["size_bytes"] == bundle.stat().st_size
    assert stat.S_IMODE(bundle.stat().st_mode) == 0o600
    with tarfile.open(bundle) as tar:
        files = [member for member in tar if member.isfile()]
        whole = b"".join(member.name.encode() + tar.extractfile(member).read() for member in files)
    assert files
    assert secret.encode() not in whole
    name = socket.gethostname()
    if len(name) > 3:
        assert name.encode() not in whole
    assert up.ran("run: 'true'\n")["state"] == "succeeded"


def test_without_a_daemon_none_is_started(fresh):
    assert fresh("capture", "bundle.tar.gz").returncode == 0
    assert fresh("status").returncode == 3
    assert fresh("capture", "no/such/folder/x.tar.gz").returncode == 2
