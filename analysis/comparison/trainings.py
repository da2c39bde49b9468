"""The effect of skills over several trainings of one lock: what varies between adapters is in the interval."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from hermes_lab.analysis.comparison.pairs import ARM_PLACE, pair, parts
from hermes_lab.analysis.comparison.wording import p_text, points
from hermes_lab.analysis.stats.crossed import CrossedMean, crossed_mean

_ARMS = ("off", "on")


@dataclass(frozen=True)
class Trainings:
    """The effect of skills, by training and over all of them.

    `effects` are differences in the success rate by variant, over the `worlds` that every training has. `over` is None
    if it could not be measured; `why` then says why.
    """

    effects: Mapping[str, float]
    worlds: int
    left_out: int = 0
    over: CrossedMean | None = None
    why: str = ""

    def sentence(self) -> str:
        """The effect and its interval."""
        if not self.over:
            return f"Skills, over trainings: not measured: {self.why}"
        each = ", ".join(f"{round(100 * effect):+d}" for effect in self.effects.values())
        omitted = f"; {self.left_out} worlds that not all have are left out" if self.left_out else ""
        return (
            f"Skills, over {len(self.effects)} trainings: {points(self.over.mean, self.over.interval)}, "
            f"{p_text(self.over.p_value)}, for further trainings and worlds; by training {each}; "
            f"standard deviation between trainings {100 * self.over.between_rows:.0f} points, "
            f"between worlds {100 * self.over.between_columns:.0f}; {self.worlds} worlds{omitted}"
        )

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        found = {"sentence": self.sentence(), "effects": dict(self.effects), "worlds": self.worlds}
        return found | {"left_out": self.left_out} | (self.over._asdict() if self.over else {"why": self.why})


def over_trainings(frames: Mapping[str, pd.DataFrame], unmeasured: Mapping[str, str]) -> Trainings:
    """The effect of skills in frames of the same worlds by different adapters, in the most interesting part of each.

    `unmeasured` has reasons why a variant's effect is not measured, such as an arm that never learned.
    """
    for variant in frames:
        if variant in unmeasured:
            return Trainings({}, 0, why=f"{variant}: {unmeasured[variant]}")
    by_world = pd.DataFrame({variant: _of_worlds(frame) for variant, frame in frames.items()})
    common = by_world.dropna()
    left_out, effects = len(by_world) - len(common), dict(common.mean())
    if len(frames) < 2 or len(common) < 2:
        why = f"needs at least 2 trainings and 2 worlds that all of them have, not {len(frames)} and {len(common)}"
        return Trainings(effects, len(common), left_out, why=why)
    return Trainings(effects, len(common), left_out, crossed_mean(common.to_numpy(dtype=np.float64).T))


def _of_worlds(frame: pd.DataFrame) -> "pd.Series[float]":
    """The change from `off` to `on` by world: the mean over its pairs."""
    _, rows = next(parts(frame), ("", frame))
    off, on = (rows[rows["arm"] == arm] for arm in _ARMS)
    pairs = pair(off, on, ARM_PLACE)
    both = pairs["success_before"].notna() & pairs["success_after"].notna()
    pairs = pairs[both]
    change = pairs["success_after"].astype(float) - pairs["success_before"].astype(float)
    return change.groupby(pairs["world"].astype(str)).mean()
