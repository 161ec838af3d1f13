"""All cards of a machine: every vendor asked at the same time, each with a time limit. One vendor never hides another."""

from __future__ import annotations

import importlib
import logging
import stat
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar, cast
from weakref import WeakKeyDictionary

from anycard.cards import bus, topology
from anycard.cards.bus import OtherDevice
from anycard.cards.problem import Problem, VendorFault
from anycard.cards.vendors import VENDORS
from anycard.host.host import Host
from anycard.i18n import N_
from anycard.model.card import Card, Health, Link, NodeAccess
from anycard.model.text import Text

TIME_LIMIT_S = 8.0  # for each vendor; NVML's first call takes up to 5 s on eight cards without persistence mode

_Found = TypeVar("_Found")

log = logging.getLogger("anycard.cards")


@dataclass(frozen=True, slots=True)
class Inventory:
    """``cards`` in the order of the vendors, then their index, and behind them cards on the bus that nobody answered for. ``problems``:
    vendors that could not be asked as a whole. ``others``: what looks like a card and is none.
    ``links``: between each two accelerators."""

    cards: tuple[Card, ...]
    problems: tuple[Problem, ...]
    others: tuple[OtherDevice, ...] = ()
    links: tuple[Link, ...] = ()


class Vendor(Protocol):
    """A module of ``cards/vendors``; ``read`` may be missing."""

    VENDOR: str

    def find(self, host: Host) -> tuple[Card, ...]: ...


def probe(
    host: Host,
    previous: Inventory | None = None,
    *,
    time_limit_s: float = TIME_LIMIT_S,
    vendors: tuple[Vendor, ...] | None = None,
) -> Inventory:
    """Asks every vendor. Cards in ``previous`` stay: ``unreachable`` where their vendor does not answer, ``not-found`` where it answers
    without them. A vendor that hung before is not asked again until that call returns."""
    asked = all_vendors() if vendors is None else vendors
    calls = {vendor.VENDOR: _call(host, f"find {vendor.VENDOR}", vendor.find) for vendor in asked}
    deadline = time.monotonic() + time_limit_s
    cards: list[Card] = []
    problems: list[Problem] = []
    for name, call in calls.items():
        before = tuple(card for card in previous.cards if card.vendor == name) if previous else ()
        try:
            found = call.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            problem = Problem(name, Text(_HUNG, {"vendor": name, "seconds": time_limit_s}), Text(_HUNG_MEND))
        except VendorFault as fault:
            problem = fault.problem
        except Exception as error:
            log.exception("asking for %s cards failed", name)
            problem = Problem(name, Text(_BROKEN, {"vendor": name, "error": f"{type(error).__name__}: {error}"}))
        else:
            cards += _joined(found, before)
            continue
        problems.append(problem)
        cards += [
            replace(card, health=Health.UNREACHABLE, health_reason=problem.reason, processes=None) for card in before
        ]
    joined = _as_their_whole(bus.join(host, cards, problems))
    here = tuple(_with_access(host, card) for card in joined)
    return Inventory(here, tuple(problems), bus.others(host), _links(host, here, previous, deadline))


def all_vendors() -> tuple[Vendor, ...]:
    return tuple(cast(Vendor, importlib.import_module(f"anycard.cards.vendors.{name}")) for name in VENDORS)


def _with_access(host: Host, card: Card) -> Card:
    seen = ((path, host.node(path)) for path in card.device_nodes)
    access = tuple(NodeAccess(path, stat.S_IMODE(node.mode), node.owner, node.group) for path, node in seen if node)
    return replace(card, device_access=access) if access else card


def _links(host: Host, cards: tuple[Card, ...], previous: Inventory | None, deadline: float) -> tuple[Link, ...]:
    """Asked once for the same cards: it takes long, and links do not move. A driver that hangs gives those of before."""
    if previous is not None and _ends(previous.cards) == _ends(cards):
        return previous.links
    call = _call(host, "links", lambda seen: topology.links(seen, cards))
    try:
        return call.result(max(_LINKS_S, deadline - time.monotonic()))
    except TimeoutError:
        return previous.links if previous else ()


def is_destroyed(card: Card) -> bool:
    """Whether it is a MIG instance that is no more. It is listed until whoever keeps the inventory leaves it out."""
    return card.health_reason is not None and card.health_reason.msgid == _DESTROYED


def _ends(cards: tuple[Card, ...]) -> frozenset[tuple[str, str | None]]:
    return frozenset((card.id, card.pci_address) for card in cards if card.is_accelerator and card.part_of is None)


_LINKS_S = 0.5  # at least, also when a vendor used up the time
_HUNG = N_("Asking for {vendor} cards did not end within {seconds} s.")
_HUNG_MEND = N_(
    "The driver may be stuck: look at dmesg, and for programs in state D (ps aux); only a restart of the machine frees it then."
)
_BROKEN = N_("Asking for {vendor} cards failed: {error}")
_GONE = N_(
    "This card was here before, and the driver no longer lists it. If it was not removed, restart the machine and check its seating."
)
_DESTROYED = N_(
    "This MIG instance was destroyed, or MIG mode was switched off: the driver no longer lists it on its card."
)
_calls: WeakKeyDictionary[Host, dict[str, Future[Any]]] = WeakKeyDictionary()
_calls_lock = threading.Lock()


def _call(host: Host, name: str, function: Callable[[Host], tuple[_Found, ...]]) -> Future[tuple[_Found, ...]]:
    """Calls ``function`` on a daemon thread (a call stuck in a driver cannot be ended, and must not hold up our own exit), or returns the
    call of that name that still runs from before."""
    with _calls_lock:
        running = _calls.setdefault(host, {})
        call = running.get(name)
        if call is not None and not call.done():
            return call
        call = running[name] = Future()
    threading.Thread(target=_run, args=(call, host, function), daemon=True, name=name).start()
    return call


def _run(call: Future[Any], host: Host, function: Callable[[Host], object]) -> None:
    try:
        found = function(host)
    except BaseException as error:
        call.set_exception(error)
        if not isinstance(error, Exception):
            raise
    else:
        call.set_result(found)


def _joined(found: tuple[Card, ...], before: tuple[Card, ...]) -> list[Card]:
    """What was found, joined with what was known: a card too sick to say who it is takes its identity from the one that had its index
    before, and a card that is no longer listed stays, as ``not-found``. A MIG instance that its card, which is well, does not list is
    ``lost``: there the driver's word is proof."""
    listed = {card.id for card in found}
    here = {
        card.pci_address for card in found if card.pci_address
    }  # also under another id: its driver was loaded since
    missing = {_place(card): card for card in before if card.id not in listed and card.pci_address not in here}
    joined = []
    for card in found:
        if card.uuid is None and card.pci_address is None and _place(card) in missing and card.is_accelerator:
            known = missing.pop(_place(card))
            card = replace(known, health=card.health, health_reason=card.health_reason, processes=card.processes)
        elif card.health is not Health.OK:
            known = next((other for other in before if other.id == card.id), card)
            card = replace(
                card,
                memory_bytes=card.memory_bytes or known.memory_bytes,
                architecture=card.architecture or known.architecture,
            )
        joined.append(card)
    well = {card.id for card in found if card.health is Health.OK}
    for card in missing.values():
        health, why = (Health.LOST, _DESTROYED) if card.part_of in well else (Health.NOT_FOUND, _GONE)
        joined.append(replace(card, health=health, health_reason=Text(why), processes=None))
    indexes = {card.id: card.index for card in joined if card.part_of is None}
    return sorted(
        joined,
        key=lambda card: (indexes.get(card.part_of or card.id, card.index), card.part_of is not None, card.index),
    )


def _place(card: Card) -> tuple[str | None, int]:
    """An instance's index counts within its whole card."""
    return card.part_of, card.index


def _as_their_whole(cards: tuple[Card, ...]) -> list[Card]:
    """What ails a whole card ails its instances."""
    sick = {card.id: card for card in cards if card.health is not Health.OK}
    return [
        replace(card, health=whole.health, health_reason=whole.health_reason)
        if (whole := sick.get(card.part_of or ""))
        else card
        for card in cards
    ]
