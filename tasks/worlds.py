"""Worlds of hidden rules: the parts that every family of tasks shares.

A world is a place with house rules that no prompt, file or help text tells. A task triggers one rule or none,
each place of the world being equally likely; only the owner's feedback gives a rule away, and it stays true
in all of the world.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from hermes_lab.errors import ConfigError

T = TypeVar("T")


class Draws:
    """Seeded draws that stay the same on every Python version.

    Python promises this for `Random.random` with a string seed only, so everything here is made of it.
    """

    def __init__(self, *key: object) -> None:
        self._random = Random("/".join(map(str, key)))

    def chance(self) -> float:
        """Uniform in [0, 1)."""
        return self._random.random()

    def integer(self, low: int, high: int) -> int:
        """Uniform in low..high, both included."""
        return low + int(self.chance() * (high - low + 1))

    def choice(self, items: Sequence[T]) -> T:
        """One of `items`."""
        return items[self.integer(0, len(items) - 1)]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """All of `items` in random order."""
        mixed = list(items)
        for last in range(len(mixed) - 1, 0, -1):
            other = self.integer(0, last)
            mixed[last], mixed[other] = mixed[other], mixed[last]
        return mixed

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """`count` different ones of `items`. Raises `ValueError` where there are fewer."""
        if count > len(items):
            raise ValueError(f"cannot draw {count} of {len(items)}")
        return self.shuffled(items)[:count]


@dataclass(frozen=True)
class WorldSpec:
    """How many places a world has. Raises `ConfigError` for a world that cannot be."""

    ruled: int = 5
    """Places with a hidden rule each (the M of the learning curve)."""
    plain: int = 2
    """Places where the obvious way is right."""
    unseen: int = 2
    """How many of the rules of a held-out world, at most, are of types that training never shows."""

    def __post_init__(self) -> None:
        for name in ("ruled", "plain", "unseen"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 0:
                raise ConfigError(f"suite.options.{name}: give a whole number of places, not {value!r}")
        if not self.places:
            raise ConfigError("suite.options: a world has at least one place; raise ruled or plain")

    def within(self, *, rules: int, places: int) -> "WorldSpec":
        """This spec, for a suite that has so many types of rules and names of places to draw from."""
        if self.ruled > rules or self.places > places:
            raise ConfigError(f"suite.options: a world has at most {rules} ruled places, and {places} places in all")
        return self

    @property
    def places(self) -> int:
        """All of them: a task is about each with probability 1 / `places`."""
        return self.ruled + self.plain


def task_id(split: str, world: int, seed: int, number: int) -> str:
    """An id that is unique within a suite."""
    return f"{split}-w{world}-s{seed}-{number:06d}"
