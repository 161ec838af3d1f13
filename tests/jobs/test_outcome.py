"""The closed list of end reasons: what leads when several things are true at once."""

from __future__ import annotations

import pytest

from anycard.engines.protocol import AttemptStatus, Phase
from anycard.jobs.outcome import classify
from anycard.jobs.retry import MAX_FREE_RETRIES, next_try
from anycard.jobs.spec import RetryRule
from anycard.model.end_reason import CONSEQUENCES, EndReason
from anycard.model.instant import Instant
from anycard.model.text import Text

NOW = Instant(10.0, 10.0, "boot")
CUDA = (
    "Traceback (most recent call last):\n"
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.64 GiB\n"
)


def end(exit_code: int | None, *, tail: str = "", **more: object) -> tuple[EndReason, str]:
    known = {"lost", "out_of_memory", "stopped_for", "start_failure"}
    status = AttemptStatus(1, Phase.ENDED, NOW, exit_code=exit_code, **{k: v for k, v in more.items() if k in known})
    outcome = classify(
        status,
        stop_reason=more.get("stop_reason"),
        log_tail=tail,
        disk_is_full=bool(more.get("disk_is_full")),
        cards_lost=more.get("cards_lost", ()),
        is_setup=bool(more.get("is_setup")),
        this_boot=bool(more.get("this_boot", True)),
    )
    return outcome.reason, str(outcome.detail)


@pytest.mark.parametrize(
    ("given", "reason", "words"),
    [
        ({"exit_code": 0}, EndReason.SUCCEEDED, ""),
        # a program that ended well before the stop signal reached it has succeeded
        ({"exit_code": 0, "stop_reason": EndReason.CANCELLED}, EndReason.SUCCEEDED, ""),
        ({"exit_code": 1, "tail": "boom\n"}, EndReason.PROGRAM_ERROR, "exit code 1: boom"),
        ({"exit_code": 139}, EndReason.PROGRAM_ERROR, "SIGSEGV"),
        ({"exit_code": 65, "tail": "row 7 has no label\n"}, EndReason.BAD_INPUT, "row 7"),
        ({"exit_code": 1, "tail": CUDA}, EndReason.OUT_OF_MEMORY, "CUDA out of memory"),
        ({"exit_code": 1, "tail": "x\nMemoryError\n"}, EndReason.OUT_OF_MEMORY, "host memory"),
        ({"exit_code": 137, "out_of_memory": True}, EndReason.OUT_OF_MEMORY, "host memory"),
        (
            {"exit_code": 1, "tail": "Unable to determine the device handle for GPU: GPU is lost.\n"},
            EndReason.CARD_LOST,
            "GPU is lost",
        ),
        ({"exit_code": 1, "tail": CUDA, "cards_lost": ("nvidia:a",)}, EndReason.CARD_LOST, "nvidia:a"),
        ({"exit_code": 143, "stopped_for": EndReason.TIME_LIMIT}, EndReason.TIME_LIMIT, "time limit"),
        ({"exit_code": 143, "stop_reason": EndReason.CANCELLED}, EndReason.CANCELLED, "cancelled"),
        ({"exit_code": None, "lost": True}, EndReason.OUTCOME_UNKNOWN, "nobody saw"),
        ({"exit_code": None, "lost": True, "stop_reason": EndReason.CANCELLED}, EndReason.CANCELLED, "cancelled"),
        ({"exit_code": None, "lost": True, "this_boot": False}, EndReason.HOST_LOST, "restarted"),
        (
            {"exit_code": None, "start_failure": Text("there is no program {program}", {"program": "nope"})},
            EndReason.START_FAILED,
            "nope",
        ),
        ({"exit_code": 3, "is_setup": True}, EndReason.SETUP_FAILED, "code 3"),
        (
            {"exit_code": 1, "tail": "OSError: [Errno 28] No space left on device\n"},
            EndReason.PROGRAM_ERROR,
            "No space",
        ),
        (
            {"exit_code": 1, "tail": "OSError: [Errno 28] No space left on device\n", "disk_is_full": True},
            EndReason.DISK_FULL,
            "full",
        ),
        # words about memory in a log that ended well mean nothing, and so does a warning that resembles the error
        ({"exit_code": 0, "tail": CUDA}, EndReason.SUCCEEDED, ""),
        ({"exit_code": 2, "tail": "saw 3 MemoryErrors yesterday\nbad flag\n"}, EndReason.PROGRAM_ERROR, "bad flag"),
    ],
)
def test_the_one_reason(given: dict[str, object], reason: EndReason, words: str) -> None:
    found, detail = end(**given)  # type: ignore[arg-type]
    assert found is reason
    assert words in detail


def test_every_reason_has_a_consequence() -> None:
    assert set(CONSEQUENCES) == set(EndReason)


@pytest.mark.parametrize("reason", list(EndReason))
def test_retries_end(reason: EndReason) -> None:
    """However it fails and whatever the file asks, there is a last try."""
    rule = RetryRule(times=3, wait_s=1.0, when_reasons=tuple(EndReason), when_exit_codes=(1,))
    budget = free = tries = 0
    while (again := next_try(reason, 1, rule, budget_used=budget, free_used=free)) is not None:
        budget, free, tries = budget + again.on_budget, free + (not again.on_budget), tries + 1
        assert again.wait_s >= 0
        assert tries <= rule.times + MAX_FREE_RETRIES
    assert budget in (0, rule.times)


def test_waits_double_and_exit_codes_choose() -> None:
    rule = RetryRule(times=3, wait_s=10.0, when_exit_codes=(33,))
    waits = [next_try(EndReason.PROGRAM_ERROR, 33, rule, budget_used=used, free_used=0) for used in range(3)]
    assert [again.wait_s for again in waits if again] == [10.0, 20.0, 40.0]
    assert next_try(EndReason.PROGRAM_ERROR, 34, rule, budget_used=0, free_used=0) is None
    assert next_try(EndReason.OUTCOME_UNKNOWN, None, RetryRule(times=3), budget_used=0, free_used=0) is None, (
        "only if asked"
    )
