"""Clips long text in the middle, keeping its head and tail."""

import os
from typing import IO, NamedTuple

_CONTINUATION = bytes(range(0x80, 0xC0))
_CHUNK = 1 << 20


class Clipped(NamedTuple):
    """A text, and whether its middle was cut."""

    text: str
    truncated: bool


def clip(text: str, limit: int) -> Clipped:
    """Keeps at most `limit` characters of `text`, with a marker in the middle that says how many were cut."""
    if len(text) <= limit:
        return Clipped(text, False)
    head = limit // 2
    tail = limit - head
    return _joined(text[:head], len(text) - limit, text[-tail:])


def read_clipped(file: IO[bytes], limit: int, start: int = 0) -> Clipped:
    """Clips a UTF-8 file from byte `start` on without loading it into memory; invalid bytes become U+FFFD."""
    size = os.fstat(file.fileno()).st_size - start
    file.seek(start)
    if size <= 4 * limit:
        return clip(_decode(file.read(size)), limit)
    head = limit // 2
    tail = limit - head
    total = _count_characters(file, size)
    file.seek(start)
    first = _decode(file.read(4 * head))[:head]
    file.seek(start + size - 4 * tail)
    last = _decode(file.read(4 * tail))[-tail:]
    return _joined(first, max(total - limit, 0), last)


def _joined(head: str, cut: int, tail: str) -> Clipped:
    return Clipped(f"{head}\n[... {cut} characters cut ...]\n{tail}", True)


def _decode(data: bytes) -> str:
    return data.decode(errors="replace")


def _count_characters(file: IO[bytes], size: int) -> int:
    """Counts the bytes that are not UTF-8 continuation bytes."""
    count = 0
    while size > 0 and (chunk := file.read(min(_CHUNK, size))):
        size -= len(chunk)
        count += len(chunk.translate(None, delete=_CONTINUATION))
    return count
