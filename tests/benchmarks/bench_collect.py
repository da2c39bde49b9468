"""Collection for training: how busy 16 rollouts at once keep vLLM, and how long a swap of adapters takes.

    python tests/benchmarks/bench_collect.py

The packaged model, the ledger suite, token ids and log-probabilities asked for, as GRPO collects. vLLM is busy while a
chat request is in flight. The collection time is from the first rollout's begin to the last one's end.
"""

import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import anyio

sys.path.insert(0, str(Path(__file__).parents[1] / "real"))
from lora import random_adapter

AT_ONCE, TASKS, GROUP = 16, 8, 4
SWAPS = 3


class Interval(NamedTuple):
    """Of one request, in seconds of the monotonic clock."""

    begin: float
    end: float


class Watched:
    """A model client that notes when its requests are in flight."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.identity = client.identity
        self.requests: list[Interval] = []

    async def generate(self, messages: Sequence[Any], tools: Sequence[Mapping[str, Any]]) -> Any:
        begin = time.monotonic()
        try:
            return await self._client.generate(messages, tools)
        finally:
            self.requests.append(Interval(begin, time.monotonic()))

    async def aclose(self) -> None:
        """The client's owner closes it."""


def busy_seconds(requests: Sequence[Interval]) -> float:
    """The length of the union of the intervals."""
    total, until = 0.0, 0.0
    for begin, end in sorted(requests):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


async def main() -> None:
    """Prints both measurements."""
    from hermes_lab.config.sources import load_config
    from hermes_lab.models.adapters import load_adapter, unload_adapter
    from hermes_lab.models.endpoint import Endpoint
    from hermes_lab.models.server import VllmServer
    from hermes_lab.models.weights import resolve

    weights = resolve("packaged", print)
    with tempfile.TemporaryDirectory() as base:
        folders = [random_adapter(weights, Path(base) / f"v{n}" / "policy", seed=n) for n in range(SWAPS + 1)]
        config = load_config(["model.name=packaged"])
        server = VllmServer(weights, config.model.server, name="packaged", log=Path(base) / "vllm.log", say=print)
        async with server:
            async with Endpoint(server.base_url) as endpoint:
                before = await load_adapter(endpoint, folders[0])
                for folder in folders[1:]:
                    began = time.monotonic()
                    after = await load_adapter(endpoint, folder)
                    loaded = time.monotonic()
                    await unload_adapter(endpoint, before.name)
                    done = time.monotonic()
                    print(f"swap: load {loaded - began:.3f} s, unload {done - loaded:.3f} s, both {done - began:.3f} s")
                    before = after
                await unload_adapter(endpoint, before.name)
            await collect(server.base_url)


async def collect(base_url: str) -> None:
    """Rolls out as GRPO does, and prints how busy the server was."""
    from hermes_lab.config.sources import load_config
    from hermes_lab.envs.rollouts import Rollouts, open_rollouts

    config = load_config(
        [
            f"model.base_url={base_url}",
            "model.name=packaged",
            "model.token_ids=true",
            "model.sampling={temperature: 1.0, max_tokens: 48}",
            "agent={prompt: compact, tool_format: hermes, toolsets: [terminal], max_iterations: 4}",
            "suite.name=ledger",
            f"run.concurrency={AT_ONCE}",
        ]
    )
    async with open_rollouts(config, log=Path("unused"), say=print) as opened:
        watched = Watched(opened.context.model)
        rollouts = Rollouts(replace(opened.context, model=watched), opened.knowledge)
        tasks = rollouts.tasks(split="train", count=TASKS, seed=0, world=0)
        episodes: list[Any] = []

        async def group(task: Any) -> None:
            episodes.extend(await rollouts.group(task, GROUP))

        began, load = time.monotonic(), os.getloadavg()[0]
        async with anyio.create_task_group() as groups:
            for task in tasks:
                groups.start_soon(group, task)
        seconds = time.monotonic() - began
    failed = [episode.error for episode in episodes if episode.error]
    assert not failed, f"{len(failed)} of {len(episodes)} failed: {failed[0]}"
    tokens = sum(episode.trajectory.usage.completion_tokens for episode in episodes)
    busy = busy_seconds(watched.requests)
    waiting = sum(end - begin for begin, end in watched.requests)
    print(
        f"collection: {len(episodes)} rollouts, {len(watched.requests)} requests, {tokens} tokens sampled in "
        f"{seconds:.1f} s; vLLM busy {100 * busy / seconds:.1f} % of it, with {waiting / seconds:.1f} requests on "
        f"average (load of the machine at the beginning: {load:.1f})"
    )


if __name__ == "__main__":
    anyio.run(main)
