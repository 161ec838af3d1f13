"""What a failed program's log proves, and what follows for its end reason and its retries."""

from __future__ import annotations

import pytest

from anycard.doctor.cause import ENDS_AS, proven_cause
from anycard.doctor.reading import text_source
from anycard.doctor.reason import diagnose
from anycard.doctor.report import to_json
from anycard.doctor.rules import all_rules
from anycard.engines.protocol import AttemptStatus, Phase
from anycard.jobs.outcome import Outcome, asks_the_log, classify
from anycard.jobs.retry import next_try
from anycard.jobs.spec import RetryRule
from anycard.model.end_reason import CONSEQUENCES, EndReason
from anycard.model.instant import Instant

NOW = Instant(10.0, 10.0, "boot")


def proven(log: str):
    return proven_cause(to_json(diagnose([text_source("log", log)])))


def ended(log: str, exit_code: int = 1, *, is_setup: bool = False) -> Outcome:
    return classify(
        AttemptStatus(1, Phase.ENDED, NOW, exit_code=exit_code),
        stop_reason=None,
        log_tail=log,
        disk_is_full=False,
        cards_lost=(),
        is_setup=is_setup,
        this_boot=True,
        cause=proven(log),
    )


def test_every_cause_with_an_end_of_its_own_has_a_rule_and_may_be_retried():
    assert set(ENDS_AS) <= {rule.slug for rule in all_rules()}
    assert all(CONSEQUENCES[reason].retry != "never" for reason in ENDS_AS.values())


@pytest.mark.parametrize(
    ("line", "cause", "reason"),
    [
        ("RuntimeError: operator torchvision::nms does not exist", "torch-torchvision-cuda-mismatch", "program-error"),
        ("AssertionError: Torch not compiled with CUDA enabled", "torch-cpu-only-build", "program-error"),
        ("RuntimeError: Native API returns: -997 (Command failed to enqueue)", "intel-oom-reported-as-997", "out-of-memory"),
        ("hipErrorOutOfMemory: out of memory", "oom-model-too-large", "out-of-memory"),
        ("CUDA out of memory. Tried to allocate 2.00 GiB", "oom-model-too-large", "out-of-memory"),
        ("NVRM: Xid (PCI:0000:01:00): 79, pid=7, GPU has fallen off the bus.", "gpu-fallen-off-bus", "card-lost"),
        ("NVRM: Xid (PCI:0000:01:00): 119, Timeout waiting for RPC from GSP!", "gsp-rpc-timeout", "card-lost"),
    ],
)  # fmt: skip
def test_what_the_rules_know_is_named(line, cause, reason):
    outcome = ended(f"epoch 1\n{line}\n")
    assert (outcome.cause, outcome.reason) == (cause, reason)
    assert outcome.detail is not None and outcome.detail.params["cause"] == cause


@pytest.mark.parametrize(
    "log", ["KeyError: 'x'\n", "", "error\n", "a GPU was not needed here, all is well\n", "\0\1\xff\n"]
)
def test_nothing_is_named_without_proof(log):
    outcome = ended(log)
    assert outcome.cause is None
    assert outcome.reason is EndReason.PROGRAM_ERROR


def test_a_program_error_is_told_in_the_causes_words():
    outcome = ended("RuntimeError: CUDA error: no kernel image is available for execution on the device\n")
    assert str(outcome.detail).startswith("exit code 1: The installed build carries no machine code for this card")


def test_a_failed_setup_stays_one_and_names_its_cause():
    outcome = ended("AssertionError: Torch not compiled with CUDA enabled\n", is_setup=True)
    assert (outcome.reason, outcome.cause) == (EndReason.SETUP_FAILED, "torch-cpu-only-build")


def test_the_retry_rule_acts_on_reasons_and_causes_that_the_log_proved():
    memory = RetryRule(times=1, when_reasons=("out-of-memory", "card-lost"))
    assert next_try(ended("hipErrorOutOfMemory: out of memory\n").reason, 1, memory, budget_used=0, free_used=0)
    assert next_try(EndReason.PROGRAM_ERROR, 1, memory, budget_used=0, free_used=0) is None
    wheel = RetryRule(times=1, when_reasons=(), when_causes=("torch-cpu-only-build",))
    for cause, again in (("torch-cpu-only-build", True), ("oom-model-too-large", False), (None, False)):
        found = next_try(EndReason.PROGRAM_ERROR, 1, wheel, budget_used=0, free_used=0, cause=cause)
        assert (found is not None) == again


@pytest.mark.parametrize(
    ("status", "stop_reason", "asks"),
    [
        ({"exit_code": 1}, None, True),
        ({"exit_code": 139}, None, True),
        ({"exit_code": 0}, None, False),
        ({"exit_code": 65}, None, False),  # the program said itself that its input is bad
        ({"exit_code": None, "lost": True}, None, False),
        ({"exit_code": 137, "out_of_memory": True}, None, False),
        ({"exit_code": 143, "stopped_for": EndReason.TIME_LIMIT}, None, False),
        ({"exit_code": 143}, EndReason.CANCELLED, False),
    ],
)
def test_only_what_failed_by_itself_is_looked_into(status, stop_reason, asks):
    assert asks_the_log(AttemptStatus(1, Phase.ENDED, NOW, **status), stop_reason) is asks
