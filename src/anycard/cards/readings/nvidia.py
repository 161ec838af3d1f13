"""NVIDIA: NVML, opened once. Without NVML, ``nvidia-smi`` at a slower step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anycard.cards.readings.shapes import CardUse, Look, Mark, MarkKind
from anycard.cards.vendors import nvidia
from anycard.host.host import Host
from anycard.i18n import N_
from anycard.model.card import Health, Reading
from anycard.model.instant import Instant
from anycard.model.text import Text

_TOOL_PERIOD_S = 10.0  # nvidia-smi costs 0.1 to 1 s of processor time
_MOST_EVENTS = 64  # that wait to be told
_XID = N_("Xid {number}: NVIDIA's driver reported an error of this card")
_ECC = N_("The driver reported memory errors that cannot be corrected (ECC).")
_GONE = N_("The driver no longer lists this card.")
_DESTROYED = N_("This MIG instance was destroyed.")
_WELL = N_("The card answers again.")


class NvidiaReader:
    """See ``Reader``."""

    name = nvidia.VENDOR

    def __init__(self, host: Host) -> None:
        self._host = host
        self._session = host.session("nvml_session")
        self._health: dict[str, Health] = {}
        self._at_index: dict[int, str] = {}
        self._spoke: set[str] = set()  # ids of cards that said who they are
        self._instances: dict[str, dict[int, str]] = {}  # whole card -> slot -> id, as last seen
        self._events: list[Mark] = []  # not told yet: the driver as a whole failed meanwhile
        self.period_s = 1.0

    def look(self, at: Instant) -> Look:
        seen = self._session.look()
        if seen is None or seen["init"].get("error") == "LIBRARY_NOT_FOUND":
            self.period_s = _TOOL_PERIOD_S
            return Look(nvidia.read(self._host))
        self.period_s = 1.0
        by_number = _by_number(seen["cards"]) if seen["events"] else {}
        self._events = [*self._events, *(_event_mark(event, by_number, at) for event in seen["events"])][-_MOST_EVENTS:]
        if error := seen["init"].get("error") or seen["count"].get("error"):
            raise nvidia.driver_fault(error)
        readings: list[Reading] = []
        uses: list[CardUse] = []
        marks: list[Mark] = []
        named = self._named(seen["cards"])
        for card in seen["cards"]:
            whole_id = named[card["index"]]
            health, why = nvidia.health_of(card, card["index"])
            marks += self._changed(whole_id, health, why, at)
            if health is Health.OK and ("instances" in card or whole_id in self._instances):
                marks += self._instance_marks(whole_id, card, at)
            if (card_id := nvidia.card_id(card)) is not None:
                readings.append(nvidia.reading(card))
                uses += _uses(card_id, card)
            for instance in card.get("instances", ()):
                if (card_id := nvidia.card_id(instance)) is not None:
                    readings.append(nvidia.reading(instance))
                    uses += _uses(card_id, instance)
        instances = {card_id for of_whole in self._instances.values() for card_id in of_whole.values()}
        for card_id in self._health.keys() - named.values() - instances:
            if card_id in self._spoke:
                marks += self._changed(card_id, Health.NOT_FOUND, Text(_GONE), at)
            else:  # it never said who it was, and does now
                marks += self._changed(card_id, Health.OK, None, at)
                del self._health[card_id]
        marks += self._events
        self._events = []
        return Look(tuple(readings), tuple(uses), tuple(marks))

    def close(self) -> None:
        self._session.close()

    def _named(self, cards: Sequence[dict[str, Any]]) -> dict[int, str]:
        """Index -> id. A card too sick to say who it is is the one that had its index before, unless that one speaks under another."""
        said = {card["index"]: card_id for card in cards if (card_id := nvidia.card_id(card)) is not None}
        speaking = set(said.values())
        named = {}
        for index in (card["index"] for card in cards):
            before = self._at_index.get(index)
            named[index] = said.get(index) or (
                before if before and before not in speaking else f"{nvidia.VENDOR}:index-{index}"
            )
        self._at_index |= said
        self._spoke |= speaking
        return named

    def _instance_marks(self, whole_id: str, card: dict[str, Any], at: Instant) -> list[Mark]:
        """Of a whole card that is well; the fault of one that is not is told once, of itself."""
        before = self._instances.get(whole_id, {})
        now: dict[int, str] = {}
        marks: list[Mark] = []
        for instance in card.get("instances", ()):
            slot = instance["index"]
            card_id = nvidia.card_id(instance) or before.get(slot)  # one that does not say who it is has the slot's id
            if card_id is not None and card_id not in now.values():
                now[slot] = card_id
                marks += self._changed(card_id, *nvidia.health_of(instance, card["index"]), at)
        for card_id in set(before.values()) - set(now.values()):
            self._health.pop(card_id, None)
            marks.append(Mark(at.utc_s, card_id, MarkKind.HEALTH, Text(_DESTROYED)))
        self._instances[whole_id] = now
        return marks

    def _changed(self, card_id: str, health: Health, why: Text | None, at: Instant) -> list[Mark]:
        before = self._health.get(card_id, Health.OK)
        self._health[card_id] = health
        return [] if health is before else [Mark(at.utc_s, card_id, MarkKind.HEALTH, why or Text(_WELL))]


def _uses(card_id: str, card: dict[str, Any]) -> list[CardUse]:
    memory = nvidia.memory_by_pid(card)
    if not memory:
        return []
    busy = card.get("process_utilisation", {}).get("value")
    return [
        CardUse(card_id, pid, size, busy.get(pid, 0) / 100 if busy is not None else None)
        for pid, size in memory.items()
    ]


def _by_number(cards: Sequence[dict[str, Any]]) -> dict[tuple[str, int], list[str]]:
    """(UUID of a whole card, number of a GPU instance) -> ids of its compute instances: an event names the GPU instance."""
    found: dict[tuple[str, int], list[str]] = {}
    for card in cards:
        for instance in card.get("instances", ()):
            number, card_id = instance.get("gpu_instance", {}).get("value"), nvidia.card_id(instance)
            if number is not None and card_id is not None:
                found.setdefault((card["uuid"].get("value"), number), []).append(card_id)
    return found


def _event_mark(event: dict[str, Any], by_number: dict[tuple[str, int], list[str]], at: Instant) -> Mark:
    uuid = event["uuid"]
    card_id = f"{nvidia.VENDOR}:{uuid}" if uuid else None
    instances = by_number.get((uuid, event["gpu_instance"]), ()) if event.get("gpu_instance") is not None else ()
    if len(instances) == 1:
        card_id = instances[0]
    if event["kind"] == "xid":
        return Mark(at.utc_s, card_id, MarkKind.XID, Text(_XID, {"number": event["data"]}))
    return Mark(at.utc_s, card_id, MarkKind.ECC, Text(_ECC))
