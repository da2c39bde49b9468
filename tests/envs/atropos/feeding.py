"""A feeder with a fake model, for tests."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
from fakes.ledger_sampler import LedgerSampler
from fakes.openai_server import FakeOpenAIServer

from hermes_lab.envs.atropos.client import AtroposClient
from hermes_lab.envs.atropos.config import EnvConfig, load_env_config
from hermes_lab.envs.atropos.serve import Feeder
from hermes_lab.envs.atropos.source import GroupSource
from hermes_lab.envs.atropos.tally import Tally
from hermes_lab.envs.rollouts import open_rollouts
from hermes_lab.types import Episode

COUNT = 6


def config_of(base_url: str, *overrides: str) -> EnvConfig:
    return load_env_config(
        [
            "configs/env/atropos.yaml",
            f"model.base_url={base_url}",
            "model.name=fake",
            "model.max_retries=0",
            f"suite.count={COUNT}",
            "run.concurrency=4",
            "env.group_size=4",
            "env.max_token_length=100000",
            "env.retry_seconds=60",
            "env.trainer_seconds=300",
            *overrides,
        ]
    )


@dataclass
class Feeding:
    """What a test looks at."""

    feeder: Feeder
    source: GroupSource
    tally: Tally
    said: list[str]
    kept: list[Episode]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The feeder at work; at the end of the block it is interrupted."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.feeder.run)
            yield
            tasks.cancel_scope.cancel()


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(600):
        while not condition():  # noqa: ASYNC110  (nothing there tells of it)
            await anyio.sleep(0.02)


@asynccontextmanager
async def feeding(url: str, sampler: LedgerSampler, folder: Path, *overrides: str) -> AsyncIterator[Feeding]:
    said: list[str] = []
    kept: list[Episode] = []

    async def keep(episode: Episode) -> None:
        kept.append(episode)

    async with FakeOpenAIServer(sampler) as model:
        config = config_of(model.base_url, *overrides)
        client = AtroposClient(url, retry_seconds=config.env.retry_seconds, say=said.append, pause=0.05)
        opened = open_rollouts(config.rollouts, log=folder / "server.log", say=said.append)
        async with client, opened as rollouts:
            tally = Tally()
            source = GroupSource(config, rollouts, tally, keep)
            yield Feeding(Feeder(client, source, config.env, tally, said.append), source, tally, said, kept)
