"""Compression: what stays, what a failed summary loses (nothing), and that every prompt can be told from the log."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.agent.compress import Context
from hermes_lab.agent.loop import Agent
from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.config.schema import AgentConfig
from hermes_lab.errors import ContextFull, ModelError
from hermes_lab.models.scripted import ScriptedModel
from hermes_lab.sandbox import open_sandbox
from hermes_lab.tools.registry import ToolContext
from hermes_lab.tools.toolbox import Toolbox
from hermes_lab.transcript import SUMMARISE, SUMMARY, visible
from hermes_lab.types import Generation, Message, ToolCall, Usage

pytestmark = pytest.mark.anyio


class Narrow:
    """A model with a context of `room` characters, which works for `turns` turns and then answers: a test double.

    `asked` holds every prompt of the agent's own; `summary` is what a request for a summary gets.
    """

    def __init__(self, turns: int, *, room: int = 10**9, summary: str | Exception = "I echoed.") -> None:
        self.identity = ScriptedModel(lambda m: m[-1]).identity
        self.turns, self.room, self.summary = turns, room, summary
        self.asked: list[list[Message]] = []
        self.summaries = 0

    async def generate(self, messages: Sequence[Message], tools: Any) -> Generation:
        size = sum(len(message.content) for message in messages)
        if messages[0].content == SUMMARISE:
            self.summaries += 1
            if isinstance(self.summary, Exception):
                raise self.summary
            return Generation(Message("assistant", self.summary), usage=Usage(size // 4, 5))
        if size > self.room:
            raise ContextFull("too long")
        self.asked.append(list(messages))
        usage = Usage(size // 4, 10)
        if len(self.asked) > self.turns:
            return Generation(Message("assistant", "Done."), usage=usage)
        call = ToolCall(f"c{len(self.asked)}", "terminal", {"command": "printf '%0400d' 0"})
        return Generation(Message("assistant", "", tool_calls=(call,)), usage=usage)

    async def aclose(self) -> None: ...


async def work(model: Narrow, **config: Any) -> tuple[Agent, str]:
    settings = AgentConfig.model_validate({"toolsets": ["terminal"], "max_repeats": 0, **config})
    async with open_sandbox(SandboxConfig()) as sandbox:
        toolbox = Toolbox(settings.toolsets, ToolContext(sandbox, None, SandboxConfig()))
        agent = Agent(model, toolbox, settings, [Message("system", "You work.")])
        return agent, await agent.submit("Echo.")


def calls_match_results(messages: Sequence[Message]) -> bool:
    """Every result follows its call, and every call but those of the last message has its result."""
    called = [call.id for m in messages[:-1] for call in m.tool_calls]
    answered = [m.tool_call_id for m in messages if m.role == "tool"]
    return called == answered


@pytest.mark.parametrize("config", [{"context_tokens": 800}, {}], ids=["by size", "on refusal"])
async def test_a_long_conversation_goes_on_from_a_summary_of_its_middle(config: dict[str, int]) -> None:
    model = Narrow(14, room=10**9 if config else 3000)
    _, stop = await work(model, **config)
    assert stop == "answered"
    assert model.summaries >= 2
    for prompt in model.asked:
        assert [m.content for m in prompt[:2]] == ["You work.", "Echo."]
        assert calls_match_results(prompt)
        assert sum(m.content.startswith(SUMMARY) for m in prompt) <= 1
    assert model.asked[-1][2].content == SUMMARY + "I echoed."
    assert max(sum(len(m.content) for m in prompt) for prompt in model.asked) < 5000


async def test_every_prompt_can_be_told_from_the_trajectory() -> None:
    model = Narrow(14)
    agent, stop = await work(model, context_tokens=800)
    trajectory = agent.trajectory(stop)
    assert len(trajectory.compressions) >= 2
    for step, prompt in zip(trajectory.steps, model.asked, strict=True):
        before = [c for c in trajectory.compressions if c.at < step.message]
        assert list(visible(trajectory.messages[: step.message], before)) == prompt
    assert trajectory.usage.completion_tokens == 15 * 10 + 5 * len(trajectory.compressions)


@pytest.mark.parametrize("summary", [ModelError("gone"), ContextFull("too long"), "  "])
async def test_a_failed_summary_loses_nothing(summary: str | Exception) -> None:
    model = Narrow(9, summary=summary)
    agent, stop = await work(model, context_tokens=800)
    assert stop == "answered"
    assert 1 <= model.summaries < 9
    assert agent.trajectory(stop).compressions == ()
    assert model.asked[-1] == agent.messages[:-1]


async def test_a_conversation_that_cannot_be_made_to_fit_ends_as_context_full() -> None:
    agent, stop = await work(Narrow(9, room=1500, summary=ModelError("gone")))
    assert stop == "context_full"
    assert agent.trajectory(stop).final_response is None


async def test_compression_can_be_turned_off() -> None:
    model = Narrow(9, room=3000)
    _, stop = await work(model, compress_at=0)
    assert (stop, model.summaries) == ("context_full", 0)


async def test_without_a_count_of_the_prompt_the_messages_are_estimated() -> None:
    messages = [Message("system", "You work."), Message("user", "x" * 4000)]
    context = Context(messages, AgentConfig(context_tokens=800))
    context.record_usage(Usage(0, 5))
    assert context.tokens() > 900
    assert context.is_large()
    context.record_usage(Usage(100, 5))
    assert context.tokens() == 105


async def test_compression_on_demand() -> None:
    model = Narrow(3)
    agent, _ = await work(model)
    assert await agent.compress()
    assert len(agent.context.visible()) < len(agent.messages)
    assert not await agent.compress(), "there is no middle left"


@given(st.integers(2, 12), st.integers(200, 2000))
async def test_whatever_the_size_no_call_is_parted_from_its_result(turns: int, tokens: int) -> None:
    model = Narrow(turns)
    await work(model, context_tokens=tokens)
    assert all(calls_match_results(prompt) for prompt in model.asked)
