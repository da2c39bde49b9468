"""Leave-one-out uplift: the same tasks with a lane's whole library and without one skill.

`hermes-lab skills uplift` makes the run. Its lanes have arm `all` or `without-<skill>`; the sides of a pair differ in
nothing else, so the difference is caused by the skill, up to sampling noise.
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
from hermes_lab.text.counted import counted


class Uplift(Struct, frozen=True, kw_only=True):
    """One skill of one world, over pairs of episodes: with it, and without it.

    `helped` counts tasks solved only with the skill, `harmed` those solved only without it, at the first submission.
    `difference` is (helped - harmed) / pairs; its interval and p are clustered by task
    (`hermes_lab.analysis.stats.paired`), and `tasks` counts the tasks. `p_holm` is Holm-adjusted over all skills of the
    run. `unpaired` counts pairs with a missing, errored or unjudged side."""

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
        """Pairs judged on both sides."""
        return self.with_it.trials

    @property
    def difference(self) -> float:
        """In [-1, 1]; above 0 the skill helps."""
        return (self.helped - self.harmed) / self.pairs

    @property
    def harm_rate(self) -> Rate:
        """The share of pairs in which the skill harmed."""
        return Rate(self.harmed, self.pairs)

    @property
    def shown(self) -> bool:
        """Whether the effect is significant: `p_holm` below 0.05 and an interval that excludes zero."""
        return self.p_holm < 0.05 and not self.interval.low <= 0 <= self.interval.high

    @property
    def effect(self) -> str:
        """The direction of the effect: helps, harms or not shown."""
        return "not shown" if not self.shown else "helps" if self.difference > 0 else "harms"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        names = ("skill", "world", "lanes", "tasks", "pairs", "helped", "harmed", "difference", "interval")
        rates = {name: getattr(self, name).to_dict() for name in ("with_it", "without_it", "harm_rate")}
        tests = {name: getattr(self, name) for name in ("p_value", "p_holm", "shown", "unpaired")}
        return {name: getattr(self, name) for name in names} | rates | tests


_PLACE = ["suite", "task_id", "replicate", "world", "weights", "sample"]


def uplifts(frame: pd.DataFrame) -> list[Uplift]:
    """The skills of an uplift run, best first; empty for other runs. Skills without judged pairs are left out."""
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
    """How many skills help, harm, or show no effect (Holm-adjusted), and how many pairs were excluded."""
    if not found:
        return "not measured: no task was judged on both sides yet"
    effects = Counter(each.effect for each in found)
    left = sum(each.unpaired for each in found)
    more = f"; {counted(left, 'pair')} without two judged sides excluded" if left else ""
    return (
        f"of {counted(len(found), 'skill')} {effects['helps']} help, {effects['harms']} harm, "
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
        interval=together.interval(with_P.astype(np.int64) - without_P),
        p_value=together.p_value(with_P.astype(np.int64) - without_P),
        unpaired=unpaired,
    )
