"""The order of training rows, fixed up front so that a resume continues it exactly."""

import random
from collections.abc import Sequence

_GROUPED = 8
"""Window of batches whose rows are sorted by length: large enough to save most padding, small enough to keep the order
random."""


def batch_order(lengths: Sequence[int], *, batch_size: int, steps: int, seed: int) -> list[int]:
    """Row indices, `batch_size` per step: shuffled epochs, with rows of similar length batched together.

    Every row occurs once before any row repeats, and a batch repeats a row only if there are fewer rows than
    `batch_size`. The rows that an epoch has left after its last full batch begin the next batch, which other rows of
    the next epoch fill up.
    """
    draw = random.Random(seed)
    wanted = batch_size * steps
    order: list[int] = []
    left: list[int] = []
    while len(order) < wanted:
        epoch = draw.sample(range(len(lengths)), len(lengths))
        if left:
            rows = left + _others_first(epoch, left, batch_size - len(left))
            filled = batch_size if len(rows) >= batch_size else 0
            order += rows[:filled]
            epoch = rows[filled:]
        full = min(len(epoch), wanted - len(order)) // batch_size * batch_size
        order += _grouped(epoch[:full], lengths, batch_size, draw)
        left = epoch[full:]
    return order


def _others_first(epoch: Sequence[int], left: Sequence[int], room: int) -> list[int]:
    """The epoch, beginning with up to `room` rows that are not `left`."""
    others = [row for row in epoch if row not in set(left)][:room]
    return others + [row for row in epoch if row not in set(others)]


def _grouped(rows: Sequence[int], lengths: Sequence[int], batch_size: int, draw: random.Random) -> list[int]:
    """Full batches of rows of similar length, in random order."""
    grouped: list[int] = []
    for start in range(0, len(rows), batch_size * _GROUPED):
        window = sorted(rows[start : start + batch_size * _GROUPED], key=lambda row: lengths[row])
        batches = [window[at : at + batch_size] for at in range(0, len(window), batch_size)]
        draw.shuffle(batches)
        grouped += [row for batch in batches for row in batch]
    return grouped
