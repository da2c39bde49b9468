"""Several servers of one model: least load, a server of one's own for a rollout, and one that is sick."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest
from fakes.openai_server import FakeOpenAIServer, Reply, reserved_port
from fakes.training import bare_adapter

from hermes_lab.config.schema import ModelConfig
from hermes_lab.errors import ConfigError, ModelError
from hermes_lab.models import fleet, open_again, open_model
from hermes_lab.models.refusals import NoReply, Refused
from hermes_lab.protocols import ModelClient, TaskAwareModel
from hermes_lab.types import Message, Task

HI = [Message("user", "hi")]
TASK = Task(id="t", suite="s", prompt="p")


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(fleet, "backoff", lambda tried: 0.0)


@asynccontextmanager
async def serving(*servers: FakeOpenAIServer, **config: Any) -> AsyncIterator[tuple[TaskAwareModel, list[str]]]:
    """The model over the servers, and what was said of them."""
    said: list[str] = []
    async with AsyncExitStack() as stack:
        for server in servers:
            await stack.enter_async_context(server)
        made = ModelConfig(name="fake", base_url=", ".join(server.base_url for server in servers), **config)
        opened = open_model(made, tool_format="hermes", log=Path("unused"), concurrency=8, say=said.append)
        model = await stack.enter_async_context(opened)
        assert isinstance(model, TaskAwareModel)
        yield model, said


async def reply(model: ModelClient) -> str:
    return (await model.generate(HI, ())).message.content


@pytest.mark.anyio
async def test_rollouts_that_begin_together_are_spread_evenly() -> None:
    servers = [FakeOpenAIServer(["x"], gather=4), FakeOpenAIServer(["x"], gather=4)]
    async with serving(*servers) as (model, _), anyio.create_task_group() as rollouts:
        for _ in range(8):
            rollouts.start_soon(reply, model.for_task(TASK))
    assert [server.most_at_once for server in servers] == [4, 4]


@pytest.mark.anyio
async def test_a_rollout_stays_where_its_prefix_is_cached() -> None:
    async with serving(FakeOpenAIServer(["a"]), FakeOpenAIServer(["b"]), FakeOpenAIServer(["c"])) as (model, _):
        for _ in range(10):
            rollout = model.for_task(TASK)
            assert len({await reply(rollout) for _ in range(5)}) == 1


@pytest.mark.anyio
async def test_the_identity_names_all_servers() -> None:
    servers = [FakeOpenAIServer(["x"]), FakeOpenAIServer(["x"])]
    async with serving(*servers) as (model, _):
        assert model.identity.base_url == f"{servers[0].base_url}, {servers[1].base_url}"
        assert model.for_task(TASK).identity == model.identity


@pytest.mark.anyio
async def test_a_server_that_fails_is_taken_out_and_comes_back() -> None:
    sick = FakeOpenAIServer(["first", Reply(status=503), "again"])
    sound = FakeOpenAIServer(["other"])
    async with serving(sick, sound) as (model, said):
        rollout = model.for_task(TASK)
        while await reply(rollout) != "first":
            rollout = model.for_task(TASK)
        assert await reply(rollout) == "other"
        assert [line.split(" ")[0] for line in said] == [sick.base_url]
        with anyio.fail_after(60):
            while len(said) < 2:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        assert said[1] == f"{sick.base_url} is back"
        assert await reply(rollout) == "other"  # it stays
        assert "again" in {await reply(model.for_task(TASK)) for _ in range(40)}


@pytest.mark.anyio
async def test_no_request_goes_to_a_server_that_is_out() -> None:
    with reserved_port() as port:
        gone, sound = FakeOpenAIServer(["x"], port=port), FakeOpenAIServer(["y"])
        async with serving(gone, sound) as (model, said):
            await gone.__aexit__()
            assert {await reply(model.for_task(TASK)) for _ in range(20)} == {"y"}
            assert len(said) == 1
            await anyio.sleep(0.1)
            assert len(said) == 1


@pytest.mark.anyio
async def test_a_server_that_is_down_when_models_are_opened_joins_later() -> None:
    with reserved_port() as port:
        late, sound = FakeOpenAIServer(["late"], port=port), FakeOpenAIServer(["sound"])
        late.base_url = f"http://127.0.0.1:{port}/v1"
        async with sound:
            config = ModelConfig(name="fake", base_url=f"{late.base_url},{sound.base_url}", max_retries=0)
            said: list[str] = []
            opened = open_model(config, tool_format="hermes", log=Path(), concurrency=8, say=said.append)
            async with opened as model:
                assert isinstance(model, TaskAwareModel)
                assert {await reply(model.for_task(TASK)) for _ in range(10)} == {"sound"}
                assert [line.split(" ")[0] for line in said] == [late.base_url]
                async with late:
                    with anyio.fail_after(60):
                        while len(said) < 2:  # noqa: ASYNC110
                            await anyio.sleep(0.01)
                    assert "late" in {await reply(model.for_task(TASK)) for _ in range(40)}


@pytest.mark.anyio
async def test_none_of_them_there_is_an_error_of_the_endpoint() -> None:
    with reserved_port() as one, reserved_port() as other:
        urls = ",".join(f"http://127.0.0.1:{port}/v1" for port in (one, other))
        with pytest.raises(ModelError, match="cannot connect"):
            async with open_model(
                ModelConfig(name="fake", base_url=urls), tool_format="hermes", log=Path(), concurrency=1, say=print
            ):
                pass


@pytest.mark.anyio
async def test_a_server_that_is_another_one_now_is_taken_out_by_its_first_refusal() -> None:
    changed, sound = FakeOpenAIServer(["x"]), FakeOpenAIServer(["y"])
    async with serving(changed, sound) as (model, said):
        changed.script, changed.models = [Reply(status=404, body={"error": "no such model"})], ["another"]
        assert {await reply(model.for_task(TASK)) for _ in range(20)} == {"y"}
        assert [line.split(" ")[0] for line in said] == [changed.base_url]
        asked = [request["messages"][-1]["content"] for request in changed.requests]
        assert len(asked) - asked.count("Say hello.") == 1  # that tries whether the name is served


@pytest.mark.anyio
async def test_a_slow_reply_is_asked_for_once_and_takes_no_server_out() -> None:
    slow = [Reply(delay=60)]
    servers = [FakeOpenAIServer(slow), FakeOpenAIServer(slow)]
    async with serving(*servers, timeout=2) as (model, said):
        with pytest.raises(NoReply, match="no reply within"):
            await reply(model.for_task(TASK))
    assert said == []
    assert sum(len(server.requests) for server in servers) == 1


@pytest.mark.anyio
async def test_another_process_opens_the_same_weights_and_keeps_them_there(tmp_path: Path) -> None:
    folder = bare_adapter(tmp_path)
    servers = [FakeOpenAIServer(["one"]), FakeOpenAIServer(["other"])]
    async with serving(*servers, adapter=str(folder)) as (model, _):
        urls = ",".join(server.base_url for server in servers)
        config = ModelConfig(name="fake", base_url=urls, max_retries=0)
        again = partial(open_again, config, tool_format="hermes", concurrency=8, say=print)
        async with again(["not/on/this/machine"], [model.identity]) as (elsewhere,):
            assert elsewhere.identity == model.identity
            assert await reply(elsewhere) in ("one", "other")
        servers[0].adapters.clear()  # it is restarted, and this process is the one that notices
        async with again([str(folder)], [model.identity]) as (here,):
            assert list(servers[0].adapters) == [model.identity.adapter]
            assert here.identity == model.identity


@pytest.mark.anyio
async def test_a_server_that_comes_back_with_another_model_stays_out() -> None:
    changed, sound = FakeOpenAIServer(["x"]), FakeOpenAIServer(["y"])
    async with serving(changed, sound) as (model, said):
        changed.script, changed.models = [Reply(status=503)], ["another"]
        assert {await reply(model.for_task(TASK)) for _ in range(20)} == {"y"}
        await anyio.sleep(0.2)  # in which it is looked at again and again
        assert await reply(model.for_task(TASK)) == "y"
        assert [line.split(" ")[0] for line in said] == [changed.base_url]


@pytest.mark.anyio
async def test_a_server_that_lost_its_adapter_gets_it_again(tmp_path: Path) -> None:
    folder = bare_adapter(tmp_path)
    one, other = FakeOpenAIServer(["one"]), FakeOpenAIServer(["other"])
    async with serving(one, other, adapter=str(folder)) as (model, said):
        assert list(one.adapters) == list(other.adapters) == [model.identity.adapter]
        one.adapters.clear()  # as after a restart
        with anyio.fail_after(60):
            while not one.adapters:
                await anyio.sleep(1.01)  # it is looked at once a second
                for _ in range(8):
                    await reply(model.for_task(TASK))
        assert "no longer" in said[0]


@pytest.mark.anyio
async def test_a_refusal_is_of_the_request_and_of_no_server() -> None:
    refused = Reply(status=400, body={"error": {"message": "no such field"}})
    servers = [FakeOpenAIServer([refused]), FakeOpenAIServer([refused])]
    async with serving(*servers) as (model, said):
        with pytest.raises(Refused, match="no such field"):
            await reply(model.for_task(TASK))
    assert said == []
    assert sum(len(server.requests) for server in servers) == 1


@pytest.mark.anyio
async def test_a_busy_server_is_left_for_another_but_not_taken_out() -> None:
    async with serving(FakeOpenAIServer([Reply(status=429)]), FakeOpenAIServer(["free"])) as (model, said):
        assert {await reply(model.for_task(TASK)) for _ in range(10)} == {"free"}
        assert said == []


@pytest.mark.anyio
async def test_all_are_tried_again_and_then_the_failure_is_told() -> None:
    servers = [FakeOpenAIServer([Reply(status=500)]), FakeOpenAIServer([Reply(status=500)])]
    async with serving(*servers, max_retries=2) as (model, _):
        with pytest.raises(ModelError, match="HTTP 500"):
            await reply(model.for_task(TASK))
    assert [len(server.requests) for server in servers] == [3, 3]


@pytest.mark.anyio
async def test_servers_of_unlike_weights_are_refused(tmp_path: Path) -> None:
    one, other = FakeOpenAIServer(["x"], models=["fake"]), FakeOpenAIServer(["x"], models=["another"])
    with pytest.raises(ConfigError, match="serves another, not 'fake'"):
        async with serving(one, other):
            pass


@pytest.mark.anyio
async def test_a_server_twice_is_refused() -> None:
    async with FakeOpenAIServer(["x"]) as server:
        config = ModelConfig(name="fake", base_url=f"{server.base_url},{server.base_url}")
        with pytest.raises(ConfigError, match="twice"):
            async with open_model(config, tool_format="hermes", log=Path(), concurrency=1, say=lambda line: None):
                pass


@pytest.mark.anyio
async def test_a_server_that_hangs_at_the_start_is_taken_out_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "_ANSWER_SECONDS", 0.5)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    hanging = f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}/v1"
    said: list[str] = []
    async with listener, FakeOpenAIServer(["x"]) as sound:
        made = ModelConfig(name="fake", base_url=f"{hanging},{sound.base_url}", timeout=600)
        opened = open_model(made, tool_format="hermes", log=Path("unused"), concurrency=8, say=said.append)
        with anyio.fail_after(60):
            async with opened as model:
                assert await reply(model) == "x"
    assert said[0] == f"{hanging} is taken out: {hanging} did not answer within 0.5 s"
