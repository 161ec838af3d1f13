"""How many files the daemon may have open: as many as the system allows it, which is not what the programs of jobs are given."""

from __future__ import annotations

import resource

_ENOUGH = 65_536  # for any daemon
_given: tuple[int, int] | None = None  # (soft, hard), before it was widened


def widen_descriptors() -> None:
    """Raises this process's soft limit of open files; a login session's is 1024 as a rule, for programs that use select(). Only where
    ``narrow_descriptors`` can give children theirs back."""
    global _given
    if not hasattr(resource, "prlimit"):
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        _given = (soft, hard)


def narrow_descriptors(pid: int) -> None:
    """Gives the child ``pid`` the limit with which this process was started. ProcessLookupError when it has gone."""
    if _given is not None:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, _given)
