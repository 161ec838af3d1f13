"""Vendors' tools that do what no tool should: talk without end, leave children behind, fail after a good table, print endless lines."""

from __future__ import annotations

import importlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anycard.cards import rocmsmi, smitable
from anycard.cards.probe import all_vendors, probe
from anycard.cards.problem import VendorFault
from anycard.cards.seen import number, size, whole
from anycard.cards.tools import MOST_BYTES
from anycard.cards.vendors import iluvatar, intel, kunlunxin, metax
from anycard.host.host import CommandResult
from anycard.host.live import LiveHost
from anycard.host.recorded import RecordedHost

OUTPUTS = Path(__file__).parent / "outputs"
MakeHost = Callable[..., RecordedHost]
TOOLS = {
    "moorethreads": ("mthreads-gmi", "mthreads.txt"),
    "iluvatar": ("ixsmi", "ixsmi.txt"),
    "metax": ("mx-smi", "mx-smi.txt"),
    "cambricon": ("cnmon", "cnmon.txt"),
    "kunlunxin": ("xpu-smi", "kunlun.txt"),
    "hygon": (f"hy-smi {' '.join(rocmsmi.ARGUMENTS)}", "hygon.json"),
    "amd": ("amd-smi static --json", "amd-smi.json"),
    "ascend": ("npu-smi info", "npu-910c.txt"),
    "intel": ("xpu-smi discovery -j", "xpu-b60.json"),
}


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs, before all others; this machine has none of the cards on its bus."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("anycard.cards.pci.may_have", lambda *_: True)
    return tmp_path


def program(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_a_tool_that_does_not_stop_talking_is_named_and_hides_no_other(path: Path) -> None:
    program(path / "mx-smi", f"cat {OUTPUTS}/mx-smi.txt; head -c 104857600 /dev/zero | tr '\\0' 1")
    program(path / "ixsmi", f"cat {OUTPUTS}/ixsmi.txt")
    seen = probe(
        LiveHost(), vendors=tuple(vendor for vendor in all_vendors() if vendor.VENDOR in ("metax", "iluvatar"))
    )
    assert [card.vendor for card in seen.cards] == ["iluvatar", "iluvatar"]
    (problem,) = seen.problems
    assert problem.vendor == "metax" and "mx-smi answers with more than 512 KiB" in str(problem.reason)


def test_a_good_table_counts_though_the_tool_failed(path: Path) -> None:
    program(path / "ixsmi", f"cat {OUTPUTS}/ixsmi.txt; echo 'warning: something' >&2; exit 3")
    assert len(iluvatar.find(LiveHost())) == 2
    assert [reading.utilisation for reading in iluvatar.read(LiveHost())] == [0.12, None]


@pytest.mark.parametrize("leave", ["sleep 600 &", "setsid sleep 20 &"], ids=["in its group", "escaped"])
def test_a_child_that_keeps_the_pipe_open_holds_nobody_up(path: Path, leave: str) -> None:
    program(path / "mx-smi", f"{leave}\ncat {OUTPUTS}/mx-smi.txt")
    assert len(metax.find(LiveHost())) == 2


def test_whichever_xpu_smi_comes_first_answers_for_its_own_cards(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are installed; PATH says which one is run, and the other's cards are not made up."""
    for maker, table in (("kunlun", "kunlun.txt"), ("intel", "xpu-b60.json")):
        (path / maker).mkdir()
        usage = f"{'Intel XPU System Management Interface' if maker == 'intel' else 'unrecognized option'}"
        own = '"$1" = discovery' if maker == "intel" else '-z "$1"'
        program(path / maker / "xpu-smi", f"if [ {own} ]; then cat {OUTPUTS}/{table}; else echo '{usage}'; exit 2; fi")
    rest = os.environ["PATH"]
    monkeypatch.setenv("PATH", f"{path}/intel:{path}/kunlun:{rest}")
    assert (len(intel.find(LiveHost())), len(kunlunxin.find(LiveHost()))) == (1, 0)
    monkeypatch.setenv("PATH", f"{path}/kunlun:{path}/intel:{rest}")
    assert len(kunlunxin.find(LiveHost())) == 2
    try:
        assert intel.find(LiveHost()) == ()
    except VendorFault as fault:
        assert "unrecognized option" in str(fault.problem.reason)


def endless(good: str) -> Iterator[tuple[str, str]]:
    """Texts just short of what is read at all: what takes a step for each pair of characters takes a day for these."""
    count = MOST_BYTES - len(good) - 100
    yield "lines", "1 a\n" * (count // 4)
    yield "digits", "1" * count
    yield "spaces", "0 " + " " * count
    yield "brackets", "[" * count
    yield "table and digits", good + "1" * count
    yield "table and spaces", f"{good}\n0 {' ' * count}"
    yield "table again and again", good * (count // len(good))
    places = [at for at, letter in enumerate(good) if letter == "|"]
    for at in places[len(places) // 3 :: max(1, len(places) // 8)]:
        yield f"a cell of digits at {at}", f"{good[:at]} {'1' * count}{good[at:]}"
        yield f"a cell of spaces at {at}", f"{good[:at]}{' ' * count}{good[at:]}"


@pytest.mark.parametrize("vendor", TOOLS)
def test_no_answer_takes_for_ever_or_is_a_fault_of_ours(machine: MakeHost, vendor: str) -> None:
    line, file = TOOLS[vendor]
    module = importlib.import_module(f"anycard.cards.vendors.{vendor}")
    argv = tuple(line.split())
    for what, text in endless((OUTPUTS / file).read_text()):
        host = machine({line: CommandResult(argv, 0, text.encode())})
        try:
            found = module.find(host)
        except VendorFault:
            continue
        assert all(card.memory_bytes != 0 for card in found), what


@pytest.mark.parametrize(
    "index", ["9" * 5000, "²", "٣", "-1", "1e9"], ids=["huge", "superscript", "arabic", "negative", "float"]
)
@pytest.mark.parametrize("vendor", TOOLS)
def test_numbers_that_are_none(machine: MakeHost, vendor: str, index: str) -> None:
    """Put in the place of every number of a good answer, one at a time."""
    line, file = TOOLS[vendor]
    module = importlib.import_module(f"anycard.cards.vendors.{vendor}")
    good = (OUTPUTS / file).read_text()
    places = [match.span() for match in re.finditer(r"\d+", good)]
    for first, last in places[:: max(1, len(places) // 60)]:
        text = good[:first] + index + good[last:]
        host = machine({line: CommandResult(tuple(line.split()), 0, text.encode())})
        try:
            module.find(host)
        except VendorFault as fault:
            assert len(str(fault)) < 400


def test_a_tool_that_prints_itself_again_and_again_has_each_card_once() -> None:
    text = (OUTPUTS / "ixsmi.txt").read_text()
    once, thrice = smitable.rows(text), smitable.rows(text * 3)
    assert [seen.index for seen in thrice] == [seen.index for seen in once]


def test_words_for_numbers() -> None:
    assert [whole(text) for text in ("0", "12", "", "-1", "1.5", "²", "٣", "9" * 13)] == [0, 12, *[None] * 6]
    assert [number(text) for text in ("54W", " 0 %", "(3)", "-", "9" * 400, "inf", "nan")] == [54, 0, 3, *[None] * 4]
    assert size("9" * 400, 1) is None
