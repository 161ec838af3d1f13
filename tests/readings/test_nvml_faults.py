"""Every answer that NVML can give, to every call that it is asked each second, of one card of eight: the others go on."""

from __future__ import annotations

from collections.abc import Iterator

import nvml_standin
import pytest

from anycard.cards.problem import VendorFault
from anycard.cards.readings.nvidia import NvidiaReader
from anycard.cards.readings.shapes import Look, Mark, MarkKind
from anycard.cards.vendors import nvidia
from anycard.host.clock import now
from anycard.host.libraries import nvml_session
from anycard.host.live import LiveHost
from anycard.model.card import Health

SICK = 3
SAYS = {
    "lost": "fell off the PCIe bus",
    "reset_required": "needs a reset",
    "not_found": "does not find it",
    "unknown": '"unknown error"',
    "operating_system": "operating system blocks",
    "no_permission": "You may not use this card",
    "timeout": "did not answer for this card in time",
    "version_mismatch": "LIB_RM_VERSION_MISMATCH",
    "uninitialized": "UNINITIALIZED",
    "function_not_found": "FUNCTION_NOT_FOUND",
    "insufficient_size": "INSUFFICIENT_SIZE",
}
ON_ANY_CALL = ("lost", "reset_required")  # what these say holds for the card, whatever was asked
ABSENT = (
    "function_not_found",
    "insufficient_size",
)  # the driver does not have it: no illness, but of what every card has
WHO = ("", "queries", "nvmlDeviceGetUUID")  # without these nobody knows whose the values are
VALUES = (
    "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetTemperatureV", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetClockInfo",
    "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetFanSpeed",
    "nvmlDeviceGetCurrPcieLinkGeneration", "nvmlDeviceGetCurrPcieLinkWidth", "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetProcessUtilization",
)  # fmt: skip
AT_OPENING = ("nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceRegisterEvents")  # asked of an open library no more
LOOKS = 12  # more than a tenth look: what seldom changes is asked then


@pytest.fixture
def reader(nvml: nvml_standin.NvmlStandin, monkeypatch: pytest.MonkeyPatch) -> Iterator[NvidiaReader]:
    monkeypatch.setattr(nvml_session, "_STAYS_OPEN_S", 0.0)  # a sick card: closed and opened at each look
    made = NvidiaReader(LiveHost())
    yield made
    made.close()


def eight(sick: str = "", order: tuple[int, ...] = tuple(range(8))) -> str:
    """``sick``: the words of card SICK."""
    return "".join(
        f"[card]\nuuid = GPU-{at}\nbus = 00000000:{0x10 + at:02X}:00.0\nutilisation = {10 + at}\n"
        f"process = {4000 + at} 1000 compute 5\n{sick if at == SICK else ''}"
        for at in order
    )


def busy(look: Look) -> dict[str, float | None]:
    return {reading.card_id.removeprefix("nvidia:GPU-"): reading.utilisation for reading in look.readings}


OTHERS = {str(at): (10 + at) / 100 for at in range(8) if at != SICK}


@pytest.mark.parametrize("call", [*WHO, "nvmlDeviceGetMemoryInfo_v2", *VALUES, *AT_OPENING])
@pytest.mark.parametrize("answer", SAYS)
def test_one_card_of_eight(nvml: nvml_standin.NvmlStandin, reader: NvidiaReader, answer: str, call: str) -> None:
    nvml.describe(eight())
    assert len(reader.look(now()).readings) == 8
    marks: dict[str, list[Mark]] = {"sick": [], "well": []}
    for state, words in (("sick", f"fault = {answer} {call}\n"), ("well", "")):
        nvml.describe(eight(words))
        for _ in range(LOOKS):
            look = reader.look(now())
            seen = busy(look)
            own = seen.pop(str(SICK), "nothing")
            assert seen == OTHERS
            assert {use.card_id for use in look.uses} >= {f"nvidia:GPU-{at}" for at in OTHERS}
            if state == "sick" and call in WHO:
                assert own == "nothing"
            elif call == "nvmlDeviceGetUtilizationRates":
                assert own in (None, 0.13)
            else:
                assert own == 0.13
            marks[state] += look.marks
    is_ill = (
        call in WHO
        or (call == "nvmlDeviceGetMemoryInfo_v2" and answer not in ABSENT)
        or (call not in AT_OPENING and answer in ON_ANY_CALL)
    )
    for told, words in ((marks["sick"], SAYS[answer]), (marks["well"], "answers again")):
        assert [(mark.card_id, mark.kind) for mark in told] == [(f"nvidia:GPU-{SICK}", MarkKind.HEALTH)] * is_ill
        assert all(words in str(mark.text) for mark in told)


def test_one_fault_after_another_while_the_library_stays_open(
    nvml: nvml_standin.NvmlStandin, reader: NvidiaReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was answered during the one says nothing of the next."""
    monkeypatch.setattr(nvml_session, "_STAYS_OPEN_S", 1e9)
    nvml.describe(eight())
    reader.look(now())
    for answer, says in SAYS.items():
        for words in (f"fault = {answer} queries\n", ""):
            nvml.describe(eight(words))
            marks = [mark for _ in range(3) for mark in reader.look(now()).marks]
            assert [mark.card_id for mark in marks] == [f"nvidia:GPU-{SICK}"]
            assert (says if words else "answers again") in str(marks[0].text)


@pytest.mark.parametrize(
    "newest, field",
    [
        ("nvmlDeviceGetTemperatureV", "temperature_c"),  # came with driver 560
        ("nvmlDeviceGetCurrentClocksEventReasons", "throttle_reasons"),  # 535
        ("nvmlDeviceGetMemoryInfo_v2", "memory_used_bytes"),  # 510
    ],
)
def test_an_older_driver_is_asked_by_the_older_names(
    nvml: nvml_standin.NvmlStandin, reader: NvidiaReader, newest: str, field: str
) -> None:
    words = "temperature = 71\nthrottle = 0x20\nmemory_used = 1000\nmemory_reserved = 0\n"
    nvml.describe(eight(f"{words}fault = function_not_found {newest}\n"))
    expected = {"temperature_c": 71, "throttle_reasons": ("software-thermal",), "memory_used_bytes": 1000}
    for _ in range(2):
        assert getattr(reader.look(now()).readings[SICK], field) == expected[field]


def test_an_older_driver_lists_programs_by_the_older_name(nvml: nvml_standin.NvmlStandin, reader: NvidiaReader) -> None:
    """Before driver 510. The binding has an error of its own for that, which took all cards away."""
    nvml.describe(
        eight(
            "".join(
                f"fault = function_not_found nvmlDeviceGet{kind}RunningProcesses_v3\n"
                for kind in ("Compute", "Graphics", "MPSCompute")
            )
        )
    )
    uses = {use.card_id: use for use in reader.look(now()).uses}
    assert (uses["nvidia:GPU-3"].pid, uses["nvidia:GPU-3"].memory_bytes) == (4003, 1000)
    card = nvidia.find(LiveHost())[SICK]
    assert card.health is Health.OK and [process.pid for process in card.processes or ()] == [4003]


@pytest.mark.parametrize("answer", ["function_not_found", "not_supported", "insufficient_size"])
def test_a_card_that_answers_nothing_is_not_well(
    nvml: nvml_standin.NvmlStandin, reader: NvidiaReader, answer: str
) -> None:
    nvml.describe(eight(f"fault = {answer}\n"))
    cards = nvidia.find(LiveHost())
    assert [card.health for card in cards] == [Health.UNKNOWN if at == SICK else Health.OK for at in range(8)]
    assert answer.upper() in str(cards[SICK].health_reason)


def test_a_name_that_is_no_text_costs_that_card_alone(nvml: nvml_standin.NvmlStandin) -> None:
    nvml.description.write_bytes(b"[card]\nuuid = GPU-a\nname = NVIDIA \xff\xfe\n[card]\nuuid = GPU-b\n")
    bad, good = nvidia.find(LiveHost())
    assert (bad.id, bad.model, bad.health) == ("nvidia:GPU-a", "NVIDIA card", Health.UNKNOWN)
    assert good.health is Health.OK


def test_a_sick_card_does_not_take_the_name_of_one_that_speaks(
    nvml: nvml_standin.NvmlStandin, reader: NvidiaReader
) -> None:
    """Card 0 leaves, so card 3 has the index that card 4 will have had: nothing of card 4 may be told because of card 3."""
    nvml.describe(eight())
    reader.look(now())
    nvml.describe(eight("fault = lost\n", order=(1, 2, 4, 3, 5, 6, 7)))
    marks = [mark for _ in range(3) for mark in reader.look(now()).marks]
    gone = [mark for mark in marks if "no longer lists" in str(mark.text)]
    ill = [mark for mark in marks if "fell off" in str(mark.text)]
    assert {mark.card_id for mark in gone} == {"nvidia:GPU-0"} and len(marks) == 2
    assert [mark.card_id for mark in ill] == ["nvidia:GPU-3"]  # at the index that it had before
    nvml.describe(eight("fault = lost\n", order=(2, 4, 3, 5, 6, 7)))
    marks = [mark for _ in range(3) for mark in reader.look(now()).marks]
    # index 2 was card 4's, which speaks at another now: who it is nobody knows
    assert sorted(str(mark.card_id) for mark in marks) == ["nvidia:GPU-1", "nvidia:GPU-3", "nvidia:index-2"]


def test_a_card_that_was_sick_from_the_start_is_told_well_and_forgotten_as_a_number(
    nvml: nvml_standin.NvmlStandin, reader: NvidiaReader
) -> None:
    nvml.describe(eight("fault = unknown\n"))
    (ill,) = [mark for _ in range(2) for mark in reader.look(now()).marks]
    assert ill.card_id == "nvidia:index-3"
    nvml.describe(eight())
    (well,) = [mark for _ in range(3) for mark in reader.look(now()).marks]
    assert (well.card_id, str(well.text)) == ("nvidia:index-3", "The card answers again.")


def test_an_xid_is_not_lost_with_the_look_in_which_the_driver_failed(
    nvml: nvml_standin.NvmlStandin, reader: NvidiaReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pynvml

    nvml.describe(eight())
    reader.look(now())
    nvml.describe(eight("xid = 79\n"))

    def fail() -> int:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)

    with monkeypatch.context() as broken:
        broken.setattr(pynvml, "nvmlDeviceGetCount", fail)
        with pytest.raises(VendorFault):
            reader.look(now())
    marks = [mark for _ in range(2) for mark in reader.look(now()).marks if mark.kind is MarkKind.XID]
    assert [mark.text.params["number"] for mark in marks] == [79]
