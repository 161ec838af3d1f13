"""Bytes by range: what the header readers see of a file, whoever holds it (a local file, an HTTP range, a test)."""

from __future__ import annotations

from typing import Any, Protocol

from anycard.errors import UsageError


class HeaderError(UsageError):
    """A model file's header is damaged, truncated or hostile. Nothing was allocated by what it claims."""

    code = "bad-model-header"


class ByteSource(Protocol):
    """``name`` for messages, ``size`` in bytes. ``read`` returns exactly ``length`` bytes or raises HeaderError."""

    name: str
    size: int

    def read(self, offset: int, length: int) -> bytes: ...


class MemorySource:
    """Bytes in memory as a source."""

    def __init__(self, content: bytes, name: str = "<memory>") -> None:
        self.name = name
        self.size = len(content)
        self._content = content

    def read(self, offset: int, length: int) -> bytes:
        if offset < 0 or length < 0 or offset + length > self.size:
            raise truncated(self.name, offset, length, self.size)
        return self._content[offset : offset + length]


def truncated(name: str, offset: int, length: int, size: int) -> HeaderError:
    """The header points past the end of its file."""
    return HeaderError(
        "{name}: the header asks for bytes {first} to {last}, the file has {size}",
        hint="the file is cut short or damaged: fetch it again",
        name=name,
        first=offset,
        last=offset + length,
        size=size,
    )


def damaged(name: str, what: str, **params: Any) -> HeaderError:
    """``what`` is an English template (gettext key) that says what is wrong in the header of ``name``."""
    return HeaderError(
        "{name}: " + what, hint="this is not a file that a model server would load; fetch it again", name=name, **params
    )
