"""Processes of this machine: one snapshot of all, the mark of an attempt in an environment, signals that never hit a reused pid."""

from __future__ import annotations

import os
import signal
import sys

HAS_PROC = os.path.exists("/proc/self/stat")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
MARK = "ANYCARD_ATTEMPT_ID"


class Process:
    """One line of the snapshot. ``start`` in clock ticks since boot, ``cpu_ticks`` with its waited-for children."""

    __slots__ = ("cpu_ticks", "group", "parent", "pid", "rss_bytes", "session", "start")

    def __init__(
        self, pid: int, parent: int, group: int, session: int, start: int, cpu_ticks: int, rss_bytes: int
    ) -> None:
        self.pid = pid
        self.parent = parent
        self.group = group
        self.session = session
        self.start = start
        self.cpu_ticks = cpu_ticks
        self.rss_bytes = rss_bytes


def read_process(pid: int) -> Process | None:
    """The process, or None when it is gone or only waits to be reaped. OSError when that cannot be seen (no descriptor left)."""
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except (FileNotFoundError, ProcessLookupError):
        return None
    try:
        data = os.read(descriptor, 4096)
    except ProcessLookupError:
        return None
    finally:
        os.close(descriptor)
    fields = data[data.rfind(b")") + 2 :].split()
    if len(fields) < 22 or fields[0] in (b"Z", b"X"):
        return None
    return Process(
        pid,
        int(fields[1]),
        int(fields[2]),
        int(fields[3]),
        int(fields[19]),
        int(fields[11]) + int(fields[12]) + int(fields[13]) + int(fields[14]),
        int(fields[21]) * PAGE_BYTES,
    )


class Snapshot:
    """All processes at one moment, and who is whose child."""

    def __init__(self) -> None:
        self.by_pid = _scan_proc() if HAS_PROC else _scan_ps()
        self.children: dict[int, list[Process]] = {}
        self.led_by: dict[int, list[Process]] = {}  # by the leader of their session or process group
        for process in self.by_pid.values():
            self.children.setdefault(process.parent, []).append(process)
            for leader in {process.session, process.group}:
                self.led_by.setdefault(leader, []).append(process)

    def below(self, roots: list[Process]) -> dict[int, Process]:
        """``roots`` and all their descendants, by pid; never this process or what is below it only."""
        found: dict[int, Process] = {}
        todo = list(roots)
        while todo:
            process = todo.pop()
            if process.pid not in found and process.pid != os.getpid():
                found[process.pid] = process
                todo.extend(self.children.get(process.pid, ()))
        return found


def _scan_proc() -> dict[int, Process]:
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            process = read_process(int(name))
            if process is not None:
                found[process.pid] = process
    return found


def _scan_ps() -> dict[int, Process]:
    import subprocess  # only without /proc (macOS): too big to load otherwise

    listing = subprocess.run(
        ["ps", "-axo", "pid=,ppid=,pgid=,stat=,rss="], capture_output=True, text=True, check=False, timeout=10
    ).stdout
    found = {}
    for line in listing.splitlines():
        fields = line.split()
        if len(fields) == 5 and not fields[3].startswith("Z"):
            pid, parent, group = int(fields[0]), int(fields[1]), int(fields[2])
            found[pid] = Process(pid, parent, group, group, 0, 0, int(fields[4]) * 1024)
    return found


def own_children() -> set[int] | None:
    """Pids of this process's children, the reparented ones included; None when the kernel does not list them."""
    try:
        descriptor = os.open(f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY)
    except OSError:
        return None
    try:
        parts = []
        while part := os.read(descriptor, 1 << 16):
            parts.append(part)
        return {int(pid) for pid in b"".join(parts).split()}
    except OSError:
        return None
    finally:
        os.close(descriptor)


def mark_of(pid: int) -> str | None:
    """The value of ANYCARD_ATTEMPT_ID in the process's environment; None when absent or not ours to read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            data = b"\0" + file.read()
    except OSError:
        return None
    at = data.find(f"\0{MARK}=".encode())
    if at < 0:
        return None
    start = at + len(MARK) + 2
    end = data.find(b"\0", start)
    return data[start : end if end >= 0 else len(data)].decode("ascii", "replace")


def owner_of(pid: int) -> int | None:
    """Uid the process runs as (root's for a set-uid program), or None when it is gone."""
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None


def open_pidfd(pid: int, start_ticks: int) -> int | None:
    """A pidfd of the process with this pid and start time, or None when that process is gone. The descriptor is opened first and
    the start time read after, so a reused pid is never taken for it."""
    try:
        descriptor = os.pidfd_open(pid)
    except (ProcessLookupError, PermissionError):
        return None
    process = read_process(pid)
    if process is None or process.start != start_ticks:
        os.close(descriptor)
        return None
    return descriptor


def is_alive(pid: int, start_ticks: int) -> bool:
    """Whether that very process lives. Without /proc: whether a session leader with that pid does."""
    if HAS_PROC:
        process = read_process(pid)
        return process is not None and process.start == start_ticks
    try:
        return os.getsid(pid) == pid
    except OSError:
        return False


def send(process: Process, number: int) -> None:
    """Signals exactly this process; silently nothing when it is gone or someone else's."""
    try:
        if sys.platform == "linux":
            descriptor = open_pidfd(process.pid, process.start)
            if descriptor is None:
                return
            try:
                signal.pidfd_send_signal(descriptor, number)
            finally:
                os.close(descriptor)
        else:
            os.kill(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return


def become_subreaper() -> bool:
    """Orphaned descendants become this process's children instead of init's. False where the system has no such thing."""
    if sys.platform != "linux":
        return False
    import ctypes

    pr_set_child_subreaper = 36  # linux/prctl.h
    return bool(ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0) == 0)


def proportional_bytes(pid: int) -> int | None:
    """Pss: memory with shared pages counted by share (bytes), or None when not readable."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        return None
    return None


def io_bytes(pid: int) -> tuple[int, int] | None:
    """(read, written) to storage by the process and its waited-for children, or None when not readable."""
    try:
        with open(f"/proc/{pid}/io", "rb") as file:
            values = dict(line.split(b": ", 1) for line in file)
        return int(values[b"read_bytes"]), int(values[b"write_bytes"])
    except (OSError, KeyError, ValueError):
        return None
