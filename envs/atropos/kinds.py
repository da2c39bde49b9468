"""Chooses tasks by what rollouts of their kind have earned lately: neither almost nothing nor almost everything."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from hermes_lab.config.schema import RewardConfig
from hermes_lab.envs.atropos.config import ENOUGH, EnvSection
from hermes_lab.envs.signal import NO_RULE, UNTOLD
from hermes_lab.envs.window import in_window
from hermes_lab.knowledge import Knowledge
from hermes_lab.rewards import earned_share
from hermes_lab.types import Episode, Task


class _Group(NamedTuple):
    kind: str
    shares: tuple[float, ...]


def kind_of(task: Task, knowledge: Knowledge) -> str:
    """The family of a task, and what its skills know of its rules."""
    family = str(task.metadata.get("family", task.suite))
    return f"{family}: {knowledge.label or (UNTOLD if task.triggers else NO_RULE)}"


class Kinds:
    """The rate of a kind is the mean share that its rollouts earned of what solving can earn, in the last
    `env.memory_groups` groups of any kind. A reward in [0, 1] with mean m has a variance of at most m (1 - m)."""

    def __init__(self, env: EnvSection, reward: RewardConfig) -> None:
        self._env = env
        self._reward = reward
        self._groups: deque[_Group] = deque(maxlen=env.memory_groups)

    def saw(self, kind: str, episodes: Sequence[Episode]) -> None:
        """Takes the rollouts of a group."""
        shares = [earned_share(self._reward, each.reward) for each in episodes if each.reward]
        self._groups.append(_Group(kind, tuple(share for share in shares if share is not None)))

    def wanted(self, kind: str) -> bool:
        """Whether to play a task of this kind. A kind that was left out is played again once its groups have left the
        last `env.memory_groups`."""
        if not self._env.has_window:
            return True
        rates = {each: self.rate(each) for each in {kind, *(group.kind for group in self._groups)}}
        return kind in in_window(rates, self._env.min_success, self._env.max_success)

    def rate(self, kind: str) -> float | None:
        """The rate of a kind; None after fewer than `ENOUGH` rollouts."""
        shares = [share for group in self._groups if group.kind == kind for share in group.shares]
        return sum(shares) / len(shares) if len(shares) >= ENOUGH else None
