"""Seeded random draws, from which worlds and tasks are generated."""

from collections.abc import Sequence
from itertools import accumulate
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Draws:
    """Seeded random draws that are the same on every Python version.

    Python only guarantees this for `Random.random` with a string seed, so all methods are based on it.
    """

    def __init__(self, *key: object) -> None:
        self._random = Random("/".join(map(str, key)))

    def chance(self) -> float:
        """Uniform in [0, 1)."""
        return self._random.random()

    def integer(self, low: int, high: int) -> int:
        """Uniform in [low, high], both inclusive."""
        return low + int(self._random.random() * (high - low + 1))

    def choice(self, items: Sequence[T]) -> T:
        """One of `items`."""
        return items[int(self._random.random() * len(items))]

    def weighted(self, items: Sequence[T], weights: Sequence[float]) -> T:
        """One of `items`, with probability proportional to its weight."""
        sums = list(accumulate(weights))
        point = self._random.random() * sums[-1]
        return next((item for item, end in zip(items, sums, strict=True) if point < end), items[-1])

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """All of `items` in random order."""
        mixed = list(items)
        for last in range(len(mixed) - 1, 0, -1):
            other = int(self._random.random() * (last + 1))
            mixed[last], mixed[other] = mixed[other], mixed[last]
        return mixed

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """`count` of `items` without replacement. Raises `ValueError` if there are fewer."""
        if count > len(items):
            raise ValueError(f"cannot draw {count} of {len(items)}")
        return self.shuffled(items)[:count]
