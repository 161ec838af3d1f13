"""A job's readings as evidence, over plain series: what they prove, what they only allow, and what they must never be taken for."""

from __future__ import annotations

import math
from dataclasses import asdict, fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycard.doctor.measured import Measured, MeasuredCard, measured_facts
from anycard.doctor.reading import text_source
from anycard.doctor.reason import diagnose
from anycard.doctor.report import to_json
from anycard.jobs.diagnosis import judged
from anycard.jobs.measuring import mark_lines, measured
from anycard.jobs.report.moments import Hold, Seen, Work
from anycard.model.card import Reading
from anycard.model.series import Series, values_of
from anycard.model.text import Text
from anycard.store.readings import MarkRow, UseRow

GIB = 2**30
T0 = 1_700_000_000.0
CARD = "nvidia:GPU-a"
BUSY = [0.9] * 60


def series(step_s: float = 10.0, begin: float = T0, **columns: list[Any]) -> Series:
    length = max(len(values) for values in columns.values())
    rows = [values_of(Reading(CARD, **{name: values[at] for name, values in columns.items()})) for at in range(length)]
    return Series(CARD, tuple(begin + at * step_s for at in range(length)), tuple(rows))


def measure(
    *,
    utilisation: list[float | None],
    step_s: float = 10.0,
    cores: float | None = 1.0,
    reads: float = 0.0,
    own: float | None = None,
    before: Series | None = None,
    end: str | None = "succeeded",
    waits: bool = False,
    **columns: list[Any],
) -> Measured:
    """One attempt on one card; ``own`` bytes of the card were its own programs'."""
    count = len(utilisation)
    held = Hold(CARD, 1, T0, T0 + count * step_s, 4.0, None if cores is None else cores * count * step_s)
    work = () if cores is None else [Work(T0 + at * step_s, 1, cores, reads) for at in range(count)]
    uses = [UseRow(T0 + at * step_s, CARD, 7, 0, 1, memory_peak_bytes=own) for at in range(count)]
    seen = Seen([held], {CARD: series(step_s, utilisation=utilisation, **columns)}, step_s, work, step_s)
    earlier = {CARD: [before]} if before else {}
    failed = end in ("program-error", "out-of-memory")
    return measured(seen, uses, earlier, runs=end is None, failed=failed, waits=waits)


def told(log: str = "", *, marks: str = "", end: str | None = "succeeded", **seen: Any) -> dict[str, Any]:
    """What ``anycard doctor --job`` makes of a log and readings; these go over the pipe as JSON."""
    of = Measured.from_json(asdict(measure(end=end, **seen)))
    sources = [text_source("log", log), *([text_source("marks", marks)] if marks else ())]
    return judged(to_json(diagnose(sources, "linux", measured_facts(of))), end)


def causes(found: dict[str, Any]) -> list[str]:
    return [one["cause"] for one in found["findings"]]


def throttled(*reasons: str, share: float = 0.5, count: int = 60) -> list[tuple[str, ...]]:
    slowed = round(count * share)
    return [reasons] * slowed + [()] * (count - slowed)


def test_heat_slowed_it_down_and_the_line_says_how_long():
    found = told(utilisation=BUSY, throttle_reasons=throttled("hardware-thermal"), temperature_c=[93.0] * 60)
    assert found["verdict"] == "fault"
    assert causes(found) == ["thermal-throttling"]
    assert found["findings"][0]["evidence"] == [
        f"card {CARD} throttled by hardware-thermal 50 % of 10m00s; highest 93 °C"
    ]
    assert found["findings"][0]["evidence_places"][0]["source"] == "readings"
    assert {fact["name"]: fact["value"] for fact in found["facts"]} == {"throttled_heat": "50", "temperature": "93"}


def test_a_card_at_its_slowdown_temperature_is_not_cooled():
    found = told(utilisation=BUSY, throttle_reasons=throttled("hardware-thermal"), temperature_c=[97.0] * 60)
    assert causes(found)[0] == "gpu-overheat-no-airflow"
    one_look = [70.0] * 59 + [97.0]
    assert told(utilisation=BUSY, throttle_reasons=[()] * 60, temperature_c=one_look)["verdict"] == "healthy"


def test_the_chassis_brakes_it():
    both = throttled("hardware-slowdown", "power-brake")
    found = told(utilisation=BUSY, throttle_reasons=both, temperature_c=[60.0] * 60)
    assert causes(found) == ["hw-power-brake-slowdown"]


def test_hardware_that_says_no_more_is_a_ranked_list():
    found = told(utilisation=BUSY, throttle_reasons=throttled("hardware-slowdown"), temperature_c=[70.0] * 60)
    assert found["verdict"] == "undecided"
    assert causes(found) == ["thermal-throttling", "hw-power-brake-slowdown"]
    assert "TEMPERATURE,PERFORMANCE" in found["next_check"]


def test_a_power_limit_is_by_design():
    found = told(utilisation=BUSY, throttle_reasons=throttled("power-cap", share=1.0), temperature_c=[75.0] * 60)
    assert (found["verdict"], found["findings"]) == ("healthy", [])
    assert [fact["name"] for fact in found["facts"]] == ["temperature", "throttled_power"]


def test_a_minutes_row_does_not_lend_its_time_to_each_of_its_reasons():
    """It names each reason that there was for a moment of it."""
    mixed = {"throttle_reasons": [("power-cap", "software-thermal")] * 60, "temperature_c": [84.0] * 60}
    assert told(utilisation=BUSY, step_s=60.0, **mixed)["verdict"] == "healthy"
    assert told(utilisation=BUSY, step_s=10.0, **mixed)["verdict"] == "fault"


ALTERNATING = [0.9, 0.0] * 30


def test_it_waits_for_its_loader_or_for_storage():
    found = told(utilisation=ALTERNATING, cores=1.0)
    assert (found["verdict"], causes(found)) == ("application", ["gpu-starved-by-dataloader"])
    assert found["findings"][0]["evidence"] == [
        f"card {CARD} idle 48 % of 10m00s between its uses while the job's CPUs worked (1.0 busy)"
    ]
    assert causes(told(utilisation=ALTERNATING, cores=0.1, reads=50e6)) == ["gpu-starved-by-storage-io"]
    assert told(utilisation=ALTERNATING, cores=0.1)["verdict"] == "healthy"  # a network, a lock, a person
    assert told(utilisation=ALTERNATING, cores=None)["verdict"] == "healthy"  # not seen
    one_stage = [0.9] * 20 + [0.0] * 30 + [0.9] * 10
    assert told(utilisation=one_stage, cores=3.0)["verdict"] == "healthy"  # a stage on the CPU


def test_what_the_log_names_is_lifted_by_what_was_measured():
    named = told("DataLoader with num_workers=0\n", utilisation=ALTERNATING)
    assert named["findings"][0]["certainty"] > told(utilisation=ALTERNATING)["findings"][0]["certainty"]


UNUSED = {"utilisation": [0.0] * 60, "memory_used_bytes": [400 << 20] * 60, "memory_total_bytes": [80 * GIB] * 60}


def test_a_card_that_was_granted_and_never_used_is_an_open_question():
    for log in ("epoch 1\n", "torch 2.13\nepoch 1\n"):
        found = told(log, cores=3.0, **UNUSED)
        assert found["verdict"] == "undecided"
        assert causes(found)[0] == "torch-cpu-only-build"
        assert {"app-silent-cpu-fallback", "cuda-visible-devices-wrong"} <= set(causes(found))
        assert found["findings"][0]["evidence"][0].startswith(f"card {CARD} never used in 10m00s")
        assert found["next_check"].startswith("anycard run --gpus 1 -- python3 -c")


@pytest.mark.parametrize(
    "but",
    [
        {"utilisation": [None] * 60},  # an instance of MIG does not tell
        {"memory_used_bytes": [None] * 60},
        {"memory_used_bytes": [400 << 20] * 20 + [900 << 20] * 40},  # somebody opened it
        {"memory_used_bytes": [30 * GIB] * 60},  # somebody has it, and who is not known
        {"own": 500 << 20},
        {"cores": 0.0},  # nothing ran: it waited for somebody
        {"cores": None},
        {"waits": True},  # a session
        {"end": "program-error"},  # it died before it came to it
        {"utilisation": [0.0] * 50 + [0.02] * 10},
        {"end": None, "step_s": 1.0},  # a minute old: it may yet come to it
        {"step_s": 0.2},  # twelve seconds
    ],
    ids=lambda but: "-".join(but),
)
def test_what_is_not_known_or_has_another_reason_is_no_unused_card(but):
    found = told(**{"cores": 3.0, **UNUSED, **but})
    assert found["findings"] == []
    assert not [fact for fact in found["facts"] if fact["name"] == "card_unused"]


def test_a_log_that_proves_the_cause_settles_it():
    found = told("AssertionError: Torch not compiled with CUDA enabled\n", cores=3.0, **UNUSED)
    assert (found["verdict"], causes(found)[0]) == ("fault", "torch-cpu-only-build")


def test_contradictions_are_said():
    said = told("Using device: cuda\n", cores=3.0, **UNUSED)["contradictions"]
    assert "the readings say that it never did" in said[0]["text"]
    busy = told("Using device: cpu\n", utilisation=BUSY, own=GIB)
    assert "the readings say that it uses its card" in busy["contradictions"][0]["text"]
    assert told("Using device: cuda\n", utilisation=BUSY, own=GIB)["contradictions"] == []


OOM = "torch.OutOfMemoryError: CUDA out of memory.\n"


def memory(used: float) -> dict[str, list[float]]:
    return {"memory_used_bytes": [used] * 60, "memory_total_bytes": [80 * GIB] * 60}


def test_out_of_memory_by_whose_memory_it_was():
    mine = told(OOM, utilisation=BUSY, end="out-of-memory", own=78 * GIB, **memory(79 * GIB))
    assert causes(mine)[0] == "oom-model-too-large"
    alone = told(OOM, utilisation=BUSY, end="out-of-memory")
    assert mine["findings"][0]["certainty"] > alone["findings"][0]["certainty"]
    others = told(OOM, utilisation=BUSY, end="out-of-memory", own=20 * GIB, **memory(79 * GIB))
    assert causes(others)[0] == "oom-other-process"
    assert "59 GiB by others" in "".join(others["findings"][0]["evidence"])


def test_libraries_that_cannot_begin_on_a_full_card():
    line = "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`\n"
    full = told(line, utilisation=BUSY, end="program-error", own=78 * GIB, **memory(79 * GIB))
    assert causes(full)[0] == "oom-model-too-large"
    free = told(line, utilisation=BUSY, end="program-error", own=8 * GIB, **memory(9 * GIB))
    assert "oom-model-too-large" not in causes(free)


@pytest.mark.parametrize("end", ["succeeded", "program-error", "cancelled", None])
def test_a_full_card_alone_is_no_finding(end):
    """Some programs take all memory on purpose."""
    assert told(utilisation=BUSY, end=end, own=78 * GIB, **memory(79 * GIB))["findings"] == []


def test_the_cause_that_a_program_printed_leads():
    hot = {"throttle_reasons": throttled("hardware-thermal"), "temperature_c": [93.0] * 60}
    found = told(OOM, utilisation=BUSY, end="out-of-memory", **hot)
    assert causes(found)[:2] == ["oom-model-too-large", "thermal-throttling"]


def test_lanes_that_it_had_before():
    wide = series(begin=T0 - 6000, utilisation=BUSY, pcie_width=[16] * 60, pcie_generation=[4] * 60)
    narrow = {"pcie_width": [4] * 60, "pcie_generation": [4] * 60}
    found = told(utilisation=BUSY, before=wide, **narrow)
    assert causes(found) == ["gpu-poorly-seated"]
    assert found["findings"][0]["evidence"] == [f"card {CARD} PCIe link x4 under load; it was x16 before this job"]
    assert told(utilisation=BUSY, **narrow)["verdict"] == "healthy"  # nothing to compare with
    slow = {"pcie_width": [16] * 60, "pcie_generation": [1] * 60}
    assert told(utilisation=[0.0] * 60, before=wide, cores=0.0, **slow)["verdict"] == "healthy"  # it rests
    assert told(utilisation=BUSY, before=wide, **slow)["findings"] == []  # a hint, and the item ended well


def test_memory_errors_that_came_meanwhile():
    found = told(utilisation=BUSY, ecc_uncorrected=[3] * 30 + [5] * 30)
    assert causes(found)[0] == "ecc-uncorrectable-error"
    assert "2 more uncorrectable memory errors" in found["findings"][0]["evidence"][0]
    assert told(utilisation=BUSY, ecc_uncorrected=[3] * 60)["verdict"] == "healthy"


HOLD = [Hold(CARD, 1, T0, T0 + 60, 1.0)]


def mark(kind: str, text: str, at: float = T0 + 30, card: str = CARD, **params: Any) -> MarkRow:
    return MarkRow(at, card, kind, Text(text, params))


XID = "Xid {number}: NVIDIA's driver reported an error of this card"
LOST = (
    "The driver lost this card: it fell off the PCIe bus. Restart the machine; if it happens again, check its power cables, "
    "seating and temperature, and look for Xid 79 in dmesg."
)
WELL = mark("health", "The card answers again.", at=T0 + 31)


@pytest.mark.parametrize(
    ("marks", "cause"),
    [
        ([mark("xid", XID, number=79)], "gpu-fallen-off-bus"),
        ([mark("xid", XID, number=48)], "ecc-uncorrectable-error"),
        ([mark("xid", "Xid {number}: {line}", number=31, line="pid=1, Ch 8, MMU Fault: ENGINE GRAPHICS")], "xid31-software-fault"),
        ([mark("ecc", "The driver reported memory errors that cannot be corrected (ECC).")], "ecc-uncorrectable-error"),
        ([mark("health", LOST)], "gpu-fallen-off-bus"),
        ([mark("health", "The driver no longer lists this card.")], "gpu-fallen-off-bus"),
        ([mark("kernel", "The kernel says: {line}", line="NVRM: GPU 0000:10:00.0: GPU has fallen off the bus.")], "gpu-fallen-off-bus"),
    ],
)  # fmt: skip
def test_what_happened_to_the_card_is_named(marks, cause):
    lines = mark_lines(marks, HOLD, failed=True)
    found = told("CUDA error: unspecified launch failure\n", marks=lines, utilisation=BUSY, end="program-error")
    assert causes(found)[0] == cause
    assert f"card {CARD}" in "".join(found["findings"][0]["evidence"])


def test_a_card_that_came_back_by_itself_was_not_lost_for_good():
    back = told(marks=mark_lines([mark("health", LOST), WELL], HOLD, failed=True), utilisation=BUSY)
    gone = told(marks=mark_lines([mark("health", LOST)], HOLD, failed=True), utilisation=BUSY)
    assert back["findings"][0]["certainty"] < gone["findings"][0]["certainty"]
    assert told(marks=mark_lines([WELL], HOLD, failed=True), utilisation=BUSY)["verdict"] == "healthy"


def test_marks_of_others_and_of_other_times_are_not_its_own():
    marks = [
        mark("xid", XID, number=79, at=T0 - 1),
        mark("xid", XID, number=79, at=T0 + 120),
        mark("xid", XID, number=79, card="nvidia:GPU-b"),
        mark("silent", "Reading {vendor} cards does not end: their values are unknown since.", vendor="nvidia"),
    ]
    assert mark_lines(marks, HOLD, failed=True) == ""
    assert mark_lines([mark("xid", XID, number=79, at=T0 + 62)], HOLD, failed=True)  # seen a moment later
    killed = [mark("xid", XID, number=45)]
    assert mark_lines(killed, HOLD, failed=False) == ""  # we ended it, and that is what this number means
    assert mark_lines(killed, HOLD, failed=True)


def test_one_of_several_cards_that_was_not_used_is_no_program_on_the_cpu():
    of = measure(cores=3.0, **UNUSED)
    (card,) = of.cards
    assert [fact.name for fact in measured_facts(of)] == ["card_unused"]
    used = replace(card, card="nvidia:GPU-b", utilisation=0.9, busiest=1.0)
    assert [fact.name for fact in measured_facts(replace(of, cards=(card, used)))] == []


@pytest.mark.parametrize(
    "seen",
    [
        {"utilisation": BUSY, "throttle_reasons": [()] * 60, "temperature_c": [62.0] * 60, **memory(60 * GIB), "own": 59 * GIB},
        {"utilisation": [0.9] * 9 + [0.0] + [0.9] * 50},
        {"utilisation": ([0.9] * 9 + [0.0]) * 6},  # a tenth of the time, again and again
        {"utilisation": [0.0, 0.9], "step_s": 1.0, "throttle_reasons": [("hardware-thermal",)] * 2, "temperature_c": [99.0] * 2},
        {"utilisation": BUSY, "throttle_reasons": throttled("software-thermal", share=0.05), "temperature_c": [80.0] * 60},
        {"utilisation": [None] * 60, "throttle_reasons": [None] * 60},
        {"utilisation": [0.0] * 12 + [0.9] * 48},  # it prepared its data first
    ],
    ids=["busy", "one-pause", "tenth", "two-seconds", "little-heat", "unknown", "prepares"],
)  # fmt: skip
def test_a_healthy_job_is_called_healthy(seen):
    found = told("epoch 1 loss 0.3\nepoch 2 loss 0.2\n", **seen)
    assert (found["verdict"], found["findings"]) == ("healthy", [])
    running = told("epoch 1 loss 0.3\n", end=None, **seen)
    assert running["findings"] == []


ratio = st.one_of(st.none(), st.floats(0, 1))


@given(
    rows=st.lists(st.tuples(ratio, ratio, st.one_of(st.none(), st.floats(-10, 120))), min_size=1, max_size=40),
    step=st.sampled_from([1.0, 10.0, 60.0]),
    cores=st.one_of(st.none(), st.floats(0, 64)),
    own=st.one_of(st.none(), st.floats(0, 80 * GIB)),
    reasons=st.lists(
        st.sampled_from(["power-cap", "hardware-thermal", "power-brake", "hardware-slowdown"]), max_size=3
    ),
    end=st.sampled_from(["succeeded", "program-error", None]),
)
def test_whatever_was_seen_makes_facts_of_whole_numbers(rows, step, cores, own, reasons, end):
    used = [None if share is None else round(share * 80 * GIB) for _, share, _ in rows]
    of = measure(
        utilisation=[busy for busy, _, _ in rows],
        step_s=step,
        cores=cores,
        own=own,
        end=end,
        memory_used_bytes=used,
        memory_total_bytes=[80 * GIB] * len(rows),
        temperature_c=[celsius for _, _, celsius in rows],
        throttle_reasons=[tuple(reasons)] * len(rows),
    )
    again = Measured.from_json(asdict(of))
    assert measured_facts(again) == measured_facts(of)
    for number, fact in enumerate(measured_facts(of), 1):
        assert fact.line.measured and fact.line.number == number
        assert int(fact.value) >= -10
        assert fact.line.text.startswith(f"card {CARD} ")
        if fact.name.startswith(("throttled_", "idle_")):
            assert 10 <= int(fact.value) <= 100
            assert len(rows) * step >= 10


ANY = st.none() | st.floats()
SECONDS = st.floats()
REASONS = ("cpu-bound", "storage-bound", "software-thermal", "power-cap", "power-brake", "hardware-slowdown")
BY_REASON = st.dictionaries(st.sampled_from(REASONS), SECONDS)
COLUMNS = (
    "temperature_c", "power_w", "memory_used_bytes", "memory_total_bytes", "pcie_width", "pcie_generation", "ecc_uncorrected",
)  # fmt: skip


def any_card() -> st.SearchStrategy[MeasuredCard]:
    kinds = {"card": st.just(CARD), "pauses": st.integers(0, 9), "own_is_whole": st.booleans()}
    kinds |= dict.fromkeys(("idle_between_s", "idle_cores", "throttled_s"), BY_REASON)
    kinds |= dict.fromkeys(("seen_s", "throttle_seen_s"), SECONDS)
    return st.builds(MeasuredCard, **{one.name: kinds.get(one.name, ANY) for one in fields(MeasuredCard)})


@given(st.builds(Measured, cards=st.lists(any_card(), max_size=3), length_s=SECONDS, cpu_cores=ANY))
def test_numbers_that_cannot_be_are_unknown(of: Measured) -> None:
    """Minus one, infinity, no number: drivers say such things, and the doctor goes on without."""
    for fact in measured_facts(of):
        assert int(fact.value) >= 0
        assert "nan" not in fact.line.text and "inf" not in fact.line.text


@given(
    st.lists(ANY, min_size=1, max_size=8),
    st.fixed_dictionaries(dict.fromkeys(COLUMNS, st.lists(ANY, min_size=8, max_size=8))),
)
def test_readings_that_cannot_be_stop_nothing(utilisation: list[float | None], columns: dict[str, Any]) -> None:
    count = len(utilisation)
    measured_facts(measure(utilisation=utilisation, **{name: values[:count] for name, values in columns.items()}))


@pytest.mark.parametrize("wrong", [math.inf, math.nan, -1.0])
def test_a_wrong_number_is_no_fault(wrong: float) -> None:
    columns = {name: [wrong] * 60 for name in COLUMNS}
    assert told(utilisation=BUSY, own=4.0 * GIB, **columns)["findings"] == []
