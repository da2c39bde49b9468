"""Compressed chunks of trajectories, which the page decodes on demand."""

import base64
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, NamedTuple

CHUNK_BYTES = 1 << 20
"""JSON bytes per chunk: small enough to decode within a frame, large enough to compress well."""


class Spool:
    """Compressed JSON texts in a temporary file, for random access."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._places: dict[int, tuple[int, int]] = {}

    def add(self, number: int, content: bytes) -> None:
        """Stores a text under a number."""
        packed = zlib.compress(content, 1)
        self._places[number] = (self._file.tell(), len(packed))
        self._file.write(packed)

    def __getitem__(self, number: int) -> bytes:
        offset, length = self._places[number]
        self._file.seek(offset)
        return zlib.decompress(self._file.read(length))


class Chunk(NamedTuple):
    """`numbers` are its episodes in order; `text` is a base64 zlib stream of a JSON array."""

    numbers: tuple[int, ...]
    text: bytes


def pack(spool: Spool, order: Sequence[int], cap: int) -> Iterator[Chunk]:
    """Yields chunks of the episodes in `order` up to a total of `cap` bytes."""
    written = 0
    for numbers, content in _gathered(spool, order):
        text = compressed(content)
        written += len(text)
        if written > cap:
            return
        yield Chunk(numbers, text)


def compressed(content: bytes) -> bytes:
    """base64 of zlib: base64 cannot close a `<script>`, and zlib, unlike gzip, has no timestamp."""
    return base64.b64encode(zlib.compress(content, 6))


def _gathered(spool: Spool, order: Iterable[int]) -> Iterator[tuple[tuple[int, ...], bytes]]:
    numbers: list[int] = []
    parts: list[bytes] = []
    size = 0
    for number in order:
        numbers.append(number)
        parts.append(spool[number])
        size += len(parts[-1])
        if size >= CHUNK_BYTES:
            yield tuple(numbers), b"[" + b",".join(parts) + b"]"
            numbers, parts, size = [], [], 0
    if numbers:
        yield tuple(numbers), b"[" + b",".join(parts) + b"]"
