"""The packaged model in a real vLLM -> `run-api` -> a trainer: what arrives is what was sampled."""

import math
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

sys.path.append(str(Path(__file__).parents[1] / "envs" / "atropos"))

from feeding import config_of
from trajectory_server import RunApi, require_run_api, run_api

from hermes_lab.envs.atropos.client import AtroposClient
from hermes_lab.envs.atropos.messages import MASKED, MASKED_LOGPROB
from hermes_lab.envs.atropos.serve import Feeder
from hermes_lab.envs.atropos.source import GroupSource
from hermes_lab.envs.atropos.tally import Tally
from hermes_lab.envs.rollouts import open_rollouts
from hermes_lab.types import Episode

pytestmark = pytest.mark.real

OVERRIDES = (
    "model.name=packaged",
    "model.sampling.max_tokens=48",
    "agent.max_iterations=2",
    "env.group_size=2",
    "env.drop_equal_scores=false",  # untrained, it solves nothing
)


@pytest.fixture
def api(tmp_path: Path) -> Iterator[RunApi]:
    require_run_api()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with run_api(port, tmp_path) as server:
        yield server


async def test_the_tokens_that_arrive_are_those_of_the_replies(
    api: RunApi, vllm_url: str, packaged: Path, tmp_path: Path
) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(packaged)
    config = config_of(vllm_url, *OVERRIDES)
    episodes: dict[str, Episode] = {}

    async def keep(episode: Episode) -> None:
        episodes[episode.key] = episode

    api.start_trainer(batch_size=4, num_steps=1)
    async with (
        open_rollouts(config.rollouts, log=tmp_path / "server.log", say=print) as rollouts,
        AtroposClient(api.url, retry_seconds=5, say=print) as client,
        anyio.create_task_group() as tasks,
    ):
        tally = Tally()
        source = GroupSource(config, rollouts, tally, keep)
        tasks.start_soon(Feeder(client, source, config.env, tally, print).run)
        batch = await anyio.to_thread.run_sync(lambda: api.next_batch(600))
        tasks.cancel_scope.cancel()
    assert [len(group["tokens"]) for group in batch] == [2, 2]
    for group in batch:
        axes = zip(*(group[name] for name in ("tokens", "masks", "inference_logprobs", "overrides")), strict=True)
        for tokens_T, mask_T, logprobs_T, about in axes:
            assert len(tokens_T) == len(mask_T) == len(logprobs_T)
            assert all(mark in (MASKED, token) for mark, token in zip(mask_T, tokens_T, strict=True))
            for mark, logprob in zip(mask_T, logprobs_T, strict=True):
                assert logprob == MASKED_LOGPROB if mark == MASKED else -math.inf < logprob <= 0.0
            trajectory = episodes[about["episode"]].trajectory
            assert trajectory
            # Of a rollout that the server tokenised otherwise than it was sampled, the sequence with the most replies.
            longest = max(reversed(trajectory.branches), key=lambda branch: sum(branch.mask))
            assert tuple(tokens_T) == longest.token_ids
            said = "".join(turn.content for turn in trajectory.messages if turn.role == "assistant")
            sampled = tokenizer.decode([mark for mark in mask_T if mark != MASKED], skip_special_tokens=True)
            assert _letters(sampled) in _letters(said)
            if len(trajectory.branches) == 1:
                assert _letters(sampled) == _letters(said)
                assert sum(mark != MASKED for mark in mask_T) == trajectory.usage.completion_tokens


def _letters(text: str) -> str:
    """Servers strip white space around replies."""
    return "".join(text.split())
