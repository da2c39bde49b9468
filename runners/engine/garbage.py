"""How often Python looks for garbage while rollouts run."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_ALLOCATIONS = 20_000
"""Container objects between two collections; Python's own 700 are less than one rollout makes."""


@contextmanager
def collect_rarely() -> Iterator[None]:
    """Rollouts leave few reference cycles, and looking for them takes a tenth of the CPU time of thousands at once."""
    youngest, *older = gc.get_threshold()
    gc.set_threshold(max(youngest, _ALLOCATIONS) if youngest else 0, *older)
    try:
        yield
    finally:
        gc.set_threshold(youngest, *older)
