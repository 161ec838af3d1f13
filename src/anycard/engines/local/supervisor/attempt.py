"""What the supervisor remembers of one attempt."""

from __future__ import annotations

from anycard.engines.local.supervisor.processes import TICKS_PER_S, Process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from anycard.engines.local.supervisor.cgroups import Group

_MOST_S = 1e12  # 30,000 years; what is longer is no time

QUEUED = "queued"  # to be started in one of the next turns
PENDING = "pending"  # claimed by someone, the claim not readable yet
RUNNING = "running"
DRAINING = "draining"  # the program ended; what it left behind is being ended
ENDED = "ended"


def failure(code: str, **params: str | int) -> dict[str, Any]:
    """A ``start_failure`` as it goes over the socket."""
    return {"code": code, "params": params}


def finite(value: object) -> float | None:
    """The number of seconds ``value`` is; None when it is no number, or none that a clock can be compared with."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _MOST_S:
        return None
    return float(value)


class Attempt:
    """``note`` is kept in ``started`` and survives this process: memory, cpus, grace_s, deadlines, program, cwd, groups.
    Times ``*_at`` are boot seconds unless they say UTC."""

    def __init__(self, attempt_id: int, stem: str) -> None:
        """ValueError when these are not what they are taken for: they come over the socket."""
        if type(attempt_id) is not int or not _is_path(stem):
            raise ValueError("no attempt")
        self.id = attempt_id
        self.stem = stem
        self.state = QUEUED
        self.spec: dict[str, Any] | None = None  # only until it is started
        self.note: dict[str, Any] = {}
        self.folders: list[str] = []  # made for it, by us and as ours
        self.uid: int | None = None  # whose processes may be ended for it; None: all that are ours
        # the process
        self.pid: int | None = None
        self.start_ticks = 0
        self.own = False  # our child: its wait status comes to us
        self.seen_alive = False  # its session and process group were really its own
        self.pidfd: int | None = None
        self.started_at = 0.0
        self.group: Group | None = None
        self.limits = "none"
        # being stopped or ended
        self.stopped_for: str | None = None
        self.kill_at: float | None = None
        self.told: set[tuple[int, int]] = set()  # (pid, start) that got the stop signal
        self.calm_since: float | None = None
        self.drained_since: float | None = None
        self.due = 0.0
        self.given_up = False  # it could not be dealt with; only what runs of it is still being ended
        self.pending_since = 0.0
        # how it ended
        self.ended_at = 0.0
        self.ended_utc = 0.0
        self.exit_code: int | None = None
        self.lost = False
        self.rebooted = False
        self.out_of_memory = False
        self.start_failure: dict[str, Any] | None = None  # code and params: startwords.py puts them into words
        self.disk_full = False
        self.left_behind = 0
        # usage, growing only
        self.known: dict[int, Process] = {}  # of the last sample, shim included
        self.cpu_s: float | None = None
        self.memory_bytes: int | None = None
        self.peak_memory_bytes: int | None = None
        self.read_bytes: int | None = None
        self.written_bytes: int | None = None

    def take_spec(self, spec: dict[str, Any]) -> None:
        """KeyError or ValueError when it is none: nothing of it is taken then."""
        _check(spec)
        self.spec = spec
        self.uid = spec["uid"]
        self.note = {
            "memory": spec["memory"],
            "cpus": spec["cpus"],
            "grace_s": spec["grace_s"],
            "deadlines": spec["deadlines"],
            "program": spec["argv"][0] if spec["argv"] else "",
            "cwd": spec["cwd"],
            "groups": [],
        }

    def take_note(self, note: dict[str, Any]) -> None:
        """The note of a claim found again; unknown or odd parts count as absent (in shared mode the file is the user's)."""
        self.note = note
        deadlines = note.get("deadlines")
        self.note["deadlines"] = [
            [after_s, entry[1]]
            for entry in (deadlines if isinstance(deadlines, list) else [])
            if isinstance(entry, list) and len(entry) == 2 and isinstance(entry[1], str)
            for after_s in [finite(entry[0])]
            if after_s is not None
        ]
        if not isinstance(note.get("memory"), int):
            note["memory"] = None
        grace_s = finite(note.get("grace_s"))
        note["grace_s"] = 30.0 if grace_s is None else grace_s

    def since_ticks(self) -> int:
        """No process of this attempt started before this (clock ticks since boot; a little early where only our clock saw it)."""
        return self.start_ticks or int((self.started_at - 0.1) * TICKS_PER_S)

    def refused(self, code: str) -> dict[str, Any]:
        """``cannot-start CODE`` of its record, as a ``start_failure``. Paths are quoted, on one line and without lone surrogates:
        they go into the store."""
        return failure(code, cwd=repr(self.note.get("cwd")), program=repr(self.note.get("program")))

    def status(self, phase: str, utc: float, boot_s: float) -> dict[str, Any]:
        """The report as it goes over the socket; engine.py makes an AttemptStatus of it."""
        return {
            "id": self.id,
            "phase": phase,
            "utc": utc,
            "boot_s": boot_s,
            "pid": self.pid,
            "exit_code": self.exit_code,
            "lost": self.lost,
            "rebooted": self.rebooted,
            "stopped_for": self.stopped_for,
            "out_of_memory": self.out_of_memory,
            "start_failure": self.start_failure,
            "disk_full": self.disk_full,
            "limits": self.limits,
            "left_behind": self.left_behind,
            "usage": [self.cpu_s, self.memory_bytes, self.peak_memory_bytes, self.read_bytes, self.written_bytes],
        }


def _is_path(value: object) -> bool:
    return isinstance(value, str) and value.startswith("/") and "\0" not in value


def _check(spec: dict[str, Any]) -> None:
    """KeyError or ValueError when ``spec`` is not what engine.py sends. Words a program cannot be given are found at the start."""
    uid, gid = spec["uid"], spec["gid"]
    deadlines = spec["deadlines"]
    sound = (
        isinstance(spec["argv"], list)
        and all(isinstance(word, str) for word in spec["argv"])
        and isinstance(spec["env"], dict)
        and all(isinstance(value, str) for value in spec["env"].values())
        and isinstance(spec["cwd"], str)
        and (spec["checkpoint"] is None or _is_path(spec["checkpoint"]))
        and isinstance(spec["header"], str)
        and type(spec["umask"]) is int
        and (spec["memory"] is None or type(spec["memory"]) is int)
        and (spec["cpus"] is None or finite(spec["cpus"]) is not None)
        and finite(spec["grace_s"]) is not None
        and (uid is None or (type(uid) is int and 0 <= uid < 1 << 32))
        and (gid is None or (type(gid) is int and 0 <= gid < 1 << 32))
        and isinstance(deadlines, list)
        and all(
            isinstance(entry, list) and len(entry) == 2 and finite(entry[0]) is not None and isinstance(entry[1], str)
            for entry in deadlines
        )
    )
    if not sound:
        raise ValueError("no spec")
