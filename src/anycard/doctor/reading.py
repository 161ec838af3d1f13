"""Opens what people hand over: a folder, one log, standard input, a bundle. Streams; never unpacks to disk; trusts nothing."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import stat
import sys
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from anycard.doctor.shapes import Source
from anycard.errors import NotFoundError, UsageError

_BLOCK = 4 << 20  # bytes read at once
_MAX_UNPACKED = 1 << 30  # bytes that a compressed bundle may become
_MAX_FILES = 5000
PLATFORM_FILE = "platform.txt"
_PERSON = ("question", "description", "report")  # file names that hold a person's words


def open_evidence(path: str) -> tuple[Iterable[Source], str | None]:
    """The sources under ``path`` (``-``: standard input) and the platform that a ``platform.txt`` names, if any.

    Raises NotFoundError (nothing there) and UsageError (not readable, not a file or folder, a bundle that is not one).
    """
    if path == "-":
        return [Source("stdin", lambda: _blocks(sys.stdin.buffer))], None
    there = Path(path)
    try:
        mode = there.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise NotFoundError("there is no {path}", hint="give a folder, a log file, a bundle or -", path=path) from None
    except (OSError, ValueError) as error:
        raise UsageError("{path} cannot be read: {why}", path=path, why=str(error)) from None
    if stat.S_ISDIR(mode):
        return _folder(there)
    if not stat.S_ISREG(mode):
        raise UsageError("{path} is neither a folder nor a file", path=path)
    try:
        with there.open("rb") as file:
            head = file.read(512)
    except OSError as error:
        raise UsageError("{path} cannot be read: {why}", path=path, why=str(error)) from None
    if head[:2] == b"\x1f\x8b":
        return (_bundle(there), None) if _is_tar(there) else ([Source(there.name, lambda: _unzipped(there))], None)
    if head[257:262] == b"ustar":
        return _bundle(there), None
    return [Source(there.name, lambda: _file_blocks(there), _is_spoken(there.name))], None


def text_source(name: str, text: str, *, spoken: bool = False) -> Source:
    """A source out of a string (a command's output, a pasted log)."""
    data = text.encode("utf-8", "replace")
    return Source(name, lambda: iter((data,)), spoken)


def _folder(folder: Path) -> tuple[list[Source], str | None]:
    sources: list[Source] = []
    platform = None
    for place, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            file = Path(place, name)
            if file.is_symlink() or not file.is_file():
                continue  # a link may lead out of the evidence, a pipe may never end
            if name == PLATFORM_FILE:
                platform = file.read_text("utf-8", "replace")[:100].strip().lower() or None
                continue
            sources.append(_file_source(str(file.relative_to(folder)), file))
            if len(sources) > _MAX_FILES:
                raise UsageError("{path} holds more than {limit} files", path=str(folder), limit=_MAX_FILES)
    return sorted(sources, key=lambda source: source.spoken), platform


def _file_source(name: str, file: Path) -> Source:
    return Source(name, lambda: _file_blocks(file), _is_spoken(name))


def _is_spoken(name: str) -> bool:
    return Path(name).name.lower().startswith(_PERSON)


def _is_tar(path: Path) -> bool:
    try:
        with gzip.open(path) as stream:
            return stream.read(512)[257:262] == b"ustar"
    except (OSError, EOFError):
        return False


def _bundle(path: Path) -> Iterator[Source]:
    """The regular files of a tar, one after the other: each must be read before the next is asked for."""
    try:
        with path.open("rb") as raw:
            packed = raw.peek(2)[:2] == b"\x1f\x8b" if isinstance(raw, io.BufferedReader) else False
            plain = cast(BinaryIO, gzip.GzipFile(fileobj=raw) if packed else raw)
            with tarfile.open(fileobj=_Bounded(plain), mode="r|") as tar:
                for count, member in enumerate(tar):
                    if count > _MAX_FILES:
                        raise UsageError("{path} holds more than {limit} files", path=str(path), limit=_MAX_FILES)
                    inside = member.isreg() and not member.name.startswith("/") and ".." not in Path(member.name).parts
                    content = tar.extractfile(member) if inside else None
                    if content is not None:
                        stream = cast(BinaryIO, content)
                        yield Source(member.name, lambda stream=stream: _blocks(stream), _is_spoken(member.name))  # type: ignore[misc]
    except (tarfile.TarError, EOFError, OSError) as error:
        raise UsageError("{path} is not a whole bundle: {why}", path=str(path), why=str(error)) from None


class _Bounded(io.RawIOBase):
    """A stream that refuses to become endless (a bomb)."""

    def __init__(self, inner: BinaryIO) -> None:
        self._inner = inner
        self._left = _MAX_UNPACKED

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._inner.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise UsageError("the bundle unpacks to more than {limit} bytes", limit=_MAX_UNPACKED)
        return data


def _unzipped(path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(path) as stream:
            yield from _blocks(cast(BinaryIO, _Bounded(cast(BinaryIO, stream))))
    except (OSError, EOFError) as error:
        raise UsageError("{path} cannot be unpacked: {why}", path=str(path), why=str(error)) from None


def _file_blocks(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as stream:
            yield from _blocks(stream)
    except OSError as error:
        raise UsageError("{path} cannot be read: {why}", path=str(path), why=str(error)) from None


def _blocks(stream: BinaryIO) -> Iterator[bytes]:
    """UTF-8 blocks that end at a line's end, whatever the encoding of the stream."""
    rest = b""
    recode = None
    first = True
    while block := stream.read(_BLOCK):
        if first:
            recode, first = _decoder(block), False
        if recode is not None:
            block = recode.decode(block).encode("utf-8", "replace")
        block = rest + block
        cut = block.rfind(b"\n") + 1
        if cut == 0 and len(block) < 2 * _BLOCK:
            rest = block
            continue
        cut = cut or len(block)  # no line's end in 8 MiB: not a text, cut anywhere
        rest = block[cut:]
        yield block[:cut]
    if rest:
        yield rest


def _decoder(block: bytes) -> codecs.IncrementalDecoder | None:
    """None where the bytes are UTF-8 (or near enough), else a decoder: UTF-16 as PowerShell writes it, GB18030 as Chinese Windows does."""
    if block[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return codecs.getincrementaldecoder("utf-16")("replace")
    sample = block[:4096]
    if sample[1::2].count(0) > len(sample) // 4:
        return codecs.getincrementaldecoder("utf-16-le")("replace")
    for encoding in ("utf-8", "gb18030"):
        try:
            codecs.getincrementaldecoder(encoding)("strict").decode(block[:65536])
        except UnicodeDecodeError:
            continue
        return None if encoding == "utf-8" else codecs.getincrementaldecoder(encoding)("replace")
    return None
