"""`process` and `check` draw a task when there is room for its rollouts, so that what was measured decides."""

from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import anyio
from fakes.episodes import BRANCH, rollout
from fakes.ledger_sampler import LedgerSampler
from feeding import feeding, until
from msgspec.structs import replace
from trajectory_server import RunApi

from hermes_lab.envs.atropos.process import roll_out
from hermes_lab.envs.atropos.source import Made
from hermes_lab.envs.atropos.tally import Tally
from hermes_lab.types import Episode, Reward, Task


class Slow:
    """A source whose groups take a while."""

    size, longest, at_once = 1, 1, 3

    def __init__(self) -> None:
        self.ahead: list[int] = []
        self.finished = 0

    def items(self) -> Iterator[int]:
        for number in count():
            self.ahead.append(number - self.finished)
            yield number

    async def make_all(self, item: int) -> list[Made]:
        for _ in range(item % 3 + 1):
            await anyio.lowlevel.checkpoint()
        self.finished += 1
        return []


async def test_an_item_is_drawn_when_there_is_room_for_it() -> None:
    source = Slow()
    assert await roll_out(source, Tally(), 20, lambda _: None) == []
    assert source.finished == len(source.ahead) == 20
    assert max(source.ahead) == source.at_once - 1


async def test_a_kind_that_turns_out_hopeless_is_left_out_from_then_on(tmp_path: Path) -> None:
    window = ("env.min_success=0.2", "env.max_success=0.8", "env.knowledge=none", "suite.options={ruled: 1, plain: 1}")
    async with feeding("http://127.0.0.1:9", LedgerSampler(1), tmp_path, *window, "suite.count=40") as fed:
        played = Counter[bool]()

        async def group(task: Task, size: int, *, round_: int, first: int) -> tuple[Episode, ...]:
            """Half of the rollouts of a task without a rule are rewarded, and none of another."""
            await anyio.lowlevel.checkpoint()
            played[bool(task.triggers)] += 1
            rewards = [0.0 if task.triggers else float(n % 2) for n in range(first, first + size)]
            return tuple(recovered(rollout(n, reward, BRANCH), reward) for n, reward in enumerate(rewards, first))

        fed.source._rollouts.group = group  # type: ignore[method-assign]
        await roll_out(fed.source, fed.tally, 16, lambda _: None)
    hopeless = played[True]
    assert 4 <= hopeless <= 4 + fed.source.at_once
    assert played[False] == 16 - hopeless
    assert fed.tally.left_out["ledger: a hidden rule"] > 0


async def test_serve_tries_a_kind_again_once_it_is_forgotten_and_keeps_it_if_the_policy_has_moved(
    api: RunApi, tmp_path: Path
) -> None:
    window = ("env.min_success=0.2", "env.max_success=0.8", "env.knowledge=none", "suite.options={ruled: 1, plain: 1}")
    more = ("suite.count=40", "env.memory_groups=8", "env.max_batches_offpolicy=100", "run.concurrency=1")
    api.start_trainer(num_steps=1000)
    async with feeding(api.url, LedgerSampler(1), tmp_path, *window, *more) as fed:
        played: list[bool] = []

        async def group(task: Task, size: int, *, round_: int, first: int) -> tuple[Episode, ...]:
            """The first 16 groups are by a policy that solves no task with a rule, the later ones by a better one."""
            await anyio.lowlevel.checkpoint()
            played.append(bool(task.triggers))
            hopeless = played[-1] and len(played) <= 16
            rewards = [0.0 if hopeless else float(n % 2) for n in range(size)]
            named = {"task_id": f"t{len(played)}"}
            return tuple(recovered(rollout(n, reward, BRANCH, **named), reward) for n, reward in enumerate(rewards))

        fed.source._rollouts.group = group  # type: ignore[method-assign]
        async with fed.running():
            await until(lambda: len(played) >= 48)
    before = [place for place, ruled in enumerate(played[:16]) if ruled]
    assert 4 <= len(before) <= 8
    assert "FFFF" in "".join("FT"[ruled] for ruled in played)  # it was left out for a while
    assert sum(played[-16:]) >= 4  # and is played again


def recovered(episode: Episode, reward: float) -> Episode:
    """The episode with the reward of the shipped environment."""
    return replace(episode, reward=Reward(reward, {"recovered": reward}))
