"""The episodes of a run as a format reads them."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from hermes_lab.records import read_episodes
from hermes_lab.types import Episode, Trajectory


class Finished(NamedTuple):
    """An episode that was not errored, and what happened in it."""

    episode: Episode
    trajectory: Trajectory


class Budget(NamedTuple):
    """Tokens that a conversation may have, as this tokenizer counts them; a longer one is compressed to fit."""

    tokens: int
    tokenizer: Any


class Source:
    """A run's episodes, one after the other. `left_out` counts, by reason, those that are not in the export.

    `seen` is called for every episode that is read. `compressed` counts those that were brought within the `budget`.
    """

    def __init__(self, run: Path, seen: Callable[[], None] = lambda: None, budget: Budget | None = None) -> None:
        self.run = run
        self.budget = budget
        self.compressed = 0
        self.left_out: Counter[str] = Counter()
        self._seen = seen

    def finished(self) -> Iterator[Finished]:
        """Every finished episode. An errored one has no trajectory and no score: it is left out."""
        for episode in read_episodes(self.run):
            self._seen()
            if episode.trajectory is None:
                self.left_out["errored"] += 1
            elif (trajectory := self._fit(episode.trajectory)) is not None:
                yield Finished(episode, trajectory)

    def _fit(self, trajectory: Trajectory) -> Trajectory | None:
        if self.budget is None:
            return trajectory
        from hermes_lab.training.compress import fit_trajectory
        from hermes_lab.training.tokens import RefusedError

        try:
            fitted = fit_trajectory(trajectory, self.budget.tokenizer, self.budget.tokens)
        except RefusedError as refusal:
            self.left_out[str(refusal)] += 1
            return None
        self.compressed += fitted is not trajectory
        return fitted
