"""Episodes -> what is posted, or a counted refusal; and what a client does where the line is bad."""

import itertools
import json
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec
import pytest
from aiohttp import web
from fakes.episodes import BRANCH
from fakes.episodes import rollout as fake_rollout
from fakes.openai_server import reserved_port
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.envs.atropos.client import AtroposClient, AtroposError, LostAnswer, NotSent
from hermes_lab.envs.atropos.config import EnvSection
from hermes_lab.envs.atropos.groups import Refused, make_group, scored_data
from hermes_lab.envs.atropos.messages import MASKED, MASKED_LOGPROB, Info, Status
from hermes_lab.envs.atropos.serve import Feeder, capacity, longest
from hermes_lab.envs.atropos.tally import Tally
from hermes_lab.types import (
    Episode,
    EpisodeError,
    Message,
    ModelIdentity,
    SkillUse,
    TaskInfo,
    TokenBranch,
)

ENV = EnvSection(group_size=2)


def rollout(sample: int, reward: float | None, *branches: TokenBranch, adapter: str = "a", steps: int = 1) -> Episode:
    return fake_rollout(
        sample,
        reward,
        *(branches or (BRANCH,)),
        steps=steps,
        messages=(Message("user", "q"), Message("assistant", "a")),
        lane="env",
        task=TaskInfo("d", "train", world=3),
        model=ModelIdentity("vllm", "m", adapter="x", adapter_digest=adapter),
        success=reward == 1.0,
    )


def errored(sample: int) -> Episode:
    error = EpisodeError("model", "away")
    return msgspec.structs.replace(rollout(sample, None), status="errored", error=error, trajectory=None)


@pytest.mark.parametrize(
    ("episodes", "reason"),
    [
        ([rollout(0, 1.0), errored(1)], "the infrastructure failed"),
        ([rollout(0, 1.0)], "the infrastructure failed"),
        ([rollout(0, 1.0), rollout(1, None)], "no reward"),
        ([rollout(0, 1.0), rollout(1, 0.0, steps=0)], "no reply"),
        ([rollout(0, 1.0), rollout(1, 0.0, adapter="b")], "the policy changed in between"),
        ([rollout(0, 1.0), rollout(1, 0.0, TokenBranch((1,) * 9, (1,) * 9, (-1.0,) * 9))], "longer than 8 tokens"),
        ([rollout(0, 1.0), rollout(1, 1.0)], "equal rewards"),
        ([rollout(0, 0.1 + 0.2), rollout(1, 0.3)], "equal rewards"),
    ],
)
def test_what_makes_no_group_is_refused_with_its_reason(episodes: list[Episode], reason: str) -> None:
    assert make_group(episodes, ENV, 8) == Refused(reason)


def test_of_a_rewritten_prompt_one_sequence_is_posted() -> None:
    longer = TokenBranch((7, 8, 9), (0, 1, 1), (0.0, -1.0, -2.0))
    group = make_group([rollout(0, 1.0), rollout(1, 0.0, BRANCH, longer)], ENV, 8)
    assert not isinstance(group, Refused)
    assert (group.samples, group.token_ids) == ((0, 1), (BRANCH.token_ids, longer.token_ids))


branches = st.lists(
    st.tuples(st.integers(0, 150_000), st.sampled_from([0, 1]), st.floats(-50, 0, allow_nan=False)), min_size=1
).filter(lambda tokens_T: any(on for _, on, _ in tokens_T))


@given(st.lists(st.tuples(branches, st.floats(0, 1)), min_size=2, max_size=5, unique_by=lambda row: row[1]))
def test_every_mark_is_the_token_or_masked_and_every_log_probability_is_where_it_is_trained(
    rows: list[tuple[list[tuple[int, int, float]], float]],
) -> None:
    episodes = [
        rollout(sample, reward, TokenBranch(*map(tuple, zip(*((i, m, p if m else 0.0) for i, m, p in T), strict=True))))
        for sample, (T, reward) in enumerate(rows)
    ]
    group = make_group(episodes, EnvSection(group_size=len(rows), drop_equal_scores=False), 10**6)
    assert not isinstance(group, Refused)
    data = scored_data(group, episodes, messages=True)
    assert data.scores == tuple(reward for _, reward in rows)
    assert data.messages == (({"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}),) * len(rows)
    for (tokens, _), ids_T, mask_T, logprobs_T in zip(
        rows, data.tokens, data.masks, data.inference_logprobs, strict=True
    ):
        for (token, on, logprob), sent, mark, sent_logprob in zip(tokens, ids_T, mask_T, logprobs_T, strict=True):
            assert (sent, mark) == (token, token if on else MASKED)
            assert sent_logprob == (logprob if on else MASKED_LOGPROB)
            assert math.isfinite(sent_logprob)


def test_what_the_server_would_drop_is_in_the_overrides() -> None:
    used = SkillUse(knowledge="lane, 0 of 1 rules known")
    episodes = [msgspec.structs.replace(rollout(n, 1.0 - n), skills=used) for n in range(2)]
    group = make_group(episodes, ENV, 8)
    assert not isinstance(group, Refused)
    data = scored_data(group, episodes, messages=False)
    assert data.overrides[1] == {
        "episode": "s|t|env|0|1",
        "policy": "a",
        "success": False,
        "stop_reason": "answered",
        "terms": {"score": 0.0},
    }
    assert data.group_overrides == {
        "kind": "solve",
        "suite": "s",
        "task": "t",
        "split": "train",
        "world": 3,
        "policy": "a",
        "snapshot": "",
        "knowledge": "lane, 0 of 1 rules known",
        "config_digest": "c",
    }
    assert data.messages is None


@pytest.mark.parametrize(
    ("unallocated", "promised", "batches", "groups"),
    [(1.0, None, 3, 6), (1.0, None, 0, 2), (0.5, None, 2, 2), (0.5, 0.25, 2, 3), (0.0, None, 3, 0), (0.01, None, 1, 1)],
)
def test_the_share_of_the_queue(unallocated: float, promised: float | None, batches: int, groups: int) -> None:
    env = EnvSection(group_size=4, min_batch_allocation=promised, max_batches_offpolicy=batches)
    assert capacity(Status(0, 0, unallocated_fraction=unallocated), Info(8, 100), env) == groups


def test_the_shorter_limit_counts_and_none_of_the_trainer_is_none() -> None:
    env = EnvSection(max_token_length=100)
    assert [longest(Info(8, limit), env) for limit in (50, 200, -1)] == [50, 100, 100]


@asynccontextmanager
async def answering(handler: Any) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


def posted(count: int = 1) -> list[Any]:
    episodes = [rollout(0, 1.0, TokenBranch((7,) * 999, (1,) * 999, (-1.0,) * 999)), rollout(1, 0.0)]
    group = make_group(episodes, ENV, 10**6)
    assert not isinstance(group, Refused)
    return [scored_data(group, episodes, messages=True)] * count


async def test_a_group_of_which_the_answer_was_lost_is_not_posted_again() -> None:
    arrived: list[bytes] = []

    async def hang_up(request: web.Request) -> web.Response:
        arrived.append(await request.read())
        request.transport.abort()
        return web.Response()

    async with answering(hang_up) as url, AtroposClient(url, retry_seconds=5, say=print) as client:
        with pytest.raises(LostAnswer):
            await client.post(posted())
    assert len(arrived) == 1


async def test_a_group_is_never_posted_to_the_server_that_comes_back() -> None:
    with reserved_port() as port:
        async with AtroposClient(f"http://127.0.0.1:{port}", retry_seconds=30, say=print) as client:
            with pytest.raises(NotSent):
                await client.post(posted())


async def test_what_a_proxy_says_of_a_server_that_is_away_is_no_answer() -> None:
    statuses = [502, 503, 200]

    async def recover(request: web.Request) -> web.Response:
        return web.json_response({"batch_size": 8, "max_token_len": 9}, status=statuses.pop(0))

    async with answering(recover) as url, AtroposClient(url, retry_seconds=30, say=print) as client:
        assert await client.info() == Info(8, 9)


@pytest.mark.parametrize(("count", "path"), [(1, "/scored_data"), (2, "/scored_data_list")])
async def test_large_groups_are_compressed_and_several_go_together(count: int, path: str) -> None:
    seen: list[tuple[str, str, Any]] = []

    async def take(request: web.Request) -> web.Response:
        body = await request.read()  # aiohttp's server has unpacked it
        seen.append((request.path, request.headers.get("Content-Encoding", ""), json.loads(body)))
        return web.json_response({"status": "received", "groups_processed": count})

    async with answering(take) as url, AtroposClient(url, retry_seconds=5, say=print) as client:
        await client.post(posted(count))
    ((to, encoding, body),) = seen
    assert (to, encoding) == (path, "gzip")
    assert isinstance(body, list) == (count == 2)


async def test_a_url_that_is_none_is_one_line() -> None:
    async with AtroposClient("nowhere", retry_seconds=0, say=print) as client:
        with pytest.raises(AtroposError, match="nowhere: not a URL"):
            await client.info()


class Idle:
    """A source of groups that are never finished."""

    at_once, longest = 1, 0

    def items(self) -> Any:
        return itertools.repeat(None)

    async def make_all(self, item: Any) -> None:
        await anyio.sleep_forever()


async def test_a_step_that_went_back_is_another_server_where_our_number_is_anothers() -> None:
    steps = [7, 7, 3]
    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.path)
        if request.path == "/register-env":
            if seen.count("/register-env") == 2:
                return web.json_response({"status": "success", "env_id": 1, "wandb_name": "x", "num_steps": 1})
            return web.json_response({"status": "success", "env_id": 0, "wandb_name": "x", "starting_step": 7})
        if request.path == "/info":
            return web.json_response({"batch_size": 2, "max_token_len": 9})
        if request.path == "/status-env":
            return web.json_response({"current_step": steps.pop(0) if steps else 3, "queue_size": 0})
        return web.json_response({"status": "success"})

    said: list[str] = []
    async with answering(answer) as url, AtroposClient(url, retry_seconds=5, say=said.append) as client:
        await Feeder(client, Idle(), ENV, Tally(), said.append).run()
    assert seen.count("/register-env") == 2
    assert seen.count("/disconnect-env") == 1  # number 0 may be another's: only number 1 is told
    assert any("went back to 3: registering again" in line for line in said)
