"""What the rollouts of a round gave: episodes, scored groups, and the values of reviews."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hermes_lab.envs.groups import build_groups
from hermes_lab.envs.learning.config import Objective
from hermes_lab.envs.learning.records import read_learned
from hermes_lab.envs.learning.worth import MeanValue, mean_value
from hermes_lab.envs.refusals import UNSCORED
from hermes_lab.training.select import is_held_out
from hermes_lab.types import Episode, ScoredGroup


class Collected(NamedTuple):
    """The groups of a round, and what gave none. `reviews` is the mean over the reviews of learning episodes, and
    `refused` counts what gave no group by reason."""

    groups: list[ScoredGroup]
    refused: Mapping[str, int]
    reviews: MeanValue | None = None


def collected(episodes: Sequence[Episode], folders: Sequence[Path], objective: Objective) -> Collected:
    """The groups that the objective trains on: of all episodes, or those that learning episodes left in their folders.

    Raises `ConfigError` if learning episodes are not finished.
    """
    if objective == "solve":
        groups = list(build_groups(episodes))
        lost = len({(episode.lane, episode.task_id) for episode in episodes}) - len(groups)
        return Collected(groups, {UNSCORED: lost} if lost else {})
    learned = [read_learned(folder) for folder in folders]
    refused = Counter[str]()
    for each in learned:
        refused.update(each.refused)
    groups = [group for each in learned for group in each.groups if objective == "both" or group.kind == "review"]
    return Collected(groups, refused, mean_value(value for each in learned for value in each.values))


def held_out_keys(episodes: Sequence[Episode], held_out: Collection[str], objective: Objective) -> frozenset[str]:
    """The keys of episodes that must not be trained on, given the digests of held-out tasks."""
    keys = frozenset(each.key for each in episodes if is_held_out(each, held_out))
    return keys if objective == "solve" else held_out_lanes(episodes, keys)


def held_out_lanes(episodes: Sequence[Episode], held_out: frozenset[str]) -> frozenset[str]:
    """The keys of all episodes of learning episodes with a held-out task: the reward of a review must not tell anything
    about it either."""
    lanes = {episode.lane for episode in episodes if episode.key in held_out}
    return held_out | {episode.key for episode in episodes if episode.lane in lanes}
