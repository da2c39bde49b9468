"""How much there is to learn from groups of rollouts: a group teaches something only if its rewards differ."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from hermes_lab.analysis.stats.intervals import Rate
from hermes_lab.envs.group_checks import normalized_advantages
from hermes_lab.types import Episode

NO_RULE, UNTOLD = "no rule", "a hidden rule"


class Part(msgspec.Struct, frozen=True):
    """Some of the groups. `solved` counts rollouts whose first submission was right."""

    groups: int = 0
    usable: int = 0
    rollouts: int = 0
    solved: int = 0

    def sentence(self) -> str:
        """`1/4 (5-70 %) groups usable, 3 of 16 rollouts solved`."""
        usable = Rate(self.usable, self.groups)
        return f"{usable} groups usable, {self.solved} of {self.rollouts} rollouts solved"


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """Measured from whole groups. `incomplete` groups, with an errored or unjudged rollout, are left out of the rest.

    `within` is the mean over groups of the sample variance s_g^2 of their G rewards, which is what can be learned from;
    `between` the variance of what groups earn in expectation, estimated as max(0, Var(group means) - within / G), with
    sample variances (one-way analysis of variance with random effects; Searle, Casella and McCulloch, Variance
    Components, 1992, section 3.6). `parts` has the groups by what their skills know.
    """

    groups: int
    usable: int
    incomplete: int = 0
    within: float = 0.0
    between: float = 0.0
    parts: dict[str, Part] = {}

    @property
    def rate(self) -> Rate:
        """The share of usable groups."""
        return Rate(self.usable, self.groups)

    @property
    def starves(self) -> bool:
        """Whether surely less than half of the groups are usable."""
        return self.groups > 0 and self.rate.interval.high < 0.5

    def rows(self) -> list[tuple[str, str]]:
        """Names and texts, as in a plan."""
        missing = f"; {self.incomplete} incomplete groups left out" if self.incomplete else ""
        total = self.within + self.between
        share = f", so {100 * self.within / total:.0f} % of it can be learned from" if total else ""
        return [
            ("usable", f"{self.rate} groups have rewards that differ{missing}"),
            ("variance", f"of rewards: {self.within:.3g} within groups, {self.between:.3g} between groups{share}"),
            *(("knowledge", f"{label}: {part.sentence()}") for label, part in sorted(self.parts.items())),
        ]

    def report(self) -> dict[str, Any]:
        """For JSON."""
        parts = {label: msgspec.to_builtins(part) for label, part in sorted(self.parts.items())}
        measured = {"incomplete": self.incomplete, "within": self.within, "between": self.between}
        return {"groups": self.groups, "usable": self.rate.report(), **measured, "by_knowledge": parts}


def signal_of(episodes: Iterable[Episode], size: int) -> Signal:
    """The signal of groups of at least `size` judged rollouts. Replaced rollouts that errored do not count."""
    by_task: dict[tuple[str, int, str], list[Episode]] = defaultdict(list)
    for episode in episodes:
        by_task[episode.lane, episode.round, episode.task_id].append(episode)
    judged = [[each for each in group if each.reward is not None] for group in by_task.values()]
    whole = [group for group in judged if len(group) >= size]
    rewards = [[each.reward.value for each in group if each.reward] for group in whole]
    parts: dict[str, Part] = {}
    for group, earned in zip(whole, rewards, strict=True):
        label = knowledge_of(group[0])
        parts[label] = _with(parts.get(label, Part()), group, usable=_differ(earned))
    within = _mean([_variance(earned) for earned in rewards])
    means = [_mean(earned) for earned in rewards]
    return Signal(
        groups=len(whole),
        usable=sum(map(_differ, rewards)),
        incomplete=len(judged) - len(whole),
        within=within,
        between=max(0.0, _variance(means) - within / size),
        parts=parts,
    )


def knowledge_of(episode: Episode) -> str:
    """What its skills know of its task's rules, for a breakdown."""
    return episode.skills.knowledge or (UNTOLD if episode.task.triggers else NO_RULE)


def _with(part: Part, group: Sequence[Episode], *, usable: bool) -> Part:
    solved = sum(bool(each.success) for each in group)
    return Part(part.groups + 1, part.usable + usable, part.rollouts + len(group), part.solved + solved)


def _differ(rewards: Sequence[float]) -> bool:
    return any(normalized_advantages(rewards))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def _variance(values: Sequence[float]) -> float:
    """Of the sample (n - 1); 0.0 for fewer than two values."""
    if len(values) < 2:
        return 0.0
    mean = _mean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
