"""The episodes of a run as a format reads them."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from hermes_lab.records import read_episodes
from hermes_lab.types import Episode, Trajectory


class Finished(NamedTuple):
    """An episode that was not errored, and what happened in it."""

    episode: Episode
    trajectory: Trajectory


class Source:
    """A run's episodes, one after the other. `left_out` counts, by reason, those that are not in the export.

    `seen` is called for every episode that is read.
    """

    def __init__(self, run: Path, seen: Callable[[], None] = lambda: None) -> None:
        self.run = run
        self.left_out: Counter[str] = Counter()
        self._seen = seen

    def finished(self) -> Iterator[Finished]:
        """Every finished episode. An errored one has no trajectory and no score: it is left out."""
        for episode in read_episodes(self.run):
            self._seen()
            if episode.trajectory is None:
                self.left_out["errored"] += 1
            else:
                yield Finished(episode, episode.trajectory)
