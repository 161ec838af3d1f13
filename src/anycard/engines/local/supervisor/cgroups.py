"""Control groups, version 1 and 2, wherever this process may make them; no systemd needed.

A *place* is a folder below which attempts get a group of their own. It is searched from the group this process is in upwards, so that
a limit already put on us also holds for the attempts, and it counts only once a trial process has really entered a group there:
what the files' permissions promise is not always what the kernel allows.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container

_PERIOD_US = 100_000  # the kernel's default cfs period, which a new group has
_MOUNTINFO = "/proc/self/mountinfo"
_LEAST_QUOTA_US = (
    100_000  # one CPU: a fraction is a share of it, and throttling small jobs for most of each period serves nobody
)
_OPEN = 0o755  # of groups, as every other control group is
_SHARES_A_CPU = 1024  # version 1; from 2 to 262144
_WEIGHT_A_CPU = 100  # version 2; from 1 to 10000


class Place:
    """``controllers``: those of "memory" and "cpu" that hold here. ``version``: 1 or 2."""

    __slots__ = ("controllers", "folder", "version")

    def __init__(self, version: int, controllers: frozenset[str], folder: str) -> None:
        self.version = version
        self.controllers = controllers
        self.folder = folder


class Group:
    """The groups of one attempt: one folder with version 2, one a controller with version 1.

    ``entrances``: the files into which a process of one thread writes "0" to enter. Version 1 lets a thread in by ``tasks`` without
    the lock over all processes that ``cgroup.procs`` takes, which costs a start 10-20 ms.
    """

    __slots__ = ("controllers", "entrances", "folders", "oom_file")

    def __init__(self) -> None:
        self.folders: list[str] = []
        self.controllers: frozenset[str] = frozenset()
        self.entrances: list[str] = []
        self.oom_file: str | None = None

    def add(self, version: int, folder: str, controllers: set[str]) -> None:
        self.folders.append(folder)
        self.controllers |= controllers
        self.entrances.append(folder + ("/cgroup.procs" if version == 2 else "/tasks"))
        if "memory" in controllers:
            self.oom_file = folder + ("/memory.events" if version == 2 else "/memory.oom_control")

    def pids(self) -> set[int]:
        """Those in the groups a program made below ours too: it may do that wherever it runs as our own user."""
        found: set[int] = set()
        for folder in self.folders:
            for path in _tree(folder):
                found.update(int(pid) for pid in _read(path + "/cgroup.procs").split())
        return found

    def oom_kills(self) -> int:
        """Processes the kernel has killed here because the group's memory limit was reached."""
        if self.oom_file is not None:
            for line in _read(self.oom_file).splitlines():
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
        return 0

    def kill(self) -> None:
        """Ends all that is in it at once, however fast it forks, where the kernel can (version 2, Linux 5.14)."""
        for folder in self.folders:
            try:
                _write_if_there(folder + "/cgroup.kill", "1")
            except OSError:
                continue  # gone meanwhile

    def remove(self) -> bool:
        """True once all folders are gone; False while processes are still leaving."""
        self.folders = [folder for folder in self.folders if not _remove(folder)]
        return not self.folders


class Cgroups:
    """Makes groups for one home. The places are looked for when the first limit is asked."""

    def __init__(self, home_key: str) -> None:
        self._name = f"anycard-{home_key}"
        self._places: list[Place] | None = None
        self._swept = False

    def make(self, attempt_id: int, memory_bytes: int | None, cpus: float | None) -> Group | None:
        """A group that holds what it can of these limits, or None when no control group can hold any of them."""
        wanted = {name for name, limit in (("memory", memory_bytes), ("cpu", cpus)) if limit is not None}
        if self._places is None:
            self._places = find_places(self._name)
        group = Group()
        for place in self._places:
            held = wanted & place.controllers
            if not held:
                continue
            folder = f"{place.folder}/{attempt_id}"
            try:
                _make(folder)
                if memory_bytes is not None and "memory" in held:
                    _limit_memory(place.version, folder, memory_bytes)
                if cpus is not None and "cpu" in held:
                    _limit_cpus(place.version, folder, cpus)
            except OSError:
                _remove(folder)
                continue
            group.add(place.version, folder, held)
        return group if group.folders else None

    def existing(self, attempt_id: int, folders: list[str]) -> Group | None:
        """The group of an attempt found again, by the folders its claim names. The claim may be the user's own file, so only folders
        of this attempt on a control group mount count."""
        mounts = [line.split(" ")[4] for line in _read(_MOUNTINFO).splitlines() if " - cgroup" in line]
        ending = f"/{self._name}/{attempt_id}"
        mine = [
            folder
            for folder in folders
            if folder.endswith(ending)
            and "/../" not in folder
            and any(folder.startswith(mount + "/") for mount in mounts)
            and os.path.isdir(folder)
        ]
        if not mine:
            return None
        group = Group()
        for folder in mine:
            version = 1 if os.path.exists(folder + "/tasks") else 2
            holds = (
                {"memory"}
                if os.path.exists(folder + ("/memory.oom_control" if version == 1 else "/memory.events"))
                else set()
            )
            group.add(version, folder, holds)
        return group

    def sweep(self, open_ids: Container[int]) -> None:
        """Removes what supervisors of this home that were killed left empty, once and before any group is made. Groups of attempts
        still open stay: a shim may be just about to enter."""
        if self._swept or self._places is not None:
            return
        self._swept = True
        for folder in _old_places(self._name):
            for entry in _folders_in(folder):
                number = entry.rpartition("/")[2]
                if number == "trial" or (number.isdecimal() and int(number) not in open_ids):
                    _remove(entry)
            _is_removed(folder)

    def close(self) -> None:
        """Removes the places when nothing is left in them, those of an earlier supervisor whose attempts we ended too."""
        for folder in _old_places(self._name):
            _is_removed(folder)


def _limit_memory(version: int, folder: str, limit: int) -> None:
    if version == 2:
        _write(folder + "/memory.max", str(limit))
        _write_if_there(folder + "/memory.swap.max", "0")
    else:
        _write(folder + "/memory.limit_in_bytes", str(limit))
        _write_if_there(folder + "/memory.memsw.limit_in_bytes", str(limit))


def _limit_cpus(version: int, folder: str, cpus: float) -> None:
    """At most ``cpus``, one at least; where CPUs are short, in proportion to ``cpus``."""
    quota = max(_LEAST_QUOTA_US, round(cpus * _PERIOD_US))
    _weigh(version, folder, cpus)
    if version == 2:
        _write(folder + "/cpu.max", f"{quota} {_PERIOD_US}")
    else:
        _write(folder + "/cpu.cfs_quota_us", str(quota))


def _weigh(version: int, folder: str, cpus: float) -> None:
    """Against what lies beside it: a group that weighs one CPU gets as much as one ordinary process."""
    if version == 2:
        _write(folder + "/cpu.weight", str(min(10_000, max(1, round(cpus * _WEIGHT_A_CPU)))))
    else:
        _write(folder + "/cpu.shares", str(min(1 << 18, max(2, round(cpus * _SHARES_A_CPU)))))


def find_places(name: str, mountinfo: str = _MOUNTINFO, own: str = "/proc/self/cgroup") -> list[Place]:
    """The places in which attempts can be limited: at most one a controller."""
    own_groups = _own_groups(own)
    places: list[Place] = []
    missing = {"memory", "cpu"}
    for line in _read(mountinfo).splitlines():
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        mount_root, mount_point = fields.split(" ")[3:5]
        if kind == "cgroup":
            for controller in missing & set(options.split(",")):
                folder = _first_place(
                    _upwards(mount_point, mount_root, own_groups.get(controller, "/")), name, 1, {controller}
                )
                if folder is not None:
                    places.append(Place(1, frozenset({controller}), folder))
                    missing.discard(controller)
        elif kind == "cgroup2" and missing:
            for parent in _upwards(mount_point, mount_root, own_groups.get("", "/")):
                offered = missing & set(_read(parent + "/cgroup.controllers").split())
                folder = _first_place([parent], name, 2, offered) if offered else None
                if folder is not None:
                    places.append(Place(2, frozenset(offered), folder))
                    missing -= offered
                    break
    return places


def _own_groups(own: str) -> dict[str, str]:
    """The group this process is in, by controller; version 2 has the empty name."""
    groups = {}
    for line in _read(own).splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            groups[controller] = path
    return groups


def _old_places(name: str) -> list[str]:
    """Folders of this name wherever ``find_places`` may have made one."""
    own_groups = _own_groups("/proc/self/cgroup")
    parents: list[str] = []
    for line in _read(_MOUNTINFO).splitlines():
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        mount_root, mount_point = fields.split(" ")[3:5]
        controllers = {"cgroup": {"memory", "cpu"} & set(options.split(",")), "cgroup2": {""}}.get(kind, set())
        for controller in controllers:
            parents += _upwards(mount_point, mount_root, own_groups.get(controller, "/"))
    return [f"{parent}/{name}" for parent in dict.fromkeys(parents) if os.path.isdir(f"{parent}/{name}")]


def _folders_in(folder: str) -> list[str]:
    try:
        return [entry.path for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []  # gone meanwhile, or too deep for a path: then what is above it stays, too


def _upwards(mount_point: str, mount_root: str, own: str) -> list[str]:
    """Folders from the group we are in up to the mount point."""
    if mount_root != "/" and (own + "/").startswith(mount_root + "/"):
        own = own[len(mount_root) :]
    parts = [part for part in own.split("/") if part and part != ".."]
    folders = ["/".join([mount_point, *parts[:depth]]) for depth in range(len(parts), -1, -1)]
    return [folder for folder in folders if os.path.isdir(folder)]


def _first_place(parents: list[str], name: str, version: int, controllers: set[str]) -> str | None:
    for parent in parents:
        folder = f"{parent}/{name}"
        trial = f"{folder}/trial"
        try:
            if version == 2:
                _spread(parent, controllers)
            os.makedirs(folder, exist_ok=True)
            os.chmod(folder, _OPEN)
            if version == 2:
                _spread(folder, controllers)
            os.makedirs(trial, exist_ok=True)
            if "memory" in controllers:
                _limit_memory(version, trial, 1 << 30)
            if "cpu" in controllers:
                # All attempts together weigh as the CPUs they may be granted; unweighed they would be worth one process.
                _weigh(version, folder, os.cpu_count() or 1)
                _limit_cpus(version, trial, 1.0)
            entered = _can_enter(trial)
        except OSError:
            entered = False
        if _remove(trial) and entered:
            return folder
        _remove(folder)
    return None


def _spread(folder: str, controllers: set[str]) -> None:
    """Hands the controllers on to the groups below ``folder``."""
    have = set(_read(folder + "/cgroup.subtree_control").split())
    for controller in controllers - have:
        _write(folder + "/cgroup.subtree_control", "+" + controller)


def _can_enter(folder: str) -> bool:
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", 'echo $$ >"$1"', "sh", folder + "/cgroup.procs"], {})
    return os.waitpid(pid, 0)[1] == 0


def _make(folder: str) -> None:
    """Readable for all, whatever our umask: programs ask their own group what they may use (JVM, Go, many a thread pool). The place
    above it is removed when a supervisor leaves, so it may have to be made again."""
    try:
        os.mkdir(folder)
    except FileExistsError:
        return
    except FileNotFoundError:
        os.makedirs(folder, exist_ok=True)
        os.chmod(os.path.dirname(folder), _OPEN)
    os.chmod(folder, _OPEN)


def _remove(folder: str) -> bool:
    """Removes a group and the groups a program made below it, however deep. False while anything is in them."""
    if _is_removed(folder):
        return True
    return not [path for path in reversed(_tree(folder)) if not _is_removed(path)]


def _tree(folder: str) -> list[str]:
    """The folder and all below it, parents before what is below them."""
    folders = [folder]
    for path in folders:  # grows as it goes
        folders += _folders_in(path)
    return folders


def _is_removed(folder: str) -> bool:
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _read(path: str) -> str:
    """The file's text; empty when it is not there or not readable, which means the same here: it holds nothing for us."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        parts = []
        while part := os.read(descriptor, 1 << 16):
            parts.append(part)
        return b"".join(parts).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def _write(path: str, value: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)


def _write_if_there(path: str, value: str) -> None:
    if os.path.exists(path):
        _write(path, value)
