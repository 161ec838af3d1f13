"""The plain pieces of text, one of which every match of a regular expression must contain."""

from __future__ import annotations

SHORTEST = 3  # shorter pieces stand in nearly every line
# Pieces that any log is full of: taken only where an expression has nothing rarer.
_COMMON = frozenset(
    {
        "could not",
        "unable to",
        "failed to",
        "cannot",
        "can not",
        "not found",
        "no such file or directory",
        "cannot open shared object file",
        ": cannot open shared object file",
        ": cannot open shared object",
        "cannot open",
        "not supported",
        "is not supported",
        "is not",
        "not in",
        "error:",
        "undefined symbol",
        "undefined symbol:",
        ": undefined symbol",
        "invalid",
        "no devices",
        "did not",
        "does not",
        "please",
        "available",
        "not available",
        "unsupported",
        "missing",
        "required",
        "requires",
        "nothing",
        "loading",
        "loaded",
        "import",
        "module",
        "library",
        "compiled",
        "default",
        "current",
        "version is",
        "code",
        "type",
        "name",
        "log",
        "data",
        "run",
        "running",
        "init",
        "initialization",
        "initialize",
        "failed to load",
        "unknown",
        "gpu",
        "cpu",
        "cuda",
        "nvidia",
        "nvidia-",
        "driver",
        "device",
        "devices",
        "kernel",
        "system",
        "version",
        "error",
        "time",
        "level",
        "model",
        "train",
        "memory",
        "process",
        "start",
        "stop",
        "load",
        "pid",
        "pod",
        "container",
        "docker",
        "systemd",
        "step",
        "node",
        "manager",
        "anager",
        "enabled",
        "request",
        "using",
        "update",
        "list",
        "work",
        "file",
        "failed",
        "fail",
        "info",
        "service",
        "program",
        "python",
        "slurm",
        "ollama",
        "llama",
        "hang",
        "version:",
    }
)

Pieces = frozenset[str]


def literals(expression: str) -> Pieces:
    """Lower-case pieces of at least three bytes; every match of ``expression`` holds one of them. ValueError where there are none.

    Knows the part of the syntax that rules use: groups, alternatives, classes, escapes, repeats, look-arounds.
    """
    pieces, end = _alternatives(expression, 0)
    if end != len(expression):
        raise ValueError(f"unbalanced parenthesis in {expression!r}")
    if not pieces or min(len(piece.encode()) for piece in pieces) < SHORTEST:
        raise ValueError(f"no literal of {SHORTEST} bytes in {expression!r}")
    return pieces


def _alternatives(text: str, at: int) -> tuple[Pieces | None, int]:
    """The pieces of ``a|b|c`` up to its closing parenthesis or the end: all of them, or None if one has none."""
    found: set[str] = set()
    sure = True
    while True:
        pieces, at = _sequence(text, at)
        if pieces is None:
            sure = False
        else:
            found |= pieces
        if at < len(text) and text[at] == "|":
            at += 1
            continue
        return (frozenset(found) if sure else None), at


def _sequence(text: str, at: int) -> tuple[Pieces | None, int]:
    best: Pieces | None = None
    run = ""
    while at < len(text) and text[at] not in "|)":
        pieces, plain, at = _atom(text, at)
        optional, repeated, at = _repeat(text, at)
        if plain is not None and not optional:
            run += plain
            if not repeated:
                continue
        best, run = _better(best, frozenset((run,)) if run else None), ""
        if pieces is not None and not optional:
            best = _better(best, pieces)
    return _better(best, frozenset((run,)) if run else None), at


def _atom(text: str, at: int) -> tuple[Pieces | None, str | None, int]:
    """One atom: (pieces of a group, its plain character, where it ends)."""
    character = text[at]
    if character == "\\":
        escaped = text[at + 1]
        return None, (escaped if not escaped.isalnum() else None), at + 2
    if character == "[":
        return None, None, _end_of_class(text, at + 1)
    if character == "(":
        inside, counts = at + 1, True
        if text[inside : inside + 1] == "?":
            counts = text[inside + 1] not in "!=<"
            inside = inside + 2 + (text[inside + 1] == "<")
        pieces, end = _alternatives(text, inside)
        return (pieces if counts else None), None, end + 1
    if character in ".^$":
        return None, None, at + 1
    return None, character.lower(), at + 1


def _repeat(text: str, at: int) -> tuple[bool, bool, int]:
    """(may be absent, may come more than once, where the quantifier ends)."""
    if at >= len(text) or text[at] not in "*+?{":
        return False, False, at
    optional = text[at] in "*?" or text.startswith(("{0,", "{,"), at)
    at = text.index("}", at) + 1 if text[at] == "{" else at + 1
    if at < len(text) and text[at] in "?+":
        at += 1  # lazy or possessive
    return optional, True, at


def _better(one: Pieces | None, other: Pieces | None) -> Pieces | None:
    """The set whose shortest piece is longer; of equals the smaller set."""
    if one is None or other is None:
        return one or other
    return max(one, other, key=lambda pieces: (min(map(_worth, pieces)), -len(pieces)))


def _worth(piece: str) -> float:
    return SHORTEST - 0.5 if piece.strip() in _COMMON else len(piece.encode())


def _end_of_class(text: str, at: int) -> int:
    if text[at] == "^":
        at += 1
    at += 1 + (text[at] == "\\")  # a "]" in the first place is a member
    while text[at] != "]":
        at += 2 if text[at] == "\\" else 1
    return at + 1
