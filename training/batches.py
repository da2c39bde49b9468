"""The order of training rows, fixed up front so that a resume continues it exactly."""

import random
from collections.abc import Sequence
from itertools import islice

_GROUPED = 8
"""Window of batches whose rows are sorted by length: large enough to save most padding, small enough to keep the order
random."""


def batch_order(lengths: Sequence[int], *, batch_size: int, steps: int, seed: int) -> list[int]:
    """Row indices, `batch_size` per step: shuffled epochs, with rows of similar length batched together.

    Every row occurs once before any row repeats.
    """
    draw = random.Random(seed)
    wanted = batch_size * steps
    order: list[int] = []
    while len(order) < wanted:
        order += draw.sample(range(len(lengths)), len(lengths))
    grouped: list[int] = []
    rest = iter(order[:wanted])
    while window := sorted(islice(rest, batch_size * _GROUPED), key=lambda row: lengths[row]):
        batches = [window[at : at + batch_size] for at in range(0, len(window), batch_size)]
        draw.shuffle(batches)
        grouped += [row for batch in batches for row in batch]
    return grouped
