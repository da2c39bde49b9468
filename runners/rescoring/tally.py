"""What a rescoring changed."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from hermes_lab.types import Episode, Rescored


class Changes:
    """Counts over rescored episodes. Old and new success are over the same episodes: those that have both verdicts."""

    def __init__(self, episodes: Iterable[Episode] = ()) -> None:
        self.moves: Counter[str] = Counter()
        self.not_possible: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.later: Counter[str] = Counter()
        self.episodes = self.before = self.after = self.other_scores = self.followed = 0
        self.judge_votes = self.judge_tokens = self.uncounted_votes = 0
        self.judge_cost = 0.0
        for episode in episodes:
            self.add(episode)

    def add(self, episode: Episode) -> None:
        """Counts an episode that `Rescorer` made."""
        again = episode.rescored
        assert again is not None, "not a rescored episode"
        self.episodes += 1
        for vote in (vote for judgement in episode.judgements for vote in judgement.votes):
            self.judge_votes += 1
            self.judge_tokens += vote.usage.prompt_tokens + vote.usage.completion_tokens
            self.judge_cost += vote.cost
            self.uncounted_votes += vote.usage.uncounted
        if again.problem:
            self.not_possible[again.problem] += 1
        elif episode.error:
            self.errors[f"{episode.error.kind}: {episode.error.message}"] += 1
        else:
            self._add_verdict(episode, again)

    def _add_verdict(self, episode: Episode, again: Rescored) -> None:
        if again.problem_later:
            self.later[again.problem_later] += 1
        if again.success is None:
            self.moves["new"] += 1
            return
        self.before += again.success
        self.after += bool(episode.success)
        if again.success == episode.success:
            self.moves["unchanged"] += 1
            self.other_scores += again.score != episode.score
            return
        self.moves["0 -> 1" if episode.success else "1 -> 0"] += 1
        # What the agent did next followed the old verdict.
        self.followed += episode.review is not None or episode.metrics.get("submissions", 0) > 1

    @property
    def changed(self) -> int:
        """Episodes whose success is another one."""
        return self.moves["0 -> 1"] + self.moves["1 -> 0"]

    @property
    def compared(self) -> int:
        """Episodes with an old and a new verdict."""
        return self.changed + self.moves["unchanged"]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        of = self.compared
        return {
            "episodes": self.episodes,
            "rescored": self.moves.total(),
            "0_to_1": self.moves["0 -> 1"],
            "1_to_0": self.moves["1 -> 0"],
            "unchanged": self.moves["unchanged"],
            "unchanged_with_another_score": self.other_scores,
            "scored_for_the_first_time": self.moves["new"],
            "not_possible": dict(sorted(self.not_possible.items())),
            "errored": dict(sorted(self.errors.items())),
            "later_submissions_not_possible": dict(sorted(self.later.items())),
            "success_before": {"count": self.before, "of": of},
            "success_after": {"count": self.after, "of": of},
            "changed_with_feedback_or_review": self.followed,
            "judge_votes": self.judge_votes,
            "judge_tokens": self.judge_tokens,
            "judge_cost": self.judge_cost,
            "uncounted_votes": self.uncounted_votes,
        }
