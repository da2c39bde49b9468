"""The two kinds of export formats: JSON Lines and folders."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermes_lab.runners.export.source import Source


@dataclass(frozen=True)
class Lines:
    """JSON Lines. `rows` yields objects that can be encoded as JSON, holding few episodes in memory."""

    about: str
    rows: Callable[[Source], Iterator[Any]]


@dataclass(frozen=True)
class Folder:
    """A folder. `write` fills an empty folder and returns the number of rows."""

    about: str
    write: Callable[[Source, Path], int]
