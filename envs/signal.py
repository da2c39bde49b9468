"""Training signal of groups: a group contributes a gradient only if it is used and its rewards differ."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from hermes_lab.analysis.stats.intervals import Rate
from hermes_lab.envs.group_checks import without_signal
from hermes_lab.envs.refusals import EQUAL, INCOMPLETE
from hermes_lab.text.counted import counted
from hermes_lab.types import Episode, ScoredGroup

NO_RULE, UNTOLD = "no rule", "a hidden rule"
REVIEWS, FOLLOW_UPS = "reviews", "follow-ups"


class Rated(NamedTuple):
    """A group as it was judged: what its skills know (`label`) or `reviews` or `follow-ups`, the rewards of its G
    rollouts or reviews, how many rollouts there are and how many solved their task at once, and why it is `refused`
    ("" if it is not)."""

    label: str
    rewards: tuple[float, ...] = ()
    rollouts: int = 0
    solved: int = 0
    refused: str = ""

    @property
    def why(self) -> str:
        """Why it teaches nothing, or ""."""
        return self.refused or without_signal("review" if self.label == REVIEWS else "solve", self.rewards)


def rate_rollouts(members: Sequence[Episode], refused: str = "") -> Rated:
    """The group of these rollouts of one task."""
    judged = [each for each in members if each.reward is not None]
    rewards = tuple(each.reward.value for each in judged if each.reward)
    label = knowledge_of(members[0]) if members else ""
    if members and members[0].phase == "heldout":
        label = FOLLOW_UPS
    return Rated(label, rewards, len(judged), sum(bool(each.success) for each in judged), refused)


def rate_group(group: ScoredGroup, episodes: Mapping[str, Episode], refused: str = "") -> Rated:
    """A scored group; `episodes` has those of its rollouts by key."""
    if group.kind == "solve":
        return rate_rollouts([episodes[key] for key in dict.fromkeys(group.episodes)], refused)
    return Rated(REVIEWS, tuple(dict(zip(group.samples, group.rewards, strict=True)).values()), refused=refused)


def rate_missing(refused: Mapping[str, int]) -> list[Rated]:
    """Groups that there are not, by reason."""
    return [Rated(REVIEWS, refused=reason) for reason, count in refused.items() for _ in range(count)]


class Part(msgspec.Struct, frozen=True):
    """Some of the groups. `solved` counts rollouts whose first submission was right; groups of reviews have none."""

    groups: int = 0
    usable: int = 0
    rollouts: int = 0
    solved: int = 0

    def sentence(self) -> str:
        """`1/4 (5-70 %) groups usable, 3 of 16 rollouts solved`."""
        solved = f", {self.solved} of {self.rollouts} rollouts solved" if self.rollouts else ""
        return f"{Rate(self.usable, self.groups)} groups usable{solved}"


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """Measured from groups. A group is `usable` if it is trained on, or sent, and its rewards differ; `refused` has the
    other ones by reason. `incomplete` groups, with an errored or unjudged rollout, are left out of the rest.

    The variances are of `compared` groups: those that are refused for another reason than equal rewards teach nothing,
    whatever they earn. `within` is the mean over groups of the sample variance s_g^2 of their G rewards, which is what
    can be learned from; `between` the variance of what groups earn in expectation, estimated as max(0, Var(group means)
    - within / G), with sample variances (one-way analysis of variance with random effects; Searle, Casella and
    McCulloch, Variance Components, 1992, section 3.6). `parts` has the groups by what their skills know.
    """

    groups: int
    usable: int
    refused: dict[str, int] = {}
    incomplete: int = 0
    compared: int = 0
    within: float = 0.0
    between: float = 0.0
    parts: dict[str, Part] = {}

    @property
    def rate(self) -> Rate:
        """The share of usable groups."""
        return Rate(self.usable, self.groups)

    @property
    def few(self) -> bool:
        """Whether less than half of the groups are usable."""
        return 2 * self.usable < self.groups

    @property
    def shown_few(self) -> bool:
        """Whether the upper 95 % bound of the usable share is below one half."""
        return self.groups > 0 and self.rate.interval.high < 0.5

    def rows(self) -> list[tuple[str, str]]:
        """Names and texts, as in a plan."""
        missing = f"; {counted(self.incomplete, 'incomplete group')} left out" if self.incomplete else ""
        total = self.within + self.between
        share = f", so {100 * self.within / total:.0f} % of it can be learned from" if total else ""
        variance = f"of rewards: {self.within:.3g} within groups, {self.between:.3g} between groups{share}"
        return [
            ("usable", f"{self.rate} groups can be trained on{self.reasons()}{missing}"),
            ("variance", variance if self.compared else "of rewards: not measured, since all groups are refused"),
            *(("knowledge", f"{label}: {part.sentence()}") for label, part in sorted(self.parts.items())),
        ]

    def reasons(self) -> str:
        """`; refused: equal rewards 3, no reply 1`, or ""."""
        counts = [f"{reason} {count}" for reason, count in self.refused.items()]
        return f"; refused: {', '.join(counts)}" if counts else ""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        parts = {label: msgspec.to_builtins(part) for label, part in sorted(self.parts.items())}
        measured = {"incomplete": self.incomplete, "within": self.within, "between": self.between}
        usable = {"usable": self.rate.to_dict(), "refused": self.refused}
        return {"groups": self.groups, **usable, **measured, "by_knowledge": parts}


def signal_of(groups: Iterable[Rated]) -> Signal:
    """The signal of judged groups."""
    judged = list(groups)
    whole = [each for each in judged if each.refused not in INCOMPLETE]
    parts: dict[str, Part] = {}
    for each in whole:
        parts[each.label] = _with(parts.get(each.label, Part()), each)
    earned = [each.rewards for each in whole if each.rewards and (not each.refused or each.refused.endswith(EQUAL))]
    within = _mean([_variance(rewards) for rewards in earned])
    means = [_mean(rewards) for rewards in earned]
    size = _mean([float(len(rewards)) for rewards in earned])
    return Signal(
        groups=len(whole),
        usable=sum(not each.why for each in whole),
        refused=dict(Counter(each.why for each in whole if each.why).most_common()),
        incomplete=len(judged) - len(whole),
        compared=len(earned),
        within=within,
        between=max(0.0, _variance(means) - within / size) if size else 0.0,
        parts=parts,
    )


def knowledge_of(episode: Episode) -> str:
    """What its skills know of its task's rules, for a breakdown."""
    return episode.skills.knowledge or (UNTOLD if episode.task.triggers else NO_RULE)


def _with(part: Part, group: Rated) -> Part:
    solved = part.solved + group.solved
    return Part(part.groups + 1, part.usable + (not group.why), part.rollouts + group.rollouts, solved)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def _variance(values: Sequence[float]) -> float:
    """Of the sample (n - 1); 0.0 for fewer than two values."""
    if len(values) < 2:
        return 0.0
    mean = _mean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
