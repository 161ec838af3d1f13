from __future__ import annotations

import io
import json
import os
import stat
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nvml_standin import EIGHT_CARDS, NvmlStandin

from anycard.cards.probe import probe
from anycard.errors import UsageError
from anycard.host import bundle as bundles
from anycard.host import private
from anycard.host.bundle import Bundle
from anycard.host.capture import PrivateDetailsRemain, capture, remove_private
from anycard.host.host import NOT_RECORDED, CommandResult, FileRead, NodeStat, ProcessSeen
from anycard.host.live import LiveHost
from anycard.host.private import Private
from anycard.host.recorded import RecordedHost
from anycard.host.recording import RecordingHost
from anycard.host.scrub import Scrubber


class Elsewhere(LiveHost):
    """This machine, with another environment and a tool that says more than it should."""

    def __init__(self, environ: Mapping[str, str], says: bytes) -> None:
        self._environ, self._says = environ, says

    @property
    def environ(self) -> Mapping[str, str]:
        return self._environ

    def run(self, argv: Sequence[str], timeout_s: float = 10.0) -> CommandResult:
        if argv[0] == "nvidia-smi":
            return CommandResult(tuple(argv), 0, self._says)
        return super().run(argv, timeout_s)


def everything_in(path: Path) -> str:
    with tarfile.open(path) as archive:
        return "\n".join(
            member.name + "\n" + archive.extractfile(member).read().decode("utf-8", "replace")  # type: ignore[union-attr]
            for member in archive
        )


def test_planted_secrets_are_nowhere_in_the_bundle(tmp_path: Path) -> None:
    environ = {
        "PATH": "/home/zebediah/bin:/usr/bin",
        "USER": "zebediah",
        "HOSTNAME": "quagmire-17.example.com",
        "HF_TOKEN": "hf_supersecretvalue0001",
        "DB_PASSWORD": "correct horse",
        "MY_SETTING": "nobody-needs-this",
        "CUDA_VISIBLE_DEVICES": "GPU-1b2c3d4e-0000-4000-8000-000000000009",
    }
    says = (
        b"zebediah@quagmire-17: Serial Number : 1565020099999 UUID GPU-1b2c3d4e-0000-4000-8000-000000000009\n"
        b"10.20.30.40 correct horse hf_supersecretvalue0001 /home/zebediah/x me@corp.example 3c:ec:ef:00:11:22\n"
    )
    out = tmp_path / "out.tar.gz"
    summary = capture(out, Elsewhere(environ, says))
    text = everything_in(out)
    for planted in (
        "zebediah", "quagmire", "supersecret", "correct horse", "nobody-needs-this", "1565020099999", "1b2c3d4e", "10.20.30.40",
        "me@corp", "3c:ec:ef",
    ):  # fmt: skip
        assert planted not in text
    assert "MY_SETTING" in text  # names of variables stay
    assert {"user", "host", "secret", "serial", "uuid", "ipv4", "email", "mac"} <= set(summary.removed)
    recorded = RecordedHost.open(out)
    uuid = recorded.environ["CUDA_VISIBLE_DEVICES"]
    assert uuid.startswith("GPU-00000000-") and uuid in recorded.run(("nvidia-smi", "-L")).text  # still the same card
    assert recorded.environ["PATH"].endswith("/bin:/usr/bin")


def test_this_machines_own_names_are_not_in_its_bundle(tmp_path: Path) -> None:
    out = tmp_path / "out.tar.gz"
    summary = capture(out)
    text = everything_in(out)
    scrubber = Scrubber(private.of_this_machine(LiveHost()))
    assert scrubber.survivors(text) == []
    assert summary.size_bytes == out.stat().st_size
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.tar.gz"]


def test_a_recorded_machine_has_the_same_cards(tmp_path: Path, nvml: NvmlStandin) -> None:
    nvml.describe(EIGHT_CARDS + f"process = {os.getpid()} 1000 compute\nfault = unknown nvmlDeviceGetMemoryInfo_v2\n")
    out = tmp_path / "out.tar.gz"
    capture(out)
    there, here = probe(RecordedHost.open(out)).cards, probe(LiveHost()).cards
    assert len(there) == 9
    for recorded, live in zip(there, here, strict=True):
        assert replace(recorded, id="", uuid=None, processes=()) == replace(live, id="", uuid=None, processes=())
        assert (recorded.uuid is None) == (live.uuid is None)
        assert live.vendor == "cpu" or recorded.uuid != live.uuid
    assert len({card.id for card in there}) == 9
    (process,) = there[-1].processes or ()
    assert (process.pid, process.memory_bytes) == (os.getpid(), 1000)
    assert " " not in (process.command or "")  # the program, without its arguments


def test_what_was_not_looked_at_is_not_said_to_be_absent() -> None:
    host = RecordedHost(Bundle(files={"/gone": FileRead(None, error="ENOENT")}))
    assert host.run(("never", "run")).error == NOT_RECORDED
    assert host.read("/never").error == NOT_RECORDED
    assert host.read("/gone").error == "ENOENT"
    assert host.ask("nvml") is None


def test_a_recorded_path_exists_when_anything_proves_it() -> None:
    host = RecordedHost(
        Bundle(
            folders={"/sys/a": ("b",), "/sys/none": None},
            files={
                "/etc/x": FileRead(b""),
                "/etc/shut": FileRead(None, error="EACCES"),
                "/etc/no": FileRead(None, error="ENOENT"),
            },
            links={"/l": "t", "/n": None},
        )
    )
    assert all(map(host.exists, ("/sys/a", "/sys/a/b", "/etc/x", "/etc/shut", "/l")))
    assert not any(map(host.exists, ("/sys/none", "/sys/a/c", "/etc/no", "/n", "/other")))


NAMES = st.text("abcdefgh/-_.", min_size=1, max_size=12).map(lambda name: "/" + name)
DATA = st.binary(max_size=40)


@settings(max_examples=30)
@given(
    files=st.dictionaries(NAMES, st.one_of(DATA.map(FileRead), st.just(FileRead(None, error="EACCES"))), max_size=4),
    commands=st.dictionaries(
        st.lists(st.text(max_size=8), min_size=1, max_size=3).map(tuple),
        st.tuples(DATA, DATA, st.booleans()),
        max_size=4,
    ),
    folders=st.dictionaries(NAMES, st.one_of(st.none(), st.lists(st.text(max_size=5)).map(tuple)), max_size=3),
)
def test_a_bundle_reads_back(
    tmp_path_factory: pytest.TempPathFactory,
    files: dict[str, FileRead],
    commands: dict[tuple[str, ...], tuple[bytes, bytes, bool]],
    folders: dict[str, tuple[str, ...] | None],
) -> None:
    bundle = Bundle(
        platform="linux",
        environ={"A": "b"},
        environ_names=["A", "SECRET"],
        files=files,
        commands={
            argv: CommandResult(argv, None if late else 1, out, err, timed_out=late)
            for argv, (out, err, late) in commands.items()
        },
        folders=folders,
        links={"/a": "../b", "/c": None},
        nodes={"/dev/x": NodeStat(0o20666, "root", "video", 195, 0), "/dev/y": None},
        processes={7: ProcessSeen(7, "user-1", "python3"), 8: None},
        libraries={"nvml": {"cards": [1, None, {"a": True}]}},
    )
    folder = tmp_path_factory.mktemp("bundle")
    bundles.write(bundle, folder / "x.tar.gz", {"anycard": "1"})
    assert bundles.load(folder / "x.tar.gz") == bundle
    with tarfile.open(folder / "x.tar.gz") as archive:
        archive.extractall(folder / "x", filter="data")
    (folder / "x" / "texts").mkdir(exist_ok=True)
    assert bundles.load(folder / "x") == bundle


def test_half_a_secret_at_the_cut_of_a_long_output_is_not_kept() -> None:
    argv = ("tool",)
    cut = CommandResult(argv, 0, b"first line\nkey part1-of-a-secr", truncated=True)
    late = CommandResult(("slow",), None, b"no newline yet", timed_out=True)
    clean, _, _ = remove_private(
        Bundle(commands={argv: cut, ("slow",): late}, files={"/f": FileRead(b"a\nb", truncated=True)}), Private()
    )
    assert clean.commands[argv].stdout == b"first line\n"
    assert clean.commands["slow",].stdout == b""
    assert clean.files["/f"].data == b"a\n"


def test_what_is_no_text_is_left_out_and_said() -> None:
    bundle = Bundle(
        files={"/f": FileRead(b"b\0o\0b\0")}, commands={("t", "-x"): CommandResult(("t", "-x"), 0, b"\0bob")}
    )
    clean, _, notes = remove_private(bundle, Private(people=frozenset({"bob"})))
    assert (clean.files["/f"].data, clean.files["/f"].error, clean.commands["t", "-x"].stdout) == (None, "BINARY", b"")
    assert sorted(map(str, notes)) == [
        "The file /f is no text and was left out.",
        "The output of t -x is no text and was left out.",
    ]


def test_a_common_word_that_names_someone_is_left_in_and_said() -> None:
    bundle = Bundle(files={"/f": FileRead(b"gpu 0")})
    clean, _, notes = remove_private(bundle, Private(machines=frozenset({"gpu", "desktop"})))
    assert clean.files["/f"].data == b"gpu 0"
    assert [str(note) for note in notes] == ["The host name gpu is a common or very short word and was left in."]


def test_owners_of_programs_and_nodes_are_people_too() -> None:
    bundle = Bundle(
        processes={5: ProcessSeen(5, "zebediah", "python3"), 6: None},
        nodes={"/dev/nvidia0": NodeStat(0o20660, "root", "quagmire-team", 195, 0), "/dev/none": None},
        files={"/f": FileRead(b"zebediah of quagmire-team uses video")},
    )
    clean, _, _ = remove_private(bundle, Private())
    process, node = clean.processes[5], clean.nodes["/dev/nvidia0"]
    assert process is not None and node is not None
    assert clean.files["/f"].data == f"{process.user} of {node.group} uses video".encode()
    assert (process.user, node.owner) == ("user-1", "root")


def test_nothing_is_written_when_the_removal_is_not_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scrubber, "survivors", lambda self, text: ["zebediah"] if text else [])
    with pytest.raises(PrivateDetailsRemain) as caught:
        capture(tmp_path / "out.tar.gz", Elsewhere({}, b""))
    assert "zebediah" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_only_the_lines_about_cards_of_the_kernel_log_are_kept() -> None:
    from anycard.host.probes import KEEP_LINES

    class Log(LiveHost):
        def run(self, argv: Sequence[str], timeout_s: float = 10.0) -> CommandResult:
            lines = b"NVRM: Xid 79\naudit: login of someone\nsshd[1]: accepted\npcieport 0000:00:1c.0: AER: x\n"
            return CommandResult(tuple(argv), 0, lines)

    host = RecordingHost(Log(), KEEP_LINES)
    assert host.run(("dmesg",)).text == "NVRM: Xid 79\npcieport 0000:00:1c.0: AER: x\n"
    assert host.bundle.commands["dmesg",].text == "NVRM: Xid 79\npcieport 0000:00:1c.0: AER: x\n"


@pytest.mark.parametrize("name", ["", "no-such-folder/out.tar.gz"])
def test_a_place_that_cannot_be_written_is_the_users_mistake(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        capture(tmp_path / name, Elsewhere({}, b""))


def archive_of(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def test_what_is_no_bundle_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    manifest = json.dumps({"schema": "other/1"}).encode()
    for path in (
        tmp_path / "absent",
        tmp_path / "text",
        tmp_path,
        archive_of(tmp_path / "empty.tar.gz", {}),
        archive_of(tmp_path / "other.tar.gz", {"manifest.json": manifest}),
        archive_of(tmp_path / "list.tar.gz", {"manifest.json": b"[]"}),
        archive_of(tmp_path / "outside.tar.gz", {"../manifest.json": b"{}", "/etc/passwd": b"x"}),
    ):
        with pytest.raises(UsageError, match="is not a bundle"):
            RecordedHost.open(path)


@given(st.binary(max_size=200))
def test_garbage_is_no_bundle(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("garbage") / "x.tar.gz"
    path.write_bytes(data)
    with pytest.raises(UsageError):
        bundles.load(path)


def test_the_names_of_people_and_machines_here(monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {
        "USER": "zebediah",
        "HOSTNAME": "quagmire.corp.example.com",
        "A_TOKEN": "abcdefgh",
        "X_AUTH": "true",
        "KEYBOARD": "de-latin1",
    }
    known = private.of_this_machine(Elsewhere(environ, b""))
    assert "zebediah" in known.people
    assert {"quagmire", "corp.example.com", os.uname().nodename} <= known.machines
    assert known.secrets == {"abcdefgh"}
