"""A curriculum: which families of tasks a round of GRPO draws from, by their success rates in the rounds before.

Nothing extra is sampled: the rates are those of the rollouts that were trained on or refused. A draw depends only on
the locked seed, the number of the round and the rounds before it, so a resumed training draws the same tasks.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hermes_lab.config.schema import RewardConfig
from hermes_lab.envs.window import in_window
from hermes_lab.errors import ConfigError
from hermes_lab.records import write_json
from hermes_lab.rewards import earned_share
from hermes_lab.tasks.draws import Draws
from hermes_lab.training.lock import CurriculumLock
from hermes_lab.types import Episode

FILE = "curriculum.json"
"""In a checkpoint: the families of all rounds so far. The checkpoint's manifest covers it."""


class FamilyRound(msgspec.Struct, frozen=True, omit_defaults=True):
    """A family in one round: its groups, its judged rollouts, and how many of them solved their task. `earned` is the
    sum of what they earned of what solving can earn (`hermes_lab.rewards.earned_share`), where that is another
    number."""

    groups: int
    rollouts: int
    solved: int
    earned: float | None = None


def family_round(groups: int, episodes: Sequence[Episode], reward: RewardConfig) -> FamilyRound:
    """A family's round, from its rollouts and the reward of their configuration."""
    judged = [each for each in episodes if each.success is not None]
    solved = sum(bool(each.success) for each in judged)
    shares = [earned_share(reward, each.reward) if each.reward else None for each in judged]
    earned = math.fsum(share for share in shares if share is not None)
    known = bool(judged) and None not in shares and not math.isclose(earned, solved)
    return FamilyRound(groups, len(judged), solved, earned if known else None)


Round = Mapping[str, FamilyRound]
"""The families of a round, by name; one without a group is absent."""


def rate(family: str, history: Sequence[Round], memory_rounds: int) -> float | None:
    """The success rate of a family over the last `memory_rounds` rounds, or the mean share that its rollouts earned;
    None if they have no rollout of it."""
    seen = [families[family] for families in history[-memory_rounds:] if family in families]
    rollouts = sum(each.rollouts for each in seen)
    earned = [each.solved if each.earned is None else each.earned for each in seen]
    return sum(earned) / rollouts if rollouts else None


def families_in_window(families: Sequence[str], history: Sequence[Round], lock: CurriculumLock) -> list[str]:
    """The families to draw from: those whose rate is in the window or unknown; if there are none, the nearest to it.

    A family outside becomes unknown after `memory_rounds` rounds without it, and so is tried again.
    """
    rates = {family: rate(family, history, lock.memory_rounds) for family in families}
    return in_window(rates, lock.min_success, lock.max_success)


def draw_groups(
    families: Sequence[str], history: Sequence[Round], lock: CurriculumLock, groups: int, seed: int
) -> dict[str, int]:
    """How many of the `groups` of the next round each family gets, without those that get none.

    All families that are drawn from have the same expected number: equal shares, and the rest to families drawn at
    random without replacement. `history` has the rounds before it.
    """
    drawn = families_in_window(families, history, lock)
    share, rest = divmod(groups, len(drawn))
    lucky = set(Draws("curriculum", seed, len(history) + 1).sample(drawn, rest))
    counts = {family: share + (family in lucky) for family in drawn}
    return {family: count for family, count in counts.items() if count}


def describe_rates(families: Sequence[str], history: Sequence[Round], lock: CurriculumLock) -> str:
    """`ledger 40 %, joins 0 % (left out), sensors not measured`."""
    drawn = families_in_window(families, history, lock)
    parts = []
    for family in families:
        found = rate(family, history, lock.memory_rounds)
        rated = "not measured" if found is None else f"{100 * found:.0f} %"
        parts.append(f"{family} {rated}{'' if family in drawn else ' (left out)'}")
    return ", ".join(parts)


def write_history(checkpoint: Path, history: Sequence[Round]) -> None:
    """Writes the families of all rounds so far to a checkpoint, before its manifest."""
    write_json(checkpoint / FILE, [msgspec.to_builtins(dict(families)) for families in history])


def check_history(checkpoint: Path, history: Sequence[Round]) -> None:
    """Raises `ConfigError` if the rounds on disk are not those of the checkpoint: other tasks would be drawn."""
    try:
        before: list[dict[str, Any]] = json.loads((checkpoint / FILE).read_text())
    except FileNotFoundError:
        raise ConfigError(f"resume: {checkpoint} is of a training without families; start without resume") from None
    for number, (then, now) in enumerate(zip(before, history, strict=False), 1):
        if then != msgspec.to_builtins(dict(now)):
            raise ConfigError(
                f"resume: the families of round {number} are not those in {checkpoint / FILE}: its done.json was "
                "changed; start without resume, with another out"
            )
