"""The packaged model in a real vLLM: token fidelity, an adapter, and a clean end."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from lora import random_adapter

from hermes_lab.agent.tokens import TokenTrace
from hermes_lab.config.schema import ModelConfig, SamplingConfig
from hermes_lab.errors import ContextFull, ModelError
from hermes_lab.models.client import EndpointClient
from hermes_lab.models.hermes_format import render_tools
from hermes_lab.models.remote import open_endpoints
from hermes_lab.models.server import VllmServer
from hermes_lab.protocols import Delta
from hermes_lab.types import Generation, Message
from hermes_lab.types.trajectory import ToolFormat

pytestmark = [pytest.mark.real, pytest.mark.anyio]

ASK = [Message("system", "You are brief."), Message("user", "Name a colour.")]
TOOL = {
    "type": "function",
    "function": {
        "name": "terminal",
        "description": "Runs a command & gives its output, é included.",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
    },
}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def client_of(
    server: VllmServer, tool_format: ToolFormat, *, adapter: str = "", max_tokens: int = 32
) -> AsyncIterator[EndpointClient]:
    config = ModelConfig(
        base_url=server.base_url,
        adapter=adapter,
        token_ids=True,
        sampling=SamplingConfig(max_tokens=max_tokens, temperature=0.0),
    )
    async with open_endpoints(config, [adapter], tool_format=tool_format, concurrency=4) as (client,):
        yield client


async def test_the_tokens_of_two_turns_are_one_unbroken_sequence(server: VllmServer) -> None:
    async with client_of(server, "hermes", max_tokens=96) as client:
        first = await client.generate(ASK, ())
        second = await client.generate([*ASK, first.message, Message("user", "Another one.")], ())
    assert first.finish_reason == "stop"
    for reply in (first, second):
        assert len(reply.token_ids) == len(reply.logprobs) == reply.usage.completion_tokens > 1
        assert all(logprob <= 0.0 for logprob in reply.logprobs)
    so_far = first.prompt_token_ids + first.token_ids
    assert second.prompt_token_ids[: len(so_far)] == so_far
    trace = TokenTrace()
    trace.add(first)
    trace.add(second)
    assert len(trace.branches()) == 1


async def test_both_tool_formats_are_the_same_prompt(server: VllmServer) -> None:
    async with client_of(server, "native") as native, client_of(server, "hermes") as hermes:
        structured = await native.generate(ASK, [TOOL])
        system = Message("system", f"{ASK[0].content}\n\n{render_tools([TOOL])}")
        text = await hermes.generate([system, ASK[1]], ())
    assert structured.prompt_token_ids == text.prompt_token_ids
    assert structured.token_ids == text.token_ids


@pytest.mark.parametrize("tool_format", ["native", "hermes"])
async def test_a_streamed_reply_is_the_whole_one(server: VllmServer, tool_format: ToolFormat) -> None:
    tools = [TOOL] if tool_format == "native" else []
    deltas: list[Delta] = []
    async with client_of(server, tool_format) as client:
        whole = await client.generate(ASK, tools)
        told = await client.stream(ASK, tools, deltas.append)
    assert (told.message, told.finish_reason, told.usage) == (whole.message, whole.finish_reason, whole.usage)
    assert (told.prompt_token_ids, told.token_ids) == (whole.prompt_token_ids, whole.token_ids)
    assert told.logprobs == pytest.approx(whole.logprobs, abs=0.01)
    assert "".join(delta.text for delta in deltas) == whole.message.content.strip() != ""
    assert len(deltas) > 1


async def test_a_prompt_without_room_for_the_reply_is_context_full(server: VllmServer) -> None:
    async with client_of(server, "hermes") as client:
        with pytest.raises(ContextFull):
            await client.generate([Message("user", "word " * 4090)], ())


async def test_each_adapter_version_answers_under_its_own_name(
    server: VllmServer, packaged: Path, tmp_path: Path
) -> None:
    pytest.importorskip("peft")
    base = await _tokens(server)
    names, replies = [], []
    for version in (1, 2):
        folder = tmp_path / f"v{version}" / "versions"
        random_adapter(packaged, folder, seed=version)
        names.append((await server.load_adapter(folder)).name)
        replies.append(await _tokens(server, adapter=names[-1]))
    assert len(set(names)) == 2
    assert base not in replies
    assert replies[0] != replies[1]
    shutil.rmtree(tmp_path / "v2")
    assert await _tokens(server, adapter=names[0]) == replies[0]
    for name in names:  # the next tests make the same adapters in other folders
        await server.unload_adapter(name)


async def test_an_adapter_that_is_unloaded_under_way_is_no_answer(
    server: VllmServer, packaged: Path, tmp_path: Path
) -> None:
    pytest.importorskip("peft")
    for version in (1, 2):
        random_adapter(packaged, tmp_path / f"v{version}" / "unloaded", seed=version)
    async with client_of(server, "hermes", adapter=str(tmp_path / "v1" / "unloaded")) as first:
        before = await first.generate(ASK, ())
        async with client_of(server, "hermes", adapter=str(tmp_path / "v2" / "unloaded")) as second:
            other = await second.generate(ASK, ())
            assert (await first.generate(ASK, ())).token_ids == before.token_ids != other.token_ids
            await server.unload_adapter(first.identity.adapter)
            with pytest.raises(ModelError, match=r"does not exist|no longer served"):
                await first.generate(ASK, ())
            assert (await second.generate(ASK, ())).token_ids == other.token_ids
        await server.unload_adapter(second.identity.adapter)


async def test_one_server_answers_under_several_weights_at_once(
    server: VllmServer, packaged: Path, tmp_path: Path
) -> None:
    """The adapters take every slot: by itself, vLLM's CPU build would answer the base model's request from the last."""
    pytest.importorskip("peft")
    folders = [str(random_adapter(packaged, tmp_path / f"tuned-{n}", seed=n, scale=8.0)) for n in range(4)]
    config = ModelConfig(
        base_url=server.base_url, token_ids=True, sampling=SamplingConfig(max_tokens=4, temperature=0.0)
    )
    replies: dict[str, Generation] = {}
    async with open_endpoints(config, ["", *folders], tool_format="hermes", concurrency=5) as clients:

        async def ask(client: EndpointClient) -> None:
            replies[client.identity.adapter] = await client.generate(ASK, ())

        for client in clients:
            await ask(client)
        alone = dict(replies)
        for _ in range(4):
            async with anyio.create_task_group() as group:
                for client in clients:
                    group.start_soon(ask, client)
            assert replies[""].logprobs == pytest.approx(alone[""].logprobs, abs=0.3)
    bare, *tuned = alone
    assert bare == ""
    assert len({reply.token_ids for reply in alone.values()}) == 5
    for name in tuned:
        await server.unload_adapter(name)


async def _tokens(server: VllmServer, *, adapter: str = "") -> tuple[int, ...]:
    async with client_of(server, "hermes", adapter=adapter) as client:
        return (await client.generate(ASK, ())).token_ids
