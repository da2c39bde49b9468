"""Weights x skills: the 2x2 decomposition, over tasks that were run in all four cells.

With success rates r of the cells (weights before or after, skills off or on):

    both        = r(after, on) - r(before, off)  = weights + skills
    weights     = the mean of r(after, s) - r(before, s) over skills s off and on
    skills      = the mean of r(w, on) - r(w, off) over weights w before and after
    interaction = the effect of skills under the new weights minus their effect under the old ones

The two main effects sum to the whole change; the interaction tests whether each is independent of the other. If they
interact, report the simple effects `skills_before` and `skills_after`.

Where a set of weights had no skills to use, its two cells differ in nothing: the effect of skills is then only that
under the other set, the effect of the weights is that with skills off, and there is no interaction.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from hermes_lab.analysis.comparison.pairs import parts
from hermes_lab.analysis.comparison.wording import points, shown, tested
from hermes_lab.analysis.data.series import weights_names
from hermes_lab.analysis.stats.intervals import Interval, Rate
from hermes_lab.analysis.stats.multiple import holm
from hermes_lab.analysis.stats.paired import LEVEL, Units, units_of
from hermes_lab.errors import ConfigError

Outcomes = np.typing.NDArray[np.int64]

_PLACE = ["suite", "task_id", "replicate", "world", "round", "sample"]
_TESTED = ("weights", "skills", "interaction")
"""The family of tests for Holm's adjustment."""
TESTS = len(_TESTED)
_SIMPLE = ("skills_before", "skills_after")
"""The effect of skills under each set of weights."""


class Effect(NamedTuple):
    """A difference of success rates with its 95 % interval and the mid-p of the sign-flip test over units.

    `p_adjusted` is Holm-adjusted over the `family` of effects that answer the question: weights, skills and interaction
    if all are measured. For any other effect it equals `p_value`.
    """

    difference: float
    interval: Interval
    p_value: float
    p_adjusted: float
    family: int = TESTS

    @property
    def shown(self) -> bool:
        """Whether the effect is significant."""
        return self.p_adjusted < LEVEL

    def __str__(self) -> str:
        said = (
            f"{points(self.difference, self.interval)}, {tested(self.p_value, self.p_adjusted, f'{self.family} tests')}"
        )
        return shown(self.p_value, self.p_adjusted) + said

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return self._asdict() | {"shown": self.shown}


@dataclass(frozen=True)
class TwoByTwo:
    """The four cells over `places` tasks and the effects of both factors. `part` is the part of the run."""

    weights_names: tuple[str, str]
    skills_names: tuple[str, str]
    corners: tuple[tuple[Rate, Rate], tuple[Rate, Rate]]
    """[weights][skills]."""
    both: Effect
    weights: Effect
    skills: Effect
    interaction: Effect
    skills_before: Effect
    skills_after: Effect
    places: int
    lanes: int
    part: str
    counted: str
    """The number of sets of four episodes and their clusters: `96 sets of four in 8 worlds`."""
    limit: str
    """The units the result is limited to, e.g. `these 5 worlds only`; "" if it generalises to other worlds."""
    weights_off: Effect
    """The effect of the weights without skills."""
    absent: tuple[str, str] = ("", "")
    """Why each set of weights had no skills to use, so that they show no effect of skills; "" if it had some."""

    @property
    def measured(self) -> dict[str, Effect]:
        """The effects that these cells measure, by name."""
        if not any(self.absent):
            return {name: getattr(self, name) for name in ("both", *_TESTED, *_SIMPLE)}
        under = {"skills_before": self.skills_before, "skills_after": self.skills_after}
        treated = {name: effect for (name, effect), why in zip(under.items(), self.absent, strict=True) if not why}
        return {"both": self.both, "weights": self.weights} | treated

    @property
    def family(self) -> int:
        """The number of tests in Holm's adjustment."""
        return self.weights.family

    @property
    def skills_shown(self) -> bool:
        """Whether an effect of skills is significant: their main effect, or that under the only weights with skills."""
        found = self.measured
        return any(found[name].shown for name in ("skills", *(_SIMPLE if any(self.absent) else ())) if name in found)

    @property
    def unmeasured(self) -> str:
        """Which effects are not measured, and why; "" if all are."""
        if not any(self.absent):
            return ""
        if all(self.absent):
            whys = dict.fromkeys(self.absent)
            return f"skills and the interaction: not measured: {'; '.join(whys)}"
        which = self.absent.index(self.absent[0] or self.absent[1])
        return f"skills under {self.weights_names[which]} and the interaction: not measured: {self.absent[which]}"

    def without(self, absent: tuple[str, str]) -> "TwoByTwo":
        """The same cells, where a set of weights with a reason in `absent` had no skills to use."""
        if not any(absent):
            return self
        # Where neither set had skills, both arms are alike, and all four cells measure the weights.
        weights = self.weights if all(absent) else self.weights_off
        found = replace(self, absent=absent, weights=weights)
        tested = {name: effect for name, effect in found.measured.items() if name != "both"}
        adjusted = holm([effect.p_value for effect in tested.values()])
        changed: dict[str, Any] = {
            name: effect._replace(p_adjusted=p_value, family=len(tested))
            for (name, effect), p_value in zip(tested.items(), adjusted, strict=True)
        }
        return replace(found, **changed)

    def to_dict(self) -> dict[str, Any]:
        """For JSON; an effect that is not measured is None."""
        effects = self.measured
        return {
            "weights_names": self.weights_names,
            "skills_names": self.skills_names,
            "corners": [[rate.to_dict() for rate in row] for row in self.corners],
            "effects": {
                name: effects[name].to_dict() if name in effects else None for name in ("both", *_TESTED, *_SIMPLE)
            },
            "unmeasured": self.unmeasured,
            "places": self.places,
            "lanes": self.lanes,
            "part": self.part,
        }

    def sentence(self) -> str:
        """The finding in one line; the part before the colon is the short answer.

        With a significant interaction main effects are misleading, so the effect of skills is given for each set of
        weights.
        """
        together = points(self.both.difference, self.both.interval)
        if self.unmeasured:
            return f"{self._which()}: combined {together}, {', '.join(self._measured_alone())}; {self.unmeasured}"
        if self.interaction.shown:
            before, after = self.weights_names
            return (
                f"The effect of skills depends on the weights: {self.skills_before} under {before}; "
                f"{self.skills_after} under {after}; interaction {self.interaction}; combined {together}"
            )
        return (
            f"{self._which()}: combined {together}, weights "
            f"{points(self.weights.difference, self.weights.interval)}, skills "
            f"{points(self.skills.difference, self.skills.interval)}"
        )

    def _measured_alone(self) -> list[str]:
        """The effects where a set of weights had no skills."""
        found = self.measured
        skills = [
            f"skills under {name} {points(found[which].difference, found[which].interval)}"
            for which, name in zip(_SIMPLE, self.weights_names, strict=True)
            if which in found
        ]
        off = f" with skills {self.skills_names[0]}" if skills else ""
        return [f"weights{off} {points(self.weights.difference, self.weights.interval)}", *skills]

    def _which(self) -> str:
        if all(self.absent):
            return "The weights made a difference" if self.weights.shown else "No effect of the weights shown"
        skills = self.skills
        if any(self.absent):
            skills = self.skills_after if self.absent[0] else self.skills_before
        match self.weights.shown, skills.shown:
            case True, True:
                return "Both the weights and the skills made a difference"
            case True, False:
                return f"The weights made a difference; no effect of skills {_missing(skills)}"
            case False, True:
                return f"The skills made a difference; no effect of the weights {_missing(self.weights)}"
        if self.both.shown:
            return "Weights and skills together made a difference; not shown which of them"
        return f"No effect of the weights or the skills {_missing(self.weights, skills)}"

    def lines(self) -> list[str]:
        """The four cells and the effects."""
        before, after = self.weights_names
        corners = [
            f"{name}, skills {skills}: {rate} solved at the first submission"
            for name, rates in zip(self.weights_names, self.corners, strict=True)
            for skills, rate in zip(self.skills_names, rates, strict=True)
        ]
        if self.unmeasured:
            found = self.measured
            off = "" if all(self.absent) else f", skills {self.skills_names[0]}"
            return [
                *corners,
                f"combined: {self.both}",
                f"weights, {before} -> {after}{off}: {self.weights}",
                *(
                    f"effect of skills under {name}: {found[which]}"
                    for which, name in zip(_SIMPLE, self.weights_names, strict=True)
                    if which in found
                ),
                self.unmeasured,
            ]
        return [
            *corners,
            f"combined: {self.both}",
            f"weights, {before} -> {after}: {self.weights}",
            f"skills, {self.skills_names[0]} -> {self.skills_names[1]}: {self.skills}",
            f"interaction, effect of skills under {after} minus under {before}: {self.interaction}",
            f"effect of skills under {before}: {self.skills_before}",
            f"effect of skills under {after}: {self.skills_after}",
        ]


def decompose(frame: pd.DataFrame, *, skills: tuple[str, str] = ("off", "on")) -> TwoByTwo:
    """The 2x2 of the two sets of weights and the two arms `skills`, at the first submission.

    `frame` is one run with two sets of weights, or two runs with different weights. Only tasks judged in all four
    cells count: held-out tasks after learning, if there are any. Raises `ConfigError` unless there are two sets of
    weights and a task in all four cells.
    """
    weights, names = _weights(frame)
    part, rows = next(iter(parts(frame.assign(_weights=weights))), ("", frame.iloc[:0].assign(_weights=0)))
    scored = rows[rows["success"].notna() & rows["arm"].isin(skills)]
    table = scored.assign(success=scored["success"].astype(int)).set_index([*_PLACE, "_weights", "arm"])["success"]
    corners = table.unstack(["_weights", "arm"])
    wanted = [(w, s) for w in (0, 1) for s in skills]
    if missing := [corner for corner in wanted if corner not in corners.columns]:
        weight, arm = missing[0]
        raise ConfigError(f"{names[weight]}: no judged episode of arm {arm!r}; a 2x2 needs all four cells")
    whole = corners[wanted].dropna()
    if whole.empty:
        raise ConfigError("no task was judged in all four cells of weights x skills; give runs of the same tasks")
    together = units_of(whole.index.to_frame(index=False))
    return _two_by_two(whole.to_numpy(dtype=np.int64), together, names, skills, part)


def by_weights(frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The episodes of the first and of the second set of weights. Raises `ConfigError` unless there are two."""
    weights, _ = _weights(frame)
    return frame[weights == 0], frame[weights == 1]


def _two_by_two(
    success_P_4: np.typing.NDArray[np.int64],
    together: Units,
    names: tuple[str, str],
    skills: tuple[str, str],
    part: str,
) -> TwoByTwo:
    old_off, old_on, new_off, new_on = success_P_4.T
    effects = {
        "weights": _effect(new_off - old_off + new_on - old_on, 2, together),
        "skills": _effect(old_on - old_off + new_on - new_off, 2, together),
        "interaction": _effect(new_on - new_off - old_on + old_off, 1, together),
    }
    adjusted = holm([effects[name].p_value for name in _TESTED])
    for name, p_value in zip(_TESTED, adjusted, strict=True):
        effects[name] = effects[name]._replace(p_adjusted=p_value)
    rates = [together.rate(corner_P) for corner_P in success_P_4.T]
    return TwoByTwo(
        weights_names=names,
        skills_names=skills,
        corners=((rates[0], rates[1]), (rates[2], rates[3])),
        both=_effect(new_on - old_off, 1, together),
        weights=effects["weights"],
        skills=effects["skills"],
        interaction=effects["interaction"],
        skills_before=_effect(old_on - old_off, 1, together),
        skills_after=_effect(new_on - new_off, 1, together),
        weights_off=_effect(new_off - old_off, 1, together),
        places=len(success_P_4),
        lanes=together.lanes,
        part=part,
        counted=together.of(len(success_P_4), "sets of four"),
        limit=together.limit(),
    )


def _effect(change_P: Outcomes, divisor: int, together: Units) -> Effect:
    """The mean of `change_P` over the divisor."""
    p_value, (low, high) = together.p_value(change_P), together.interval(change_P)
    return Effect(float(change_P.mean()) / divisor, Interval(low / divisor, high / divisor), p_value, p_value)


def _missing(*effects: Effect) -> str:
    """`shown`, or `shown once adjusted` where only the adjustment takes an effect away."""
    return "shown once adjusted" if any(effect.p_value < LEVEL for effect in effects) else "shown"


def _weights(frame: pd.DataFrame) -> tuple[pd.Series, tuple[str, str]]:
    """0 or 1 for each episode, and the names of the two sets of weights."""
    factor = "weights" if frame["run"].nunique() == 1 else "run"
    # Runs in the order in which they were given, weights in that of `learning.adapters`.
    levels = list(dict.fromkeys(frame[factor])) if factor == "run" else sorted(frame[factor].unique())
    if len(levels) != 2:
        raise ConfigError(
            f"weights x skills needs two sets of weights, not {len(levels)}: two runs, or learning.adapters with two"
        )
    held = [
        frame.loc[frame[factor] == level, ["model", "adapter", "adapter_digest"]].drop_duplicates() for level in levels
    ]
    if any(len(weights) > 1 for weights in held) or held[0].to_numpy().tolist() == held[1].to_numpy().tolist():
        raise ConfigError(f"weights x skills: {levels[0]} and {levels[1]} are not two different sets of weights")
    names = weights_names(next(weights.itertuples(index=False, name=None)) for weights in held)
    if names[0] == names[1]:
        names = [weights["adapter"].iloc[0] or weights["model"].iloc[0] for weights in held]
    return frame[factor].map({level: number for number, level in enumerate(levels)}), (names[0], names[1])
