"""Instances of a card in MIG mode, read again and again: the real binding on the stand-in library."""

from __future__ import annotations

from typing import Any

import nvml_standin
import pytest
from divided import WHOLE, A, B, C, divided

from anycard.cards.readings.nvidia import NvidiaReader
from anycard.cards.readings.shapes import Look, MarkKind
from anycard.host.clock import now
from anycard.host.libraries import nvml_session
from anycard.jobs.cardwatch import CardWatch, Limits
from anycard.jobs.report.figures import Hold, Seen, figures
from anycard.jobs.report.findings import findings
from anycard.model.card import Card, Reading
from anycard.model.series import COLUMNS, Series
from anycard.units import GIB


def of(look: Look, uuid: str) -> Reading:
    return next(reading for reading in look.readings if reading.card_id == f"nvidia:{uuid}")


def test_an_instance_has_its_memory_and_nothing_of_the_whole_cards(
    nvml: nvml_standin.NvmlStandin, reader: NvidiaReader
) -> None:
    nvml.describe(divided("utilisation = 80\ntemperature = 61\npower = 200000\n"))
    for _ in range(3):
        look = reader.look(now())
        assert of(look, A) == Reading(f"nvidia:{A}", memory_used_bytes=1 << 20, memory_total_bytes=10 * GIB)
        whole = of(look, WHOLE)
        assert (whole.utilisation, whole.temperature_c, whole.power_w) == (None, 61, 200)


def test_a_program_is_told_once_on_its_instance(nvml: nvml_standin.NvmlStandin, reader: NvidiaReader) -> None:
    nvml.describe(divided("process = 77 5000 compute 30 2\nprocess = 78 6000 compute 30 0\n"))
    for _ in range(3):
        uses = reader.look(now()).uses
        assert [(use.card_id, use.pid, use.memory_bytes, use.utilisation) for use in uses] == [
            (f"nvidia:{A}", 78, 6000, None),
            (f"nvidia:{C}", 77, 5000, None),
        ]


def test_instances_made_and_destroyed_are_seen_at_once(nvml: nvml_standin.NvmlStandin, reader: NvidiaReader) -> None:
    nvml.describe(divided())
    assert reader.look(now()).marks == ()
    other = "MIG-5eed0000-0000-5000-8000-00000000000d"
    nvml.describe(divided().replace(B, other))
    look = reader.look(now())
    assert of(look, other).memory_total_bytes == 20 * GIB
    assert f"nvidia:{B}" not in {reading.card_id for reading in look.readings}
    assert [(mark.card_id, mark.kind) for mark in look.marks] == [(f"nvidia:{B}", MarkKind.HEALTH)]
    assert "destroyed" in str(look.marks[0].text)
    assert reader.look(now()).marks == ()


def test_mig_mode_switched_on_is_seen_within_ten_looks(nvml: nvml_standin.NvmlStandin, reader: NvidiaReader) -> None:
    nvml.describe(f"[card]\nuuid = {WHOLE}\n")
    reader.look(now())
    nvml.describe(divided())
    looks = [reader.look(now()) for _ in range(10)]
    assert len(looks[-1].readings) == 4
    assert all(not look.marks for look in looks)


def test_a_sick_instance_is_marked_once_and_its_siblings_go_on(
    nvml: nvml_standin.NvmlStandin, reader: NvidiaReader
) -> None:
    nvml.describe(divided())
    reader.look(now())
    nvml.describe(divided("mig_fault = 1 unknown\n"))
    looks = [reader.look(now()) for _ in range(3)]
    assert [[mark.card_id for mark in look.marks] for look in looks] == [[f"nvidia:{B}"], [], []]
    assert all(of(look, A).memory_used_bytes and of(look, C).memory_total_bytes for look in looks)
    nvml.describe(divided())
    assert [mark.card_id for mark in reader.look(now()).marks] == [f"nvidia:{B}"]


def test_a_fault_of_the_card_is_told_of_the_card_alone(nvml: nvml_standin.NvmlStandin, reader: NvidiaReader) -> None:
    nvml.describe(divided())
    reader.look(now())
    nvml.describe(divided("fault = reset_required queries\n"))
    marks = [mark for _ in range(3) for mark in reader.look(now()).marks]
    assert [mark.card_id for mark in marks] == [f"nvidia:{WHOLE}"]


def test_an_xid_of_one_instance_is_its_own(nvml: nvml_standin.NvmlStandin, reader: NvidiaReader) -> None:
    nvml.describe(divided())
    reader.look(now())
    nvml.describe(divided("xid = 31 3\nxid = 79\n"))  # the instance in slot 2 is GPU instance 3
    marks = [*reader.look(now()).marks, *reader.look(now()).marks]
    assert [(mark.card_id, mark.text.params["number"]) for mark in marks] == [
        (f"nvidia:{C}", 31),
        (f"nvidia:{WHOLE}", 79),
    ]


def test_a_card_that_knows_no_mig_mode_is_asked_of_it_each_tenth_look_alone(
    nvml: nvml_standin.NvmlStandin, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.describe(f"[card]\nuuid = {WHOLE}\nmig = none\n")
    import pynvml

    asked: list[str] = []

    def counted(name: str) -> Any:
        real = getattr(pynvml, name)

        def call(*arguments: Any) -> Any:
            asked.append(name)
            return real(*arguments)

        return call

    for name in ("nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex"):
        monkeypatch.setattr(pynvml, name, counted(name))
    session = nvml_session.open_session()
    for _ in range(20):
        session.look()
    session.close()
    assert asked == ["nvmlDeviceGetMigMode"] * 2


# ---- unknown is not idle


def test_no_webhook_says_that_an_instance_idles(nvml: nvml_standin.NvmlStandin, reader: NvidiaReader) -> None:
    nvml.describe(divided())
    watch = CardWatch(Limits(idle_s=10))
    card = Card(f"nvidia:{A}", "nvidia", "x MIG 1g.10gb", part_of=f"nvidia:{WHOLE}")
    news = []
    for at in range(0, 100, 5):
        readings = {reading.card_id: reading for reading in reader.look(now()).readings}
        news += watch.look(float(at), [card], lost=(), readings=readings, held={card.id: 1})
    assert news == []


def test_a_report_says_of_an_instance_that_its_utilisation_is_unknown() -> None:
    place = COLUMNS.index("memory_used_bytes")
    total = COLUMNS.index("memory_total_bytes")
    values = {place: float(GIB), total: 10.0 * GIB}
    row = tuple(values.get(at) for at in range(len(COLUMNS)))
    hold = Hold(f"nvidia:{A}", 1, 0.0, 100.0, 1.0, 5.0)
    series = Series(hold.card_id, tuple(float(at) for at in range(0, 100, 10)), (row,) * 10)
    made = figures(Seen((hold,), {hold.card_id: series}, 10.0, (), 10.0, None, None))
    (card,) = made.cards
    assert (card.utilisation, card.seen_s, card.idle_s, card.before_s, card.after_s) == (None, 0, 0, 0, 0)
    assert card.stretches == ()
    told = findings(made, {hold.card_id: "the instance"})
    assert [one.kind for one in told] == ["spare-memory", "utilisation-unknown"]
    assert str(told[1].text) == "how busy the instance was is not known"
