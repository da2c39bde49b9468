"""The episodes of a run, as input for export formats."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from hermes_lab.chat.sharing import withheld
from hermes_lab.records import read_episodes
from hermes_lab.types import Episode, Trajectory


class Finished(NamedTuple):
    """An episode without an error, and its trajectory."""

    episode: Episode
    trajectory: Trajectory


class Budget(NamedTuple):
    """The maximum tokens of a conversation, and the tokenizer that counts them; longer ones are compressed."""

    tokens: int
    tokenizer: Any


class Source:
    """A run's episodes. `left_out` counts those that are not exported, by reason.

    `seen` is called for every episode that is read. `compressed` counts those that were compressed to the `budget`.
    With `consent`, turns of chats recorded without it are exported, too.
    """

    def __init__(
        self,
        run: Path,
        seen: Callable[[], None] = lambda: None,
        budget: Budget | None = None,
        *,
        consent: bool = False,
    ) -> None:
        self.run = run
        self.consent = consent
        self.budget = budget
        self.compressed = 0
        self.left_out: Counter[str] = Counter()
        self._seen = seen

    def finished(self) -> Iterator[Finished]:
        """Every finished episode. Errored ones have no score and are left out, even if they have a trajectory, as in a
        rescored run whose verifier failed."""
        for episode in read_episodes(self.run):
            self._seen()
            if episode.status != "ok" or episode.trajectory is None:
                self.left_out["errored"] += 1
            elif reason := withheld(episode, consent=self.consent):
                self.left_out[reason] += 1
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
