"""How the rows of an optimiser step are laid out: which run at once, padded or packed, and what is shared."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hermes_lab.training.lock import LockedConfig

MICRO_TOKENS = 2048
"""Maximum tokens that run at once if the lock has no `hardware`, without the shared prefix."""

HEAD_TOKENS = 512
"""Tokens whose logits are computed at once: a vocabulary of 152,000 takes 2 MB a token."""


class Layout(NamedTuple):
    """The layout of a step. The default is that of a lock without `hardware`."""

    max_tokens: int = MICRO_TOKENS
    """Maximum tokens that run at once. A single longer row runs alone."""
    packed: bool = False
    """Rows stand one after another in one sequence, after their common prefix, instead of padded below each other."""
    shared: bool = True
    """The rows' common prefix runs once."""


class MicroBatch(NamedTuple):
    """Rows that run at once: their indices, and the end of the longest."""

    rows: list[int]
    end: int


def layout_of(locked: LockedConfig) -> Layout:
    """The layout that a lock decides.

    Gradient checkpointing cannot keep the prefix's keys and values, which padded rows would share.
    """
    if (hardware := locked.hardware) is None:
        return Layout()
    return Layout(
        hardware.micro_tokens, hardware.packing, shared=hardware.packing or not hardware.gradient_checkpointing
    )


def micro_batches(ends: Sequence[int], split: int, layout: Layout) -> Iterator[MicroBatch]:
    """Micro-batches of rows that end at `ends`, shortest first, given that all share the tokens before `split`.

    Padded rows cost as many tokens as the longest, without the shared prefix, which is kept for the whole step. A
    packed sequence contains the prefix.
    """
    rows: list[int] = []
    taken = split if layout.packed else 0
    for row in sorted(range(len(ends)), key=ends.__getitem__):
        length = ends[row] - split
        needed = taken + length if layout.packed else (len(rows) + 1) * length
        if rows and needed > layout.max_tokens:
            yield MicroBatch(rows, ends[rows[-1]])
            rows, needed = [], length + split * layout.packed
        rows.append(row)
        taken = needed
    yield MicroBatch(rows, ends[rows[-1]])


def micro_batch(sequences: int, most: int) -> int:
    """The micro-batch size: the largest divisor of `sequences` up to `most`. An optimiser step uses all sequences."""
    return next(size for size in range(min(most, sequences), 0, -1) if sequences % size == 0)
