"""The environment's side of the protocol, against atroposlib's own server."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from fakes.ledger_sampler import LedgerSampler
from fakes.openai_server import LOGPROB
from feeding import feeding, until
from trajectory_server import REGISTRATION, RunApi

from hermes_lab.envs.atropos.client import AtroposClient, AtroposError, NotSent
from hermes_lab.envs.atropos.messages import MASKED, MASKED_LOGPROB
from hermes_lab.envs.atropos.source import NothingWorks
from hermes_lab.errors import ConfigError

GROUP = 4


def check_group(group: dict[str, Any]) -> None:
    """What no server checks: lengths, marks, and that what is trained is what was sampled."""
    axes = [group[name] for name in ("tokens", "masks", "inference_logprobs", "messages", "overrides")]
    assert {len(axis) for axis in axes} == {len(group["scores"])} == {GROUP}
    for tokens_T, mask_T, logprobs_T, messages in zip(*axes[:4], strict=True):
        assert len(tokens_T) == len(mask_T) == len(logprobs_T)
        assert all(mark in (MASKED, token) for mark, token in zip(mask_T, tokens_T, strict=True))
        for mark, logprob in zip(mask_T, logprobs_T, strict=True):
            assert logprob == (MASKED_LOGPROB if mark == MASKED else LOGPROB)
        trained = bytes(mark for mark in mask_T if mark != MASKED).decode().split("\0")
        said = [turn["content"] for turn in messages if turn["role"] == "assistant"]
        assert trained == [*said, ""]


async def test_whole_groups_come_out_that_total_the_batch_size(api: RunApi, tmp_path: Path) -> None:
    sampler = LedgerSampler(6)
    async with feeding(api.url, sampler, tmp_path) as fed:

        def train() -> list[list[dict[str, Any]]]:
            return [api.next_batch() for _ in range(2)]

        api.start_trainer(num_steps=2)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fed.feeder.run)
            batches = await anyio.to_thread.run_sync(train)
    assert [sum(len(group["tokens"]) for group in batch) for batch in batches] == [8, 8]
    for group in (group for batch in batches for group in batch):
        check_group(group)
        assert sorted(group["scores"]) == [0.0, 0.0, 1.0, 1.0]
        assert group["group_overrides"]["suite"] == "ledger"
        assert group["group_overrides"]["policy"] == "fake"
        assert [of["episode"].rsplit("|", 1)[1] for of in group["overrides"]] == ["0", "1", "2", "3"]
        assert [of["success"] for of in group["overrides"]] == [score == 1.0 for score in group["scores"]]
    episodes = {of["episode"] for batch in batches for group in batch for of in group["overrides"]}
    assert len(episodes) == 16  # nothing was posted twice
    assert episodes <= {episode.key for episode in fed.kept}
    assert not api.connected()


async def test_every_pass_over_the_suite_has_a_world_of_its_own(tmp_path: Path) -> None:
    async with feeding("http://127.0.0.1:9", LedgerSampler(6), tmp_path, "suite.world=5", "suite.seed=2") as fed:
        items = list(islice(fed.source.items(), 13))
    assert [(item.task.world, item.epoch) for item in items] == [(5, 0)] * 6 + [(6, 1)] * 6 + [(7, 2)]
    assert {item.task.id.split("-")[2] for item in items} == {"s2", "s3", "s4"}


async def test_it_waits_for_the_trainer_and_says_so_once(api: RunApi, tmp_path: Path) -> None:
    async with feeding(api.url, LedgerSampler(6), tmp_path) as fed, fed.running():
        await anyio.sleep(0.5)
        assert not fed.kept  # nothing is sampled for nobody
        assert [line for line in fed.said if "waiting until a trainer registers" in line] == fed.said[-1:]
        await anyio.to_thread.run_sync(lambda: api.start_trainer(num_steps=1))
        assert await anyio.to_thread.run_sync(api.next_batch)


async def test_a_trainer_that_never_starts_ends_it_with_a_line(api: RunApi, tmp_path: Path) -> None:
    async with feeding(api.url, LedgerSampler(6), tmp_path, "env.trainer_seconds=0.3") as fed:
        with pytest.raises(AtroposError, match=r"no trainer registered and asked for a batch within 0.3 s"):
            await fed.feeder.run()


async def test_no_server_ends_it_with_a_line(tmp_path: Path) -> None:
    async with feeding("http://127.0.0.1:9", LedgerSampler(6), tmp_path, "env.retry_seconds=0.3") as fed:
        with pytest.raises(AtroposError, match=r"no Atropos server answers .*start `run-api`"):
            await fed.feeder.run()


async def test_another_server_is_told_from_an_atropos_one(tmp_path: Path) -> None:
    from fakes.openai_server import FakeOpenAIServer

    async with FakeOpenAIServer(["x"]) as other, feeding(other.base_url, LedgerSampler(6), tmp_path) as fed:
        with pytest.raises(AtroposError, match="register-env: rejected with status 404"):
            await fed.feeder.run()


async def test_a_server_that_something_was_posted_to_before_its_trainer_is_named_with_the_remedy(
    new_api: RunApi, tmp_path: Path
) -> None:
    api = new_api
    api.post("/scored_data", {"tokens": [[1]], "masks": [[1]], "scores": [1.0]})
    api.post("/register", REGISTRATION)
    assert api.get("/batch")["status"] == "error"  # the trap: this trainer is not registered
    async with feeding(api.url, LedgerSampler(6), tmp_path) as fed:
        with pytest.raises(AtroposError, match=f"curl {api.url}/reset_data"):
            await fed.feeder.run()
    api.reset()
    api.start_trainer(num_steps=1)
    async with feeding(api.url, LedgerSampler(6), tmp_path) as fed, fed.running():
        assert await anyio.to_thread.run_sync(api.next_batch)


async def test_the_same_after_a_reset_is_named_too(api: RunApi, tmp_path: Path) -> None:
    api.start_trainer()
    api.reset()
    api.post("/scored_data", {"tokens": [[1]], "masks": [[1]], "scores": [1.0]})
    api.post("/register", REGISTRATION)
    api.get("/batch")  # the trap: it is started, but without a batch size
    async with feeding(api.url, LedgerSampler(6), tmp_path) as fed:
        with pytest.raises(AtroposError, match=r"it has no batch size.*reset_data"):
            await fed.feeder.run()


async def test_a_batch_that_groups_never_fill_is_refused(api: RunApi, tmp_path: Path) -> None:
    api.start_trainer(batch_size=6)
    async with feeding(api.url, LedgerSampler(6), tmp_path) as fed:
        with pytest.raises(ConfigError, match="batch of 6 sequences is not a multiple of 4"):
            await fed.feeder.run()
    assert not api.connected()


async def test_it_stops_sampling_where_its_share_of_the_queue_is_full(api: RunApi, tmp_path: Path) -> None:
    api.start_trainer(num_steps=100)
    async with feeding(api.url, LedgerSampler(6), tmp_path, "env.max_batches_offpolicy=1") as fed, fed.running():
        await until(lambda: any("waiting for the trainer" in line for line in fed.said))
        await anyio.sleep(1.0)
        assert fed.tally.groups == 2
        assert len(fed.kept) == 2 * GROUP
        await anyio.to_thread.run_sync(api.next_batch)
        await until(lambda: fed.tally.groups >= 4)
    assert not api.connected()  # told also where it was interrupted


async def test_groups_without_a_difference_are_left_out_and_counted(api: RunApi, tmp_path: Path) -> None:
    api.start_trainer()
    async with feeding(api.url, LedgerSampler(6, hopeless=True), tmp_path) as fed, fed.running():
        await until(lambda: fed.tally.refused["equal rewards"] >= 2)
    assert fed.tally.groups == 0
    assert "refused: equal rewards" in str(fed.tally)
    assert api.get("/status")["queue_size"] == 0


async def test_groups_without_a_difference_are_sent_where_asked_for(api: RunApi, tmp_path: Path) -> None:
    api.start_trainer(num_steps=1)
    sampler = LedgerSampler(6, hopeless=True)
    async with feeding(api.url, sampler, tmp_path, "env.drop_equal_scores=false") as fed, fed.running():
        batch = await anyio.to_thread.run_sync(api.next_batch)
    assert {score for group in batch for score in group["scores"]} == {0.0}


async def test_a_sequence_that_is_too_long_for_the_trainer_refuses_its_group(api: RunApi, tmp_path: Path) -> None:
    api.start_trainer(max_token_len=100)
    async with feeding(api.url, LedgerSampler(6), tmp_path) as fed, fed.running():
        await until(lambda: fed.tally.refused)
    assert list(fed.tally.refused) == ["longer than 100 tokens"]


async def test_errored_rollouts_are_replaced_and_never_posted(api: RunApi, tmp_path: Path) -> None:
    api.start_trainer(num_steps=1)
    sampler = LedgerSampler(6)
    sampler.fail_next = 3
    async with feeding(api.url, sampler, tmp_path) as fed, fed.running():
        batch = await anyio.to_thread.run_sync(api.next_batch)
    errored = {episode.key for episode in fed.kept if episode.status == "errored"}
    posted = {of["episode"] for group in batch for of in group["overrides"]}
    assert fed.tally.errored == len(errored) == 3
    assert len(posted) == 8
    assert not posted & errored


async def test_a_model_that_stops_every_rollout_ends_it_with_its_words(api: RunApi, tmp_path: Path) -> None:
    api.start_trainer()
    sampler = LedgerSampler(6)
    sampler.fail_next = 10_000
    async with feeding(api.url, sampler, tmp_path, "env.refills=0") as fed:
        with pytest.raises(NothingWorks, match=r"every rollout of the last 4 groups errored: model: .*no such thing"):
            await fed.feeder.run()
    assert not api.connected()


async def test_a_server_that_is_killed_under_way_is_waited_for_and_registered_with_again(
    api: RunApi, tmp_path: Path
) -> None:
    api.start_trainer(num_steps=3)
    async with feeding(api.url, LedgerSampler(6), tmp_path, "env.retry_seconds=30") as fed, fed.running():
        await anyio.to_thread.run_sync(api.next_batch)
        api.kill()
        await anyio.sleep(0.5)
        await anyio.to_thread.run_sync(api.start)
        # The feeder finds a server that knows nobody: it posts nothing, or the trainer could not register.
        await anyio.sleep(0.7)
        assert api.get("/latest_example")["tokens"] == []
        await anyio.to_thread.run_sync(lambda: api.start_trainer(num_steps=1))
        batch = await anyio.to_thread.run_sync(api.next_batch)
    for group in batch:
        check_group(group)
    assert any("registering again" in line for line in fed.said)


async def test_a_server_that_is_killed_for_good_ends_it_with_a_line(api: RunApi, tmp_path: Path) -> None:
    api.start_trainer(num_steps=100)
    async with feeding(api.url, LedgerSampler(6), tmp_path, "env.retry_seconds=0.5") as fed:
        failures: list[AtroposError] = []

        async def run() -> None:
            try:
                await fed.feeder.run()
            except AtroposError as error:
                failures.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await anyio.to_thread.run_sync(api.next_batch)
            api.kill()
    assert "no Atropos server answers" in str(failures[0])


async def test_groups_that_could_not_be_posted_are_counted_at_the_end(
    api: RunApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept_back: list[int] = []

    async def post(_: AtroposClient, groups: Sequence[Any]) -> None:
        kept_back.append(len(groups))
        raise NotSent("the server is down")

    monkeypatch.setattr(AtroposClient, "post", post)
    api.start_trainer(num_steps=100)
    async with feeding(api.url, LedgerSampler(6), tmp_path) as fed, fed.running():
        await until(lambda: bool(kept_back))
    assert fed.tally.refused["not posted before the end"] >= kept_back[-1] > 0
    assert "0 groups (0 sequences) sent, refused: not posted before the end" in str(fed.tally)


async def test_a_server_that_buffers_a_group_ends_it_with_a_line(api: RunApi, tmp_path: Path) -> None:
    api.start_trainer(num_steps=100)
    # Of an environment that did not see a reset: it still posts as number 0, and its groups are of 8.
    api.post("/scored_data", {"tokens": [[1]] * 8, "masks": [[1]] * 8, "scores": [1.0] * 8, "env_id": 0})
    async with feeding(api.url, LedgerSampler(6), tmp_path) as fed:
        with pytest.raises(AtroposError, match=r"buffered a group of 4 .'buffered'.*environment 0"):
            await fed.feeder.run()
    assert fed.tally.groups == 0
    assert not api.connected()
