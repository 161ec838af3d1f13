"""What people hand over is opened safely: any encoding, no way out of an archive, no bomb, no traceback."""

from __future__ import annotations

import gzip
import io
import os
import tarfile

import pytest

from anycard.doctor import reading
from anycard.doctor.reading import open_evidence
from anycard.doctor.reason import diagnose
from anycard.errors import NotFoundError, UsageError

XID = "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\n"


def _cause(path) -> str | None:
    found = diagnose(*open_evidence(str(path))).findings
    return found[0].cause if found else None


def test_a_folder_with_a_platform_and_a_question(tmp_path):
    (tmp_path / "dmesg.txt").write_text(XID)
    (tmp_path / "question.txt").write_text("What is wrong?")
    (tmp_path / "platform.txt").write_text("linux\n")
    sources, platform = open_evidence(str(tmp_path))
    assert platform == "linux"
    assert [(source.name, source.spoken) for source in sources] == [("dmesg.txt", False), ("question.txt", True)]
    assert _cause(tmp_path) == "gpu-fallen-off-bus"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "gb18030"])
def test_any_encoding(tmp_path, encoding):
    log = tmp_path / "log.txt"
    log.write_bytes(("显卡掉线\n" * 3 + XID).encode(encoding))
    assert _cause(log) == "gpu-fallen-off-bus"


def test_a_compressed_log(tmp_path):
    log = tmp_path / "kern.log.gz"
    log.write_bytes(gzip.compress(XID.encode()))
    assert _cause(log) == "gpu-fallen-off-bus"


@pytest.mark.parametrize("data", [b"", b"\x00" * 4096, os.urandom(20000), b"\xff" * 5000, b"a" * 50000])
def test_garbage_is_undecided(tmp_path, data):
    log = tmp_path / "log"
    log.write_bytes(data)
    assert diagnose(*open_evidence(str(log))).verdict == "undecided"


def test_links_and_pipes_in_a_folder_are_left_alone(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(XID)
    folder = tmp_path / "evidence"
    folder.mkdir()
    (folder / "link.txt").symlink_to(secret)
    os.mkfifo(folder / "pipe.txt")
    assert list(open_evidence(str(folder))[0]) == []


def _tar(path, members):
    with tarfile.open(path, "w:gz") as archive:
        for name, data, kind in members:
            member = tarfile.TarInfo(name)
            member.type = kind
            member.linkname = "/etc/passwd" if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
            member.size = len(data) if kind == tarfile.REGTYPE else 0
            archive.addfile(member, io.BytesIO(data))


def test_an_archive_that_wants_out_is_read_without_what_leads_out(tmp_path):
    bundle = tmp_path / "b.tar.gz"
    _tar(
        bundle,
        [
            ("../../escape.txt", XID.encode(), tarfile.REGTYPE),
            ("/abs.txt", XID.encode(), tarfile.REGTYPE),
            ("link.txt", b"", tarfile.SYMTYPE),
            ("hard.txt", b"", tarfile.LNKTYPE),
            ("dev", b"", tarfile.CHRTYPE),
            ("logs/dmesg.txt", XID.encode(), tarfile.REGTYPE),
        ],
    )
    names = [source.name for source in open_evidence(str(bundle))[0]]
    assert names == ["logs/dmesg.txt"]
    assert _cause(bundle) == "gpu-fallen-off-bus"
    assert sorted(os.listdir(tmp_path)) == ["b.tar.gz"]


def test_a_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_MAX_UNPACKED", 1 << 20)
    bundle = tmp_path / "bomb.tar.gz"
    _tar(bundle, [("zeros.txt", b"0" * (4 << 20), tarfile.REGTYPE)])
    with pytest.raises(UsageError, match="unpacks to more"):
        _cause(bundle)


@pytest.mark.parametrize("size", [600, 40, 11])
def test_a_truncated_archive_is_told(tmp_path, size):
    bundle = tmp_path / "b.tar.gz"
    _tar(bundle, [("dmesg.txt", os.urandom(5000), tarfile.REGTYPE)])
    bundle.write_bytes(bundle.read_bytes()[:size])
    with pytest.raises(UsageError):
        _cause(bundle)


def test_what_is_not_there_is_told(tmp_path):
    with pytest.raises(NotFoundError):
        open_evidence(str(tmp_path / "nothing"))
    with pytest.raises(UsageError):
        open_evidence("\x00")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError):
        open_evidence(str(tmp_path / "pipe"))
