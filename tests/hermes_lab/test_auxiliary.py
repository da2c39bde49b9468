"""A cheaper model may write the summaries; what it costs is counted at its own price."""

from collections.abc import Sequence
from typing import Any

import pytest

from hermes_lab.agent.loop import Agent, Summariser, cost_of
from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.config.schema import AgentConfig, ModelConfig, PriceConfig, RunConfig
from hermes_lab.config.sources import load_config
from hermes_lab.errors import ConfigError, ModelError
from hermes_lab.models import open_auxiliary
from hermes_lab.tools.registry import ToolContext
from hermes_lab.tools.toolbox import Toolbox
from hermes_lab.types import Generation, Message, ModelIdentity, Usage

CALL = '<tool_call>\n{"name": "terminal", "arguments": {}}\n</tool_call>'


class Counting:
    """A model that gives one reply, and keeps what it was asked."""

    def __init__(
        self,
        reply: str,
        finish_reason: str = "stop",
        usage: Usage = Usage(1_000_000, 0),  # noqa: B008
    ) -> None:
        self.identity = ModelIdentity("openai", reply)
        self.asked: list[Sequence[Message]] = []
        self._reply, self._finish, self._usage = reply, finish_reason, usage

    async def generate(self, messages: Sequence[Message], tools: Any) -> Generation:
        self.asked.append(messages)
        return Generation(Message("assistant", self._reply), self._finish, usage=self._usage)

    async def aclose(self) -> None: ...


def long_talk() -> list[Message]:
    turns = [Message(role, f"{n} " * 200) for n in range(8) for role in ("user", "assistant")]
    return [Message("system", "You work."), *turns]


def agent_with(model: Counting, cheap: Counting, price: float = 1.0, **limits: float) -> Agent:
    toolbox = Toolbox((), ToolContext(None, None, SandboxConfig()))  # type: ignore[arg-type]
    summariser = Summariser(cheap, PriceConfig(prompt=price))
    config = AgentConfig.model_validate({"context_tokens": 500, **limits})
    return Agent(model, toolbox, config, long_talk(), PriceConfig(prompt=10.0), summariser=summariser)


@pytest.mark.anyio
async def test_the_auxiliary_model_writes_the_summary_at_its_own_price() -> None:
    model, cheap = Counting("Done."), Counting("A summary.")
    agent = agent_with(model, cheap)
    assert await agent.submit("Go on.") == "answered"
    assert (len(model.asked), len(cheap.asked)) == (1, 1)
    assert any("A summary." in message.content for message in model.asked[0])
    assert agent.cost == 11.0


@pytest.mark.anyio
@pytest.mark.parametrize(
    "cheap", [Counting("<think>hm"), Counting("Half a", "length"), Counting("No.", "refusal"), Counting(CALL)]
)
async def test_a_summary_that_is_no_answer_is_none(cheap: Counting) -> None:
    agent = agent_with(Counting("Done."), cheap)
    assert not await agent.compress()
    assert agent.context.compressions == []
    assert agent.cost == 1.0, "it was paid for"


UNCOUNTED = Usage(uncounted=1)


@pytest.mark.anyio
@pytest.mark.parametrize("answer", ["A summary.", "<think>hm"])
async def test_summaries_that_nothing_counts_are_counted_as_such(answer: str) -> None:
    agent = agent_with(Counting("Done."), Counting(answer, usage=UNCOUNTED))
    assert await agent.submit("Go on.") == "answered"
    assert await agent.summarise(long_talk()) in ("A summary.", "")
    assert agent.trajectory("answered").usage == Usage(1_000_000, 0, uncounted=2)


@pytest.mark.anyio
async def test_a_limit_that_summaries_do_not_count_for_is_an_error() -> None:
    with pytest.raises(ModelError, match=r"so agent\.max_cost cannot be enforced"):
        await agent_with(Counting("Done."), Counting("A summary.", usage=UNCOUNTED), max_cost=99).submit("Go on.")
    free = agent_with(Counting("Done."), Counting("A summary.", usage=UNCOUNTED), price=0, max_cost=99)
    assert await free.submit("Go on.") == "answered"


@pytest.mark.anyio
async def test_a_tool_cannot_hide_that_a_limit_is_not_enforced() -> None:
    agent = agent_with(Counting("Done."), Counting("A summary.", usage=UNCOUNTED), max_tokens=9_000_000, compress_at=0)
    with pytest.raises(ModelError):
        await agent.summarise(long_talk())
    with pytest.raises(ModelError, match=r"so agent\.max_tokens cannot be enforced"):
        await agent.submit("Go on.")


@pytest.mark.anyio
async def test_a_summary_may_quote_a_call() -> None:
    agent = agent_with(Counting("Done."), Counting(f"The agent ran this and found nothing:\n{CALL}"))
    assert await agent.compress()


def test_cached_tokens_have_a_price_of_their_own() -> None:
    usage = Usage(3_000_000, 1_000_000, cached_tokens=1_000_000, cache_write_tokens=1_000_000)
    assert cost_of(usage, PriceConfig(prompt=10.0, completion=2.0)) == 32.0
    assert cost_of(usage, PriceConfig(prompt=10.0, completion=2.0, cached=1.0, cache_write=12.5)) == 25.5


def test_an_auxiliary_server_is_not_started() -> None:
    with pytest.raises(ConfigError, match="auxiliary: `vllm` is only supported for `model`"):
        load_config(["auxiliary.provider=vllm"])


@pytest.mark.anyio
async def test_the_auxiliary_model_is_opened_with_the_run() -> None:
    async with open_auxiliary(RunConfig(), say=print) as none:
        assert none is None
    wrong = ModelConfig(name="x", base_url="nonsense")
    with pytest.raises(ConfigError, match=r"^auxiliary\.base_url: 'nonsense' is not an http"):
        async with open_auxiliary(RunConfig(auxiliary=wrong), say=print):
            pass
    scripted = ModelConfig(provider="scripted", name="hermes_lab.tasks.learner:noop")
    async with open_auxiliary(RunConfig(auxiliary=scripted), say=print) as model:
        assert model is not None
        assert model.identity.name == "tasks.learner:noop"
