from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import dataclass, field

import pytest
from nvml_standin import NvmlStandin

from anycard.cards.probe import Inventory, probe
from anycard.cards.problem import Problem, VendorFault
from anycard.cards.views import card_json, problem_json
from anycard.host.bundle import Bundle
from anycard.host.host import Host
from anycard.host.live import LiveHost
from anycard.host.recorded import RecordedHost
from anycard.model.card import Card, CardProcess, Health
from anycard.model.text import Text


@dataclass
class Scripted:
    """A vendor whose answer the test decides."""

    VENDOR: str
    cards: tuple[Card, ...] = ()
    error: Exception | None = None
    held_up: threading.Event | None = None
    asked: int = 0
    entered: threading.Event = field(default_factory=threading.Event)

    def find(self, host: Host) -> tuple[Card, ...]:
        self.asked += 1
        self.entered.set()
        if self.held_up is not None:
            assert self.held_up.wait(60)
        if self.error is not None:
            raise self.error
        return self.cards


def host() -> RecordedHost:
    return RecordedHost(Bundle())


GOOD = Card("good:1", "good", "Good 1", uuid="1")
BAD = Card("bad:1", "bad", "Bad 1", uuid="1", processes=(CardProcess(1),))


def test_a_hung_vendor_is_named_and_the_others_are_shown() -> None:
    release = threading.Event()
    machine, bad = host(), Scripted("bad", held_up=release)
    try:
        seen = probe(machine, Inventory((BAD, GOOD), ()), time_limit_s=0.05, vendors=(bad, Scripted("good", (GOOD,))))
        assert [(card.id, card.health) for card in seen.cards] == [("bad:1", Health.UNREACHABLE), ("good:1", Health.OK)]
        assert seen.cards[0].processes is None
        assert [problem.vendor for problem in seen.problems] == ["bad"]
        assert "did not end" in str(seen.problems[0].reason)
        # while that call hangs it is not made again
        probe(machine, seen, time_limit_s=0.05, vendors=(bad, Scripted("good", (GOOD,))))
        assert bad.asked == 1
    finally:
        release.set()
    bad.held_up, bad.cards = None, (BAD,)
    again = probe(machine, seen, time_limit_s=30, vendors=(bad, Scripted("good", (GOOD,))))
    again = probe(machine, again, time_limit_s=30, vendors=(bad, Scripted("good", (GOOD,))))
    assert (again.cards, again.problems) == ((BAD, GOOD), ())


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (VendorFault(Problem("bad", Text("the driver is away"))), "the driver is away"),
        (RuntimeError("a mistake of ours"), "RuntimeError: a mistake of ours"),
    ],
)
def test_a_vendor_that_fails_is_a_problem_and_its_cards_stay(error: Exception, words: str) -> None:
    seen = probe(host(), Inventory((BAD,), ()), vendors=(Scripted("bad", error=error), Scripted("good", (GOOD,))))
    assert [(card.id, card.health) for card in seen.cards] == [("bad:1", Health.UNREACHABLE), ("good:1", Health.OK)]
    assert words in str(seen.problems[0].reason)


def test_a_vendor_that_fails_at_the_first_look_shows_no_card() -> None:
    seen = probe(host(), vendors=(Scripted("bad", error=VendorFault(Problem("bad", Text("away")))),))
    assert (seen.cards, len(seen.problems)) == ((), 1)


def test_the_daemon_ends_while_a_driver_hangs(nvml: NvmlStandin) -> None:
    """A call stuck in the real binding does not hold up the exit of the process."""
    nvml.describe("hang_s = 600\n[card]\n")
    program = (
        "from anycard.cards.probe import probe; from anycard.host.live import LiveHost;"
        "seen = probe(LiveHost(), time_limit_s=2);"
        "print([card.vendor for card in seen.cards], [problem.vendor for problem in seen.problems])"
    )
    env = {**os.environ, **nvml.env}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=60, check=True
    )
    assert ran.stdout == "['cpu'] ['nvidia']\n"


def test_the_json_of_a_card_has_its_documented_keys() -> None:
    card = Card(
        "x:1",
        "x",
        "X",
        health=Health.LOST,
        health_reason=Text("gone from {index}", {"index": 3}),
        processes=(CardProcess(9, 5, "a", "b"),),
    )
    shown = card_json(card)
    first = [
        "id",
        "vendor",
        "model",
        "index",
        "part_of",
        "divided",
        "uuid",
        "pci_address",
        "memory_bytes",
        "driver",
        "runtime",
        "architecture",
    ]
    then = [
        "cores",
        "numa_node",
        "device_nodes",
        "device_access",
        "accelerator",
        "health",
        "health_reason",
        "health_reason_msgid",
    ]
    assert list(shown) == [*first, *then, "health_reason_params", "processes"]
    assert (shown["health"], shown["health_reason"], shown["health_reason_params"]) == (
        "lost",
        "gone from 3",
        {"index": 3},
    )
    assert shown["processes"] == [{"pid": 9, "memory_bytes": 5, "user": "a", "command": "b", "draws": False}]
    assert card_json(Card("x:1", "x", "X", processes=None))["processes"] is None
    assert problem_json(Problem("x", Text("a"), Text("b")))["mend"] == "b"


def test_this_machine_has_one_cpu_card() -> None:
    (cpu,) = [card for card in probe(LiveHost()).cards if card.vendor == "cpu"]
    assert cpu.cores and cpu.cores > 0 and cpu.memory_bytes and cpu.memory_bytes > 0
    assert not cpu.is_accelerator and card_json(cpu)["accelerator"] is False
