"""The machine seen wrongly, or not at all."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from anycard.config import Paths
from anycard.engines.protocol import AttemptStatus, Phase
from anycard.host.live import LiveHost
from anycard.jobs.board import Board
from anycard.jobs.hostview import host_state
from anycard.jobs.outcome import classify
from anycard.jobs.upkeep import Upkeep
from anycard.model.card import Health
from anycard.model.end_reason import CONSEQUENCES, EndReason
from anycard.model.instant import Instant
from anycard.model.text import Text


class Mute(LiveHost):
    """A machine on which asking for the CPU fails, until it is healed."""

    healed = False

    def ask(self, name: str) -> Any:
        if name == "system" and not self.healed:
            raise OSError("nobody answers")
        return super().ask(name)


def test_a_cpu_that_cannot_be_asked_still_runs_jobs(tmp_path: Path) -> None:
    host = Mute()
    machine = Upkeep(Paths(tmp_path), host)
    asyncio.run(machine.look())
    (cpu,) = (card for card in machine.cards if not card.is_accelerator)
    assert (cpu.health, machine.inventory.problems[0].vendor) == (Health.UNREACHABLE, "cpu")
    state = machine.host_state(Board())
    assert state.cpus_free >= 1
    assert state.memory_total_bytes > 0
    host.healed = True
    asyncio.run(machine.look())
    (cpu,) = (card for card in machine.cards if not card.is_accelerator)
    assert (cpu.health, machine.inventory.problems) == (Health.OK, ())


def test_before_anybody_looked_nothing_can_be_granted() -> None:
    state = host_state(Board(), (), ours=(), locked={})
    assert (state.cpus_free, state.memory_free_bytes, state.cards) == (0.0, 0, ())


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"lost": True, "rebooted": True}, EndReason.HOST_LOST),
        ({"lost": True}, EndReason.OUTCOME_UNKNOWN),
        ({"start_failure": Text("No space left on device"), "disk_full": True}, EndReason.DISK_FULL),
        ({"start_failure": Text("no such program")}, EndReason.START_FAILED),
    ],
)
def test_what_the_engine_says_of_an_end(status: dict[str, Any], reason: EndReason) -> None:
    found = classify(
        AttemptStatus(1, Phase.ENDED, Instant(1.0, 1.0, "boot"), **status),
        stop_reason=None,
        log_tail="",
        disk_is_full=False,
        cards_lost=(),
        is_setup=False,
        this_boot=True,
    )
    assert found.reason is reason
    assert found.detail is not None
    assert CONSEQUENCES[EndReason.DISK_FULL].retry == CONSEQUENCES[EndReason.HOST_LOST].retry == "free"
