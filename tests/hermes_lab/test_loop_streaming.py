"""The agent loop tells replies while they come, if it has a listener; without one it never asks for a stream."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from fakes.openai_server import FakeOpenAIServer, Reply, function_call
from fakes.small_episode import SCHEMA, Sum

from hermes_lab.agent.loop import Agent
from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.config.schema import AgentConfig, ModelConfig
from hermes_lab.errors import ModelError
from hermes_lab.models import endpoint
from hermes_lab.models.remote import open_endpoints
from hermes_lab.models.scripted import ScriptedModel
from hermes_lab.protocols import Delta, ModelClient
from hermes_lab.tools.given import given_tool
from hermes_lab.tools.registry import ToolContext
from hermes_lab.tools.toolbox import Toolbox
from hermes_lab.types import Message, ToolCall, Trajectory

pytestmark = pytest.mark.anyio
ADD = '{"name": "add", "arguments": {"by": 1}}'
SCRIPTS: dict[str, list[str | Reply]] = {
    "native": [
        Reply("I add.", tool_calls=[function_call("a", "add", {"by": 1})], message={"reasoning": "Add?"}),
        Reply("The sum is 1.", message={"reasoning": "Done?"}),
    ],
    "hermes": [
        f"<think>Add?</think>\n\nI add.\n<tool_call>\n{ADD}\n</tool_call>",
        "<think>Done?</think>\n\nThe sum is 1.",
    ],
}


def agent_of(
    model: ModelClient, tool_format: str, on_text: Callable[[Delta], None] | None = None, **config: object
) -> Agent:
    settings = AgentConfig.model_validate({"tool_format": tool_format, "max_seconds": 60, **config})
    tools = (given_tool("add", "Adds to the sum.", SCHEMA, Sum().add),)
    toolbox = Toolbox((), ToolContext(None, None, SandboxConfig()), given=tools)
    return Agent(model, toolbox, settings, [Message("system", "You add.")], on_text=on_text)


async def played(
    script: Sequence[str | Reply], tool_format: str, on_text: Callable[[Delta], None] | None = None, **config: object
) -> tuple[Trajectory, list[dict[str, Any]]]:
    """The episode with this script, and its requests."""
    async with FakeOpenAIServer(script, split=7) as server:
        made = ModelConfig(name="fake", base_url=server.base_url)
        async with open_endpoints(made, [""], tool_format=tool_format, concurrency=1) as (model,):
            agent = agent_of(model, tool_format, on_text, **config)
            stop = await agent.submit("Add 1.")
    return agent.trajectory(stop), server.requests


def joined(deltas: Sequence[Delta]) -> list[tuple[str, str]]:
    """What was told, without the cuts between pieces of the same kind."""
    whole: list[tuple[str, str]] = []
    for kind, text in deltas:
        if whole and whole[-1][0] == kind:
            whole[-1] = (kind, whole[-1][1] + text)
        else:
            whole.append((kind, text))
    return whole


@pytest.mark.parametrize("tool_format", SCRIPTS)
async def test_an_episode_is_the_same_with_and_without_a_listener(tool_format: str) -> None:
    deltas: list[Delta] = []
    alone, requests = await played(SCRIPTS[tool_format], tool_format)
    told, streamed = await played(SCRIPTS[tool_format], tool_format, deltas.append)
    said = [[(m.role, m.content, m.tool_calls, m.reasoning) for m in then.messages] for then in (told, alone)]
    assert said[0] == said[1]
    assert (told.usage, told.final_response) == (alone.usage, "The sum is 1.")
    assert joined(deltas) == [
        ("reasoning", "Add?"),
        ("text", "I add."),
        ("reasoning", "Done?"),
        ("text", "The sum is 1."),
    ]
    assert len(deltas) > 20
    more = {"stream": True, "stream_options": {"include_usage": True}}
    assert streamed == [request | more for request in requests]


@pytest.mark.parametrize("tool_format", SCRIPTS)
async def test_without_a_listener_no_request_asks_for_a_stream(tool_format: str) -> None:
    _, requests = await played(SCRIPTS[tool_format], tool_format)
    assert len(requests) == 2
    assert not any("stream" in name for request in requests for name in request)


@pytest.mark.parametrize("tool_format", SCRIPTS)
async def test_a_model_that_cannot_stream_tells_each_reply_whole(tool_format: str) -> None:
    deltas: list[Delta] = []

    def policy(messages: Sequence[Message]) -> Message:
        if messages[-1].content == "Add 1.":
            return Message("assistant", "I add.", (ToolCall("a", "add", {"by": 1}),))
        return Message("assistant", "<think>Done?</think>The sum is 1.")

    agent = agent_of(ScriptedModel(policy, tool_format=tool_format), tool_format, deltas.append)
    assert await agent.submit("Add 1.") == "answered"
    assert deltas[0] == Delta("text", "I add.")
    assert deltas[-1] == Delta("text", "The sum is 1.")


async def test_a_bare_call_in_the_text_format_is_taken_back() -> None:
    deltas: list[Delta] = []
    call = f"```json\n{ADD}\n```"
    told, _ = await played([f"I add.\n{call}", "The sum is 1."], "hermes", deltas.append)
    assert told.final_response == "The sum is 1."
    assert joined(deltas) == [("text", f"I add.\n{call}"), ("restart", ""), ("text", "I add.The sum is 1.")]


async def test_an_answer_in_json_stays_an_answer() -> None:
    deltas: list[Delta] = []
    text = 'Like this:\n{"name": "Ann", "arguments": {}}\nAs you see.'
    await played([text], "hermes", deltas.append)
    assert joined(deltas) == [("text", text)]


async def test_what_a_prompt_that_does_not_fit_has_told_is_taken_back() -> None:
    begun = {"choices": [{"index": 0, "delta": {"content": "Half an"}}]}
    full = {"error": {"message": "This model's maximum context length is 9 tokens.", "code": 400}}
    cut = Reply(pieces=[f"data: {json.dumps(event)}\n\n".encode() for event in (begun, full)])
    deltas: list[Delta] = []
    with pytest.raises(ModelError, match="the prompt does not fit"):
        await played([cut], "native", deltas.append)
    assert deltas == [Delta("text", "Half an"), Delta("restart")]


async def test_a_retry_is_recorded_as_without_a_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_FIRST_WAIT", 0.001)
    deltas: list[Delta] = []
    begun = b'data: {"choices": [{"index": 0, "delta": {"content": "Half an"}}]}\n\n'
    told, _ = await played([Reply(pieces=[begun], torn=True), "Whole."], "native", deltas.append)
    assert [step.retries for step in told.steps] == [1]
    assert joined(deltas) == [("text", "Half an"), ("restart", ""), ("text", "Whole.")]


async def test_a_fork_tells_nothing() -> None:
    deltas: list[Delta] = []
    policy = ScriptedModel(lambda messages: Message("assistant", "Fine."))
    agent = agent_of(policy, "native", deltas.append)
    await agent.submit("Go.")
    fork = agent.fork(Toolbox((), ToolContext(None, None, SandboxConfig())), max_iterations=1)
    await fork.submit("Review.")
    assert deltas == [Delta("text", "Fine.")]
