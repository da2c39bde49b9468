"""What a skill causes: the same tasks with a lane's whole library, and with that library less one skill.

`hermes-lab skills uplift` makes the run. Its lanes have the arm `all`, or `without-<skill>`; nothing else differs
between the two sides of a pair, so the difference is the skill's doing, up to the model's own chance.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from msgspec import Struct
from msgspec.structs import replace

from hermes_lab.analysis.stats.intervals import Interval, Rate
from hermes_lab.analysis.stats.multiple import holm
from hermes_lab.analysis.stats.paired import units_of
from hermes_lab.lane import WHOLE, left_out


class Uplift(Struct, frozen=True, kw_only=True):
    """One skill of one world, over pairs of episodes: with it, and without it.

    `helped` counts the tasks that were solved with it alone, `harmed` those that were solved without it alone; both at
    the first submission. `difference` is (helped - harmed) / pairs; its interval and p are those of
    `hermes_lab.analysis.stats.paired`, over what is independent: a task is one however many replicates ran it. `tasks`
    counts them. `p_holm` is the p by Holm over all skills of the run. `unpaired` counts pairs of which a side is
    missing, errored or unjudged."""

    skill: str
    world: int
    lanes: int
    with_it: Rate
    without_it: Rate
    helped: int
    harmed: int
    interval: Interval
    p_value: float
    p_holm: float = 1.0
    tasks: int
    unpaired: int

    @property
    def pairs(self) -> int:
        """Episodes that were judged on both sides."""
        return self.with_it.trials

    @property
    def difference(self) -> float:
        """In [-1, 1]; above 0 the skill helps."""
        return (self.helped - self.harmed) / self.pairs

    @property
    def harm_rate(self) -> Rate:
        """The share of the pairs in which the skill made the difference for the worse."""
        return Rate(self.harmed, self.pairs)

    @property
    def shown(self) -> bool:
        """Whether an effect is shown: `p_holm` is under 0.05, and the interval leaves out zero."""
        return self.p_holm < 0.05 and not self.interval.low <= 0 <= self.interval.high

    @property
    def effect(self) -> str:
        """In a word or two."""
        return "not shown" if not self.shown else "helps" if self.difference > 0 else "harms"

    def report(self) -> dict[str, Any]:
        """For JSON."""
        names = ("skill", "world", "lanes", "tasks", "pairs", "helped", "harmed", "difference", "interval")
        rates = {name: getattr(self, name).report() for name in ("with_it", "without_it", "harm_rate")}
        tests = {name: getattr(self, name) for name in ("p_value", "p_holm", "shown", "unpaired")}
        return {name: getattr(self, name) for name in names} | rates | tests


_PLACE = ["suite", "task_id", "replicate", "world", "weights", "sample"]


def uplifts(frame: pd.DataFrame) -> list[Uplift]:
    """The skills of an uplift run, best first; none where the frame is of another kind of run. Skills of which no pair
    was judged are left out."""
    columns = [*_PLACE, "success", "arm"]
    whole = frame.loc[frame["arm"] == WHOLE, columns].set_index(_PLACE)["success"]
    found = []
    for (arm, world), group in frame.loc[frame["arm"] != WHOLE, columns].groupby(["arm", "world"]):
        if skill := left_out(str(arm)):
            sides = group.set_index(_PLACE)["success"].to_frame("without").join(whole.rename("with"), how="left")
            judged = sides.dropna()
            if len(judged):
                found.append(_uplift(skill, int(str(world)), judged.astype(bool), len(sides) - len(judged)))
    adjusted = holm([each.p_value for each in found])
    told = [replace(each, p_holm=p) for each, p in zip(found, adjusted, strict=True)]
    return sorted(told, key=lambda each: (-each.difference, each.skill, each.world))


def uplift_sentence(found: Sequence[Uplift]) -> str:
    """How many skills help, harm, or show nothing, by Holm; and what was left out."""
    if not found:
        return "no task is judged on both sides yet, so no uplift is measured"
    effects = Counter(each.effect for each in found)
    left = sum(each.unpaired for each in found)
    more = f"; {left} pair{'s' * (left != 1)} without two judged sides left out" if left else ""
    return (
        f"of {len(found)} skill{'s' * (len(found) != 1)} {effects['helps']} help, {effects['harms']} harm, "
        f"{effects['not shown']} with no effect shown (Holm, 5 %){more}"
    )


def _uplift(skill: str, world: int, judged: pd.DataFrame, unpaired: int) -> Uplift:
    with_P, without_P = judged["with"].to_numpy(dtype=bool), judged["without"].to_numpy(dtype=bool)
    together = units_of(judged.index.to_frame())
    return Uplift(
        skill=skill,
        world=world,
        lanes=together.lanes,
        tasks=together.tasks,
        with_it=Rate(int(with_P.sum()), len(with_P)),
        without_it=Rate(int(without_P.sum()), len(with_P)),
        helped=int((with_P & ~without_P).sum()),
        harmed=int((~with_P & without_P).sum()),
        interval=together.interval(without_P, with_P),
        p_value=together.p_value(with_P.astype(np.int64) - without_P),
        unpaired=unpaired,
    )
