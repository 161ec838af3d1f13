"""What Prometheus scrapes (docs/metrics.md). Names follow its conventions: base units, ``_ratio`` 0..1, ``_total`` for what only rises.

A value that was not seen has no sample: a gap, never a zero.
"""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

import anycard
from anycard.cards.readings.shapes import Tick
from anycard.host.clock import now
from anycard.jobs.attribution import Owner
from anycard.jobs.board import Board
from anycard.jobs.dispatch import Dispatcher
from anycard.jobs.readings import CardReadings
from anycard.jobs.states import JobState
from anycard.model.card import CPU_VENDOR, Card, Health, Reading
from anycard.model.series import THROTTLE_REASONS
from anycard.scheduling.plan import HostState
from anycard.store.engine import Store
from anycard.store.queries import counts_by_state

if TYPE_CHECKING:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Now:
    """One moment, as it is told."""

    cards: tuple[Card, ...]
    tick: Tick | None
    owners: Mapping[int, Owner]
    host: HostState
    board: Board
    jobs: Mapping[str, int]
    paused: bool
    utc_s: float


async def metrics(store: Store, dispatcher: Dispatcher, kept: CardReadings) -> bytes:
    """The text that is scraped, in format 0.0.4."""
    jobs = await asyncio.to_thread(_jobs, store)
    machine = dispatcher.machine
    moment = Now(
        machine.cards,
        kept.last,
        kept.owners,
        dispatcher.host(),
        dispatcher.board,
        jobs,
        machine.paused is not None,
        now().utc_s,
    )
    return render(moment)


def _jobs(store: Store) -> Mapping[str, int]:
    """In a worker thread, which also loads the library, once: 50 ms that the loop need not wait."""
    import prometheus_client.exposition  # noqa: F401

    with store.read() as connection:
        return counts_by_state(connection)


def render(moment: Now) -> bytes:
    from prometheus_client.exposition import generate_latest  # 10 MB that a daemon nobody scrapes does without
    from prometheus_client.registry import Collector, CollectorRegistry

    class Told(Collector):
        def collect(self) -> Iterator[Metric]:
            yield from _cards(moment)
            yield from _readings(moment)
            yield from _uses(moment)
            yield from _queue(moment)
            yield from _daemon()

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Told())
    return generate_latest(registry)


# ---- cards

_GAUGES = (  # field of Reading, name, what it says, factor to the base unit
    ("utilisation", "utilisation_ratio", "Share of the time in which the card worked", 1),
    ("memory_utilisation", "memory_utilisation_ratio", "Share of the time in which its memory was read or written", 1),
    ("memory_used_bytes", "memory_used_bytes", "Memory in use", 1),
    ("memory_total_bytes", "memory_total_bytes", "Memory that there is", 1),
    ("temperature_c", "temperature_celsius", "Temperature", 1),
    ("power_w", "power_watts", "Power drawn", 1),
    ("power_limit_w", "power_limit_watts", "Power that it may draw", 1),
    ("clock_mhz", "clock_hertz", "Clock of its processors", 1e6),
    ("memory_clock_mhz", "memory_clock_hertz", "Clock of its memory", 1e6),
    ("fan", "fan_ratio", "Speed of its fan", 1),
    ("pcie_generation", "pcie_generation", "Generation of its PCIe link now", 1),
    ("pcie_width", "pcie_lanes", "Lanes of its PCIe link now", 1),
    ("io_wait", "io_wait_ratio", "CPU only: share of the time in which it idled while a program waited for a disk", 1),
)


def _gauge(name: str, says: str, *labels: str) -> GaugeMetricFamily:
    from prometheus_client.core import GaugeMetricFamily

    return GaugeMetricFamily(f"anycard_{name}", says, labels=labels)


def _counter(name: str, says: str, *labels: str) -> CounterMetricFamily:
    from prometheus_client.core import CounterMetricFamily

    return CounterMetricFamily(f"anycard_{name}", says, labels=labels)


def _cards(moment: Now) -> Iterator[Metric]:
    about = _gauge(
        "card_info", "What the card is; 1", "card", "vendor", "model", "index", "pci_address", "driver", "architecture",
        "part_of",
    )  # fmt: skip
    health = _gauge("card_health", "What is seen of the card: 1 at the health that holds", "card", "health")
    held = _gauge("card_held", "1: an attempt of anycard's holds it", "card")
    free = _gauge("card_free", "1: a job could have it now", "card")
    states = {state.id: state for state in moment.host.cards}
    _, _, granted = moment.board.granted()
    for card in moment.cards:
        about.add_metric(
            [
                card.id,
                card.vendor,
                card.model,
                str(card.index),
                card.pci_address or "",
                card.driver or "",
                card.architecture or "",
                card.part_of or "",
            ],
            1,
        )
        for known in Health:
            health.add_metric([card.id, known.value], float(card.health is known))
        if card.is_accelerator:
            held.add_metric([card.id], float(card.id in granted))
            if card.id in states:
                free.add_metric([card.id], float(states[card.id].free))
    yield from (about, health, held, free)


def _readings(moment: Now) -> Iterator[Metric]:
    readings = moment.tick.readings if moment.tick else ()
    for field, name, says, factor in _GAUGES:
        family = _gauge(f"card_{name}", says, "card")
        for reading in readings:
            value = getattr(reading, field)
            if value is not None:
                family.add_metric([reading.card_id], value * factor)
        yield family
    yield _throttling(readings)
    errors = _counter("card_ecc_errors", "Memory errors since the driver was loaded", "card", "kind")
    for reading in readings:
        for kind, count in (("corrected", reading.ecc_corrected), ("uncorrected", reading.ecc_uncorrected)):
            if count is not None:
                errors.add_metric([reading.card_id, kind], count)
    yield errors
    at = _gauge("readings_timestamp_seconds", "When the cards were last looked at")
    silent = _gauge("reader_silent", "1: this vendor's reader does not answer", "reader")
    if moment.tick is not None:
        at.add_metric([], moment.tick.at)
        for reader in moment.tick.silent:
            silent.add_metric([reader.reader], 1)
    yield from (at, silent)


def _throttling(readings: tuple[Reading, ...]) -> Metric:
    family = _gauge("card_throttled", "1: the card is slowed down for this reason", "card", "reason")
    for reading in readings:
        if reading.throttle_reasons is None:
            continue
        known = [reason if reason in THROTTLE_REASONS else "other" for reason in reading.throttle_reasons]
        for reason in THROTTLE_REASONS:
            family.add_metric([reading.card_id, reason], float(reason in known))
    return family


def _uses(moment: Now) -> Iterator[Metric]:
    """What running items have of each card's memory."""
    family = _gauge("item_card_memory_bytes", "Memory of a card that a running item uses", "job", "item", "card")
    used: defaultdict[tuple[str, str, str], int] = defaultdict(int)
    for use in moment.tick.uses if moment.tick else ():
        owner = moment.owners.get(use.pid)
        if owner is not None and use.memory_bytes is not None:
            used[str(owner.job), str(owner.item), use.card_id] += use.memory_bytes
    for labels, size in used.items():
        family.add_metric(list(labels), size)
    yield family


# ---- the queue and the daemon


def _queue(moment: Now) -> Iterator[Metric]:
    jobs = _gauge("jobs", "Jobs by state, those that ended among them", "state")
    for state in JobState:
        jobs.add_metric([state.value], moment.jobs.get(state.value, 0))
    yield jobs
    board = moment.board
    waiting = [board.jobs[job_id] for _, job_id in board.queue]
    yield _single("queue_jobs", "Jobs with items that wait", len(waiting))
    yield _single("queue_items", "Items that wait", sum(job.counts.queued for job in waiting))
    oldest = min((job.submitted_at for job in waiting), default=None)
    yield _single(
        "queue_oldest_seconds",
        "For how long the oldest of them has been in the queue; 0: none is",
        0.0 if oldest is None else max(0.0, moment.utc_s - oldest),
    )
    yield _single("attempts_running", "Attempts that run", len(board.attempts))
    yield _single(
        "starts_paused", "1: nothing starts (disk full, store damaged); `anycard status` says why", moment.paused
    )
    cores = next((card.cores for card in moment.cards if card.vendor == CPU_VENDOR), None)
    if cores is not None:
        yield _single("cpus", "CPUs that jobs may have", cores)
    yield _single("cpus_free", "CPUs that no attempt holds", moment.host.cpus_free)


def _single(name: str, says: str, value: float) -> Metric:
    family = _gauge(name, says)
    family.add_metric([], float(value))
    return family


def _daemon() -> Iterator[Metric]:
    """The daemon's own process, under the names that every client library uses."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    info = _gauge("build_info", "1", "version")
    info.add_metric([anycard.__version__], 1)
    yield info
    own = psutil.Process(os.getpid())
    with own.oneshot():
        times = own.cpu_times()
        yield CounterMetricFamily("process_cpu_seconds", "CPU time of the daemon", value=times.user + times.system)
        yield GaugeMetricFamily("process_resident_memory_bytes", "Resident memory of the daemon", own.memory_info().rss)
        yield GaugeMetricFamily("process_start_time_seconds", "When the daemon started", own.create_time())
        yield GaugeMetricFamily("process_open_fds", "Open descriptors of the daemon", own.num_fds())
        yield GaugeMetricFamily("process_threads", "Threads of the daemon", own.num_threads())
