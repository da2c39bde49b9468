"""An endless source of groups from a suite's tasks."""

from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from typing import Any, NamedTuple, Protocol

from hermes_lab.envs.atropos.config import EnvConfig
from hermes_lab.envs.atropos.groups import Refused, make_group, scored_data
from hermes_lab.envs.atropos.kinds import Kinds, kind_of
from hermes_lab.envs.atropos.messages import ScoredData
from hermes_lab.envs.atropos.tally import Tally
from hermes_lab.envs.rollouts import Rollouts
from hermes_lab.envs.signal import rate_rollouts
from hermes_lab.errors import HermesLabError
from hermes_lab.types import Episode, ScoredGroup, Task

GIVE_UP = 4
"""Consecutive groups without a finished rollout after which to give up."""

Keep = Callable[[Episode], Awaitable[None]]


class NothingWorks(HermesLabError):
    """Every rollout errors."""


class Item(NamedTuple):
    """A task, the epoch of the suite, and the task's kind; task and epoch are unique."""

    task: Task
    epoch: int
    kind: str


class Made(NamedTuple):
    """A group in both formats."""

    group: ScoredGroup
    data: ScoredData


class Source(Protocol):
    """An endless source of groups of `size` sequences, none longer than `longest` tokens."""

    size: int
    longest: int

    @property
    def at_once(self) -> int:
        """Items in progress that keep `run.concurrency` rollouts busy."""
        ...

    def items(self) -> Iterator[Any]:
        """What to make groups of."""
        ...

    async def make_all(self, item: Any) -> list[Made]:
        """All groups of an item that are not refused. Raises `NothingWorks`."""
        ...


class GroupSource:
    """Makes groups with the batch runner's rollouts, and passes every episode to `keep`."""

    def __init__(self, config: EnvConfig, rollouts: Rollouts, tally: Tally, keep: Keep) -> None:
        self.size = config.env.group_size
        self.longest = config.env.max_token_length
        self._config = config
        self._rollouts = rollouts
        self._tally = tally
        self._keep = keep
        self._kinds = Kinds(config.env, config.reward)
        self._without = 0

    @property
    def at_once(self) -> int:
        """Concurrent groups needed to keep `run.concurrency` rollouts busy."""
        return max(1, -(-self._config.run.concurrency // self.size))

    def items(self) -> Iterator[Item]:
        """Endless: `suite.count` tasks of `suite.split`, then new ones of the next world, or the same ones if the suite
        is finite.

        Tasks of kinds outside of `env.min_success` to `env.max_success` are left out, but not all of a pass.
        """
        for epoch in count():
            begun, before = False, self._tally.left_out.copy()
            for item in self._pass(epoch):
                if self._kinds.wanted(item.kind):
                    begun = True
                    yield item
                else:
                    self._tally.left_out[item.kind] += 1
            if not begun:  # so nothing is left out
                self._tally.left_out = before
                yield from self._pass(epoch)

    def _pass(self, epoch: int) -> Iterator[Item]:
        suite = self._config.suite
        seed, world = suite.seed + epoch, suite.world + epoch
        for task in self._rollouts.tasks(split=suite.split, count=suite.count, seed=seed, world=world):
            yield Item(task, epoch, kind_of(task, self._rollouts.knowledge.of(task)))

    async def make(self, item: Item) -> Made | None:
        """The group of a task, or None if it was refused (and counted). Raises `NothingWorks`."""
        episodes = await self._whole_group(item)
        self._without = 0 if episodes else self._without + 1
        if self._without >= GIVE_UP:
            raise NothingWorks(f"every rollout of the last {GIVE_UP} groups errored: {self._tally.last_error}")
        self._kinds.saw(item.kind, episodes)
        group = make_group(episodes, self._config.env, self.longest)
        self._tally.judge(rate_rollouts(episodes, group.reason if isinstance(group, Refused) else ""))
        if isinstance(group, Refused):
            return None
        return Made(group, scored_data(group, episodes, messages=self._config.env.messages))

    async def make_all(self, item: Item) -> list[Made]:
        """All groups of an item that are not refused."""
        made = await self.make(item)
        return [made] if made else []

    async def _whole_group(self, item: Item) -> list[Episode]:
        """`size` rollouts, with replacements for errored ones."""
        whole: list[Episode] = []
        begun, allowed = 0, self.size + self._config.env.refills
        while len(whole) < self.size and begun < allowed:
            missing = min(self.size - len(whole), allowed - begun)
            episodes = await self._rollouts.group(item.task, missing, round_=item.epoch, first=begun)
            begun += missing
            self._tally.saw(episodes)
            for episode in episodes:
                await self._keep(episode)
            whole += [episode for episode in episodes if episode.status == "ok"]
        return whole
