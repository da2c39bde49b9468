"""The two kinds of formats: rows of JSON Lines, and folders."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermes_lab.runners.export.source import Source


@dataclass(frozen=True)
class Lines:
    """JSON Lines. `rows` yields anything that JSON can carry, and holds as few episodes as it can."""

    about: str
    rows: Callable[[Source], Iterator[Any]]


@dataclass(frozen=True)
class Folder:
    """A folder. `write` fills an empty one and gives the number of rows in it."""

    about: str
    write: Callable[[Source, Path], int]
