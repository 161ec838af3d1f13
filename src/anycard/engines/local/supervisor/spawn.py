"""Starts the shim of one attempt: no interpreter, no pipe, the log is the program's own descriptor.

Attempts of our own user go by posix_spawn (vfork: a third of a fork's cost), and their shim enters its control group itself. Those of
another user go by fork, because group and user must be entered before anything is executed: a shell that ran as root with the user's
LD_PRELOAD would be the user's root shell.
"""

from __future__ import annotations

import errno
import json
import os
import signal

from anycard.engines.local.supervisor import processes
from anycard.engines.local.supervisor.folders import Folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

CLAIM_FAILED = 120  # shim.sh: `started` was there already, or could not be written
REFUSED = 121  # shim.sh: it wrote why the program could not be started
_SIGNALS = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
# exec gives a signal with a handler its default back, not an ignored one: Python ignores some, the loop two, others came with us.
_IGNORED = [
    number
    for number in _SIGNALS
    if number in (signal.SIGHUP, signal.SIGINT) or signal.getsignal(number) == signal.SIG_IGN
]
_LOG_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
_SHELLS_OWN = frozenset({"IFS", "OPTIND", "PPID", "LINENO"})
_OOM_SCORE = "/proc/self/oom_score_adj"
_STEPS = ("group", "user", "output", "log", "shell")  # of _become_shim, as codes of a start failure


def _unshield() -> list[str]:
    """Files into which a shim writes "0" like those of its control groups. A service that the kernel shall spare when memory runs out
    (OOMScoreAdjust below 0 in its unit, for the queue's sake) hands that on; what it runs is to be taken as any other program."""
    try:
        with open(_OOM_SCORE, encoding="ascii") as file:
            return [_OOM_SCORE] if int(file.read()) < 0 else []
    except (OSError, ValueError):
        return []  # not Linux


class SpawnError(Exception):
    """Why the attempt could not be started: a code with params, which startwords.py puts into words. ``disk_full``: no space or quota
    left."""

    def __init__(self, *, code: str, disk_full: bool = False, **params: str | int) -> None:
        super().__init__(code)
        self.code = code
        self.params = params
        self.disk_full = disk_full


def _script(name: str) -> str:
    """A shell script beside this package, without its comment lines."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with open(f"{folder}/{name}", encoding="utf-8") as file:
        return "".join(line for line in file if line.strip() and not line.lstrip().startswith("#"))


_SHIM = _script("shim.sh")
_UNSHIELD = _unshield()


def spawn(
    spec: dict[str, Any], note: dict[str, Any], mark: str, boot_id: str, entrances: list[str], folders: Folders
) -> int:
    """Makes the folders and starts the shim; its pid. SpawnError says what went wrong."""
    uid = spec["uid"]
    stem = spec["stem"]
    entrances = [*entrances, *_UNSHIELD]
    try:
        user = None if uid is None else _user(uid, spec["gid"])
        if user is None or uid is None:
            for folder in own_folders(spec):
                folders.make(folder)
        else:
            _make_users_folder(os.path.dirname(stem), uid, user[0])
        argv = _argv(spec)
        env = {
            **spec["env"],
            processes.MARK: mark,
            "_anycard_shim": _SHIM,
            "_anycard_boot": boot_id,
            "_anycard_note": json.dumps(note),
            "_anycard_header": spec["header"],
            "_anycard_enter": "",
        }
        if user is None and not any(" " in entrance for entrance in entrances):
            env["_anycard_enter"] = " ".join(entrances)
        elif user is not None or entrances:
            return _fork(argv, env, stem, entrances, uid, user)
        actions: list[tuple[Any, ...]] = [
            (os.POSIX_SPAWN_OPEN, 1, stem + ".log", _LOG_FLAGS, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        return os.posix_spawn(
            "/bin/sh", argv, env, file_actions=actions, setsid=True, setsigmask=(), setsigdef=_IGNORED
        )
    except OSError as error:
        raise _of_system("system", error.errno, error.filename) from error
    except ValueError as error:
        raise SpawnError(code="odd-words", reason=str(error)) from error


def _of_system(code: str, number: int | None, where: str | None = None) -> SpawnError:
    if number == errno.E2BIG:
        return SpawnError(code="too-large")
    reason = os.strerror(number or 0)
    full = number in (errno.ENOSPC, errno.EDQUOT)
    return SpawnError(code=code, disk_full=full, reason=f"{where}: {reason}" if where else reason)


def _argv(spec: dict[str, Any]) -> list[str]:
    program = [str(part) for part in spec["argv"]]
    if not program:
        raise SpawnError(code="no-command")
    # Shells drop variables whose names they could not spell, and give a few a value of their own; env(1) hands those on.
    odd = [f"{name}={value}" for name, value in spec["env"].items() if name in _SHELLS_OWN or not _spellable(name)]
    if odd and "=" not in program[0]:
        program = ["/usr/bin/env", *odd, *program]
    return [
        "/bin/sh",
        "-c",
        'eval "$_anycard_shim"',
        "anycard",
        spec["stem"],
        spec["cwd"],
        f"{spec['umask']:o}",
        *program,
    ]


def _spellable(name: str) -> bool:
    return name.isascii() and name.isidentifier()


def _user(uid: int, gid: int | None) -> tuple[int, list[int]]:
    """(group, all groups) of the user."""
    import pwd

    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        if gid is None:
            raise SpawnError(code="no-user", uid=uid) from None
        return gid, [gid]
    group = entry.pw_gid if gid is None else gid
    return group, os.getgrouplist(entry.pw_name, group)


def own_folders(spec: dict[str, Any]) -> list[str]:
    """What the program finds ready: its output folder and, where it is ours to make, the checkpoints'."""
    return [spec["stem"] + ".output", *([spec["checkpoint"]] if spec["checkpoint"] else [])]


def _make_users_folder(folder: str, uid: int, gid: int) -> None:
    """The folder of the attempt's files, the user's own. It lies in one that is root's, so it is what it is taken for; what comes into it
    the child makes once it is the user: as root, nothing is made or given away where that user could put a link."""
    os.makedirs(folder, 0o700, exist_ok=True)
    os.chown(folder, uid, gid, follow_symlinks=False)


def _fork(
    argv: list[str],
    env: dict[str, str],
    stem: str,
    entrances: list[str],
    uid: int | None,
    user: tuple[int, list[int]] | None,
) -> int:
    """A child that enters groups and user before it executes anything. What fails in it comes back over a pipe that exec closes."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become_shim(writing, argv, env, stem, entrances, uid, user)
    os.close(writing)
    try:
        failure = os.read(reading, 16)
    finally:
        os.close(reading)
    if failure:
        os.waitpid(pid, 0)
        step, number = failure.split()
        raise _of_system(_STEPS[int(step)], int(number))
    return pid


def _become_shim(
    writing: int,
    argv: list[str],
    env: dict[str, str],
    stem: str,
    entrances: list[str],
    uid: int | None,
    user: tuple[int, list[int]] | None,
) -> NoReturn:
    step = 0
    failure = errno.EINVAL
    try:
        signal.set_wakeup_fd(-1)
        os.setsid()
        for path in entrances:
            with open(path, "w", encoding="ascii") as entrance:
                entrance.write("0")  # 0: the process that writes
        step = 1
        if user is not None and uid is not None:
            group, groups = user
            os.setgroups(groups)
            os.setresgid(group, group, group)
            os.setresuid(uid, uid, uid)
        step = 2
        Folders().make(stem + ".output")
        step = 3
        descriptor = os.open(stem + ".log", _LOG_FLAGS, 0o600)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        step = 4
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execve("/bin/sh", argv, env)
    except OSError as error:
        failure = error.errno or errno.EINVAL
    finally:
        os.write(writing, b"%d %d" % (step, failure))
        os._exit(126)
