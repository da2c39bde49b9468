"""Counts of groups and rollouts by outcome."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from hermes_lab.envs.learning.worth import ReviewValue, mean_value
from hermes_lab.envs.signal import Rated
from hermes_lab.types import Episode, ScoredGroup


def ignore(group: Rated) -> None:
    """Does nothing."""
    del group


@dataclass
class Tally:
    """Counts of one `serve` or `process`. Every group is counted as sent, refused or lost."""

    groups: int = 0
    sequences: int = 0
    rewards: float = 0.0
    errored: int = 0
    """Errored rollouts; replaced as far as `refills` allows."""
    last_error: str = ""
    refused: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    """Tasks that were not played, by kind (`hermes_lab.envs.atropos.kinds`)."""
    reviews: list[ReviewValue] = field(default_factory=list)
    """The values of all reviews of learning episodes."""
    judged: Callable[[Rated], None] = ignore
    """Called with every group that was made or refused."""

    def saw(self, episodes: Iterable[Episode]) -> None:
        """Counts errored rollouts."""
        for episode in episodes:
            if episode.error:
                self.errored += 1
                self.last_error = f"{episode.error.kind}: {episode.error.message}"

    def judge(self, group: Rated) -> None:
        """Counts a group if it is refused."""
        if group.refused:
            self.refused[group.refused] += 1
        self.judged(group)

    def sent(self, groups: Sequence[ScoredGroup]) -> None:
        """Counts posted groups."""
        self.groups += len(groups)
        self.sequences += sum(len(group.rewards) for group in groups)
        self.rewards += sum(sum(group.rewards) for group in groups)

    def __str__(self) -> str:
        text = f"{self.groups} groups ({self.sequences} sequences) sent"
        if self.sequences:
            text += f", mean reward {self.rewards / self.sequences:.2f}"
        if self.reviews:
            text += f", {mean_value(self.reviews).sentence()}"
        if self.refused:
            text += ", refused: " + ", ".join(f"{reason} {count}" for reason, count in self.refused.most_common())
        if self.left_out:
            kinds = ", ".join(f"{kind} ({count})" for kind, count in self.left_out.most_common())
            text += f", tasks left out as too hard or too easy now: {kinds}"
        if self.errored:
            text += f", {self.errored} rollouts errored ({self.last_error[:120]})"
        return text
