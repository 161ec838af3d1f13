"""Whose a program on a card is: pids, as the driver reports them, joined to attempts; and what each attempt did over time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from anycard.cards.readings.shapes import Tick
from anycard.engines.protocol import Usage
from anycard.host.host import Host
from anycard.jobs.board import Attempt, Board
from anycard.model.card import CPU_VENDOR
from anycard.store.readings import UseRow

_MARK = b"ANYCARD_ATTEMPT_ID="  # engines/local sets it: HOME:ATTEMPT
_DEPTH = 64
_STRANGER_S = 5.0  # so long a program is held for a stranger's without another look: its attempt may just be starting
_ENVIRON_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Owner:
    """The attempt that a program belongs to."""

    job: int
    item: int
    attempt: int
    items: int | None = field(default=None, compare=False)  # how many the job has


@dataclass(frozen=True, slots=True)
class _Seen:
    """A process by its start time, so that a pid used again is never taken for it."""

    start: str
    owner: Owner | None
    at_boot_s: float


class Owners:
    """Remembers what it found; call it from one thread."""

    def __init__(self, host: Host, home_key: str) -> None:
        self._host = host
        self._mark = _MARK + home_key.encode() + b":"
        self._seen: dict[int, _Seen] = {}

    def of(self, board: Board, pids: Collection[int], boot_s: float) -> dict[int, Owner]:
        """Those of ``pids`` that belong to an attempt: it is an ancestor of theirs, leads their session or process group, or its mark
        stands in their environment (which outlives a double fork)."""
        by_pid = {attempt.pid: attempt for attempt in board.attempts.values() if attempt.pid is not None}
        found: dict[int, Owner] = {}
        kept: dict[int, _Seen] = {}
        for pid in pids:
            process = _process(self._host, pid)
            if process is None:
                continue
            seen = self._seen.get(pid)
            if seen is None or seen.start != process.start or not self._holds(seen, board, boot_s):
                attempt = self._attempt_of(pid, process, by_pid, board)
                owner = None if attempt is None else _owner(attempt, board)
                seen = _Seen(process.start, owner, boot_s)
            kept[pid] = seen
            if seen.owner is not None:
                found[pid] = seen.owner
        self._seen = kept
        return found

    @staticmethod
    def _holds(seen: _Seen, board: Board, boot_s: float) -> bool:
        if seen.owner is None:
            return boot_s - seen.at_boot_s < _STRANGER_S
        return seen.owner.attempt in board.attempts

    def _attempt_of(self, pid: int, process: _Process, by_pid: Mapping[int, Attempt], board: Board) -> Attempt | None:
        above, number = process, pid
        for _ in range(_DEPTH):
            for led_by in (number, above.group, above.session):
                if led_by in by_pid:
                    return by_pid[led_by]
            number = above.parent
            parent = _process(self._host, number) if number > 1 else None
            if parent is None:
                break
            above = parent
        return self._marked(pid, board)

    def _marked(self, pid: int, board: Board) -> Attempt | None:
        """By the mark; believed only where the process runs as the attempt's own user, for anybody may write it into an environment."""
        environ = b"\0" + (self._host.read(f"/proc/{pid}/environ", _ENVIRON_BYTES).data or b"")
        at = environ.find(b"\0" + self._mark)
        if at < 0:
            return None
        number = environ[at + 1 + len(self._mark) :].partition(b"\0")[0]
        attempt = board.attempts.get(int(number)) if number.isdigit() and len(number) < 19 else None
        if attempt is None or attempt.pid is None:
            return None
        node, own = self._host.node(f"/proc/{pid}"), self._host.node(f"/proc/{attempt.pid}")
        return attempt if node is not None and own is not None and node.owner == own.owner else None


@dataclass(frozen=True, slots=True)
class _Process:
    parent: int
    group: int
    session: int
    start: str


def _process(host: Host, pid: int) -> _Process | None:
    stat = host.read(f"/proc/{pid}/stat", 4096).text
    fields = stat.rpartition(")")[2].split() if stat and ")" in stat else []
    if len(fields) < 20:
        return None
    return _Process(int(fields[1]), int(fields[2]), int(fields[3]), fields[19])


# ---- what attempts did


@dataclass(slots=True)
class _OnCard:
    """Sums over the looks of one bucket."""

    looks: int = 0
    memory_bytes: float = 0.0
    memory_looks: int = 0
    memory_peak_bytes: float | None = None
    utilisation: float = 0.0
    utilisation_looks: int = 0


@dataclass(slots=True)
class _Rates:
    """An attempt's counters as the engine last reported them, and what they grew by in one second between its last two reports."""

    usage: Usage
    at_boot_s: float
    cpu_cores: float | None = None
    read_bytes_per_s: float | None = None
    written_bytes_per_s: float | None = None


@dataclass(slots=True)
class UseLog:
    """Gathers ticks until ``take`` makes rows of them."""

    _cards: dict[tuple[Owner, str], _OnCard] = field(default_factory=dict)
    _rates: dict[int, _Rates] = field(default_factory=dict)

    def add(self, board: Board, tick: Tick, owners: Mapping[int, Owner]) -> None:
        self._note_rates(board, tick.boot_s)
        together: dict[tuple[Owner, str], tuple[float | None, float | None]] = {}
        for use in tick.uses:
            owner = owners.get(use.pid)
            if owner is not None:
                memory, busy = together.get((owner, use.card_id), (None, None))
                together[owner, use.card_id] = (_sum(memory, use.memory_bytes), _sum(busy, use.utilisation))
        for key, (memory, busy) in together.items():
            sums = self._cards.setdefault(key, _OnCard())
            sums.looks += 1
            if memory is not None:
                sums.memory_bytes += memory
                sums.memory_looks += 1
                sums.memory_peak_bytes = max(sums.memory_peak_bytes or 0.0, memory)
            if busy is not None:
                sums.utilisation += min(1.0, busy)
                sums.utilisation_looks += 1

    def _note_rates(self, board: Board, boot_s: float) -> None:
        for attempt in board.attempts.values():
            before = self._rates.get(attempt.id)
            if before is None or before.usage is attempt.usage:
                self._rates.setdefault(attempt.id, _Rates(attempt.usage, boot_s))
                continue
            took = boot_s - before.at_boot_s
            old, new = before.usage, attempt.usage
            self._rates[attempt.id] = _Rates(
                new,
                boot_s,
                _rate(old.cpu_s, new.cpu_s, took),
                _rate(old.read_bytes, new.read_bytes, took),
                _rate(old.written_bytes, new.written_bytes, took),
            )
        for gone in self._rates.keys() - board.attempts.keys():
            del self._rates[gone]

    def take(self, board: Board, at: float) -> list[UseRow]:
        """A row for each attempt and card of the bucket that began at ``at`` (seconds since the epoch), and the next one begins. An attempt
        without a card has one for the CPU."""
        rows = []
        seen: set[tuple[int, str]] = set()
        for (owner, card_id), sums in self._cards.items():
            seen.add((owner.attempt, card_id))
            rows.append(
                UseRow(
                    at,
                    card_id,
                    owner.job,
                    owner.item,
                    owner.attempt,
                    n=sums.looks,
                    memory_bytes=sums.memory_bytes / sums.memory_looks if sums.memory_looks else None,
                    utilisation=sums.utilisation / sums.utilisation_looks if sums.utilisation_looks else None,
                    memory_peak_bytes=sums.memory_peak_bytes,
                    **self._of_host(owner.attempt),
                )
            )
        for attempt in board.attempts.values():
            if attempt.seen_running and attempt.usage.cpu_s is not None:
                for card_id in attempt.allocation.card_ids or (CPU_VENDOR,):
                    if (attempt.id, card_id) not in seen:
                        host = self._of_host(attempt.id)
                        rows.append(UseRow(at, card_id, attempt.job_id, attempt.item, attempt.id, n=1, **host))
        self._cards = {}
        return rows

    def _of_host(self, attempt: int) -> dict[str, float | None]:
        rates = self._rates.get(attempt)
        if rates is None:
            return {}
        return {
            "cpu_cores": rates.cpu_cores,
            "host_memory_bytes": rates.usage.memory_bytes,
            "read_bytes_per_s": rates.read_bytes_per_s,
            "written_bytes_per_s": rates.written_bytes_per_s,
        }


def _sum(a: float | None, b: float | None) -> float | None:
    return b if a is None else a if b is None else a + b


def _rate(before: float | None, after: float | None, seconds: float) -> float | None:
    if before is None or after is None or seconds <= 0:
        return None
    return max(0.0, after - before) / seconds


def _owner(attempt: Attempt, board: Board) -> Owner:
    job = board.jobs.get(attempt.job_id)
    return Owner(attempt.job_id, attempt.item, attempt.id, job.n_items if job is not None else None)
