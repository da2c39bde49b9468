"""The agent loop: what ends it, what it logs, and what it never reports as an answer."""

from collections.abc import AsyncIterator, Sequence

import anyio
import pytest

from hermes_lab.agent.loop import Agent
from hermes_lab.agent.review import REVIEW_REQUEST, REVIEW_TOOLS
from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.config.schema import AgentConfig, PriceConfig
from hermes_lab.errors import ContextFull, ModelError, NoRoomForReply, PromptTooLong, ToolError
from hermes_lab.models.scripted import ScriptedModel
from hermes_lab.protocols import ModelClient, Sandbox
from hermes_lab.sandbox import open_sandbox
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library
from hermes_lab.skills.session import SkillSession
from hermes_lab.tools.registry import ToolContext
from hermes_lab.tools.toolbox import Toolbox
from hermes_lab.transcript import CONCLUDE
from hermes_lab.types import Generation, Message, Recorded, ToolCall, ToolResult, Usage

pytestmark = pytest.mark.anyio


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with open_sandbox(SandboxConfig()) as box:
        yield box


def say(text: str, *commands: str) -> Message:
    calls = tuple(ToolCall(f"c{i}", "terminal", {"command": c}) for i, c in enumerate(commands))
    return Message(role="assistant", content=text, tool_calls=calls)


def in_turn(*replies: Message):
    """A policy that gives these replies one after another, the last one for ever."""

    def policy(messages: Sequence[Message]) -> Message:
        said = sum(message.role == "assistant" for message in messages)
        return replies[min(said, len(replies) - 1)]

    return policy


def agent(sandbox: Sandbox, *replies: Message, **config: object) -> Agent:
    settings = AgentConfig.model_validate({"toolsets": ["terminal"], **config})
    toolbox = Toolbox(settings.toolsets, ToolContext(sandbox, None, SandboxConfig()))
    model = ScriptedModel(in_turn(*replies), tool_format=settings.tool_format)
    return Agent(model, toolbox, settings, [Message("system", "You work.")])


@pytest.mark.parametrize("tool_format", ["native", "hermes"])
async def test_tools_run_until_the_model_answers(sandbox: Sandbox, tool_format: str) -> None:
    a = agent(sandbox, say("", "echo one > f", "cat f"), say("It says one."), tool_format=tool_format)
    assert await a.submit("Write and read.") == "answered"
    trajectory = a.trajectory("answered")
    results = [r for m in trajectory.messages for r in m.results]
    assert [r.ok for r in results] == [True, True]
    assert "one" in results[1].content
    assert trajectory.final_response == "It says one."
    assert len(trajectory.steps) == 2


async def test_in_the_hermes_format_calls_and_results_stand_in_the_text(sandbox: Sandbox) -> None:
    a = agent(sandbox, say("Now.", "echo hi"), say("Done."), tool_format="hermes")
    await a.submit("Go.")
    call, result = a.messages[2], a.messages[3]
    assert call.content == (
        'Now.\n<tool_call>\n{"name": "terminal", "arguments": {"command": "echo hi"}}\n</tool_call>'
    )
    assert result.role == "user"
    assert result.content == f"<tool_response>\n{result.results[0].content}\n</tool_response>"


async def test_the_budget_ends_with_one_grace_call(sandbox: Sandbox) -> None:
    a = agent(sandbox, say("", "true"), say("", "true"), say("I had to stop."), max_iterations=2)
    assert await a.submit("Go.") == "max_iterations"
    assert [m.content for m in a.messages if m.role == "user"] == ["Go.", CONCLUDE]
    assert a.trajectory("max_iterations").final_response == "I had to stop."


@pytest.mark.parametrize(
    ("budget", "config"),
    [("max_tokens", {"max_tokens": 1000}), ("max_cost", {"max_cost": 0.01}), ("max_seconds", {"max_seconds": 3})],
)
async def test_after_every_budget_calls_are_answered_and_the_model_may_conclude(
    sandbox: Sandbox, budget: str, config: dict[str, float]
) -> None:
    settings = AgentConfig.model_validate({"toolsets": ["terminal"], **config})
    toolbox = Toolbox(settings.toolsets, ToolContext(sandbox, None, SandboxConfig()))
    model = Concluding("sleep 60" if budget == "max_seconds" else "touch f")
    a = Agent(model, toolbox, settings, [], PriceConfig(prompt=10.0, completion=10.0))
    assert await a.submit("Go.") == budget
    called, answered, concluding = a.messages[1:4]
    assert [r.call_id for r in answered.results] == [c.id for c in called.tool_calls]
    assert "error" in answered.content
    assert answered.results[0].executed == (budget == "max_seconds")
    assert concluding.content == CONCLUDE
    assert a.trajectory(budget).final_response == "This far."
    with pytest.raises(ToolError):
        await sandbox.read("f")


class Concluding:
    """A model that calls a tool, for 1,200 tokens, until it is told to conclude: a test double."""

    def __init__(self, command: str) -> None:
        self.command = command
        self.identity = ScriptedModel(in_turn(say("x"))).identity

    async def generate(self, messages: Sequence[Message], tools: object) -> Generation:
        concludes = messages[-1].content == CONCLUDE
        return Generation(say("This far.") if concludes else say("", self.command), usage=Usage(600, 600))

    async def aclose(self) -> None: ...


async def test_a_grace_call_that_still_asks_for_tools_is_no_answer(sandbox: Sandbox) -> None:
    a = agent(sandbox, say("", "true"), max_iterations=1)
    stop = await a.submit("Go.")
    assert a.trajectory(stop).final_response is None


@pytest.mark.parametrize(
    "text",
    ['<tool_call>\n{"name": "terminal", "arguments": {"command": "echo 42"}}\n</tool_call>', "[TOOL_CALLS]terminal{}"],
)
async def test_a_grace_call_with_a_call_that_nothing_reads_is_no_answer(sandbox: Sandbox, text: str) -> None:
    a = agent(sandbox, say("", "true"), say(text), max_iterations=1)
    assert a.trajectory(await a.submit("Go.")).final_response is None


@pytest.mark.parametrize(("prompt", "answer"), [("Put it in <answer> tags.", "<answer>4</answer>"), ("How many?", "4")])
async def test_answer_tags_stay_where_the_task_asks_for_them(sandbox: Sandbox, prompt: str, answer: str) -> None:
    a = agent(sandbox, say("<think>2 and 2</think>\n\n<answer>4</answer>"))
    assert a.trajectory(await a.submit(prompt)).final_response == answer


async def test_malformed_calls_go_back_to_the_model_and_are_not_executed(sandbox: Sandbox) -> None:
    broken = Message("assistant", '<tool_call>\n{"name": "terminal", "arguments": {"command": "touch f"\n</tool_call>')
    a = agent(sandbox, broken, say("", "ls"), say("Empty."), tool_format="hermes")
    assert await a.submit("Go.") == "answered"
    first, second = (r for m in a.messages for r in m.results)
    assert not first.executed
    assert "error" in first.content
    assert '"output": ""' in second.content


async def test_a_second_submission_goes_on_in_the_same_conversation(sandbox: Sandbox) -> None:
    a = agent(sandbox, say("First."), say("Second."))
    await a.submit("Go.")
    await a.submit("Rejected.")
    assert [m.content for m in a.messages] == ["You work.", "Go.", "First.", "Rejected.", "Second."]


class Endings:
    """A model that ends in one way: a test double for what a server can do."""

    def __init__(self, how: str) -> None:
        self.how = how
        self.seconds = 3.2
        self.identity = ScriptedModel(in_turn(say("x"))).identity

    async def generate(self, messages: Sequence[Message], tools: object) -> Generation:
        if self.how == "context":
            if messages[-1].role == "assistant" or len(messages) > 2:
                raise ContextFull("too long")
            return Generation(say("", "true"))
        if self.how == "slow tool":
            return Generation(say("", "sleep 60"))
        if self.how == "slow model":
            await anyio.sleep(self.seconds)
            self.seconds = 0.3
            return Generation(say("", "true"))
        if self.how == "length":
            return Generation(Message("assistant", "I was about to"), finish_reason="length")
        if self.how == "costly":
            return Generation(say("", "true"), usage=Usage(600, 600))
        return Generation(Message("assistant", "  "))

    async def aclose(self) -> None: ...


@pytest.mark.parametrize(
    ("how", "stop"),
    [
        ("context", "context_full"),
        ("slow tool", "max_seconds"),
        ("slow model", "max_seconds"),
        ("length", "length"),
        ("costly", "max_tokens"),
        ("blank", "empty"),
    ],
)
async def test_every_ending_has_its_name_and_only_an_answer_is_a_final_response(
    sandbox: Sandbox, how: str, stop: str
) -> None:
    seconds = 0.2 if stop == "max_seconds" else 600
    config = AgentConfig(toolsets=("terminal",), max_tokens=1000, max_seconds=seconds)
    toolbox = Toolbox(config.toolsets, ToolContext(sandbox, None, SandboxConfig()))
    a = Agent(Endings(how), toolbox, config, [])
    assert (ended := await a.submit("Go.")) == stop
    assert a.trajectory(ended).final_response is None


async def test_the_clock_never_ends_a_model_call(sandbox: Sandbox) -> None:
    """A server that hangs is not the agent's failure: its reply, or the client's own error, is waited for."""
    config = AgentConfig(toolsets=("terminal",), max_seconds=3)
    toolbox = Toolbox(config.toolsets, ToolContext(sandbox, None, SandboxConfig()))
    a = Agent(Endings("slow model"), toolbox, config, [])
    await a.submit("Go.")
    assert [m.role for m in a.messages][:2] == ["user", "assistant"]


async def test_a_first_prompt_that_does_not_fit_is_a_failure_of_the_setup_not_of_the_agent(sandbox: Sandbox) -> None:
    config = AgentConfig(toolsets=("terminal",))
    toolbox = Toolbox(config.toolsets, ToolContext(sandbox, None, SandboxConfig()))
    a = Agent(Endings("context"), toolbox, config, [Message("system", "x"), Message("user", "y")])
    with pytest.raises(ModelError, match="the prompt does not fit the model"):
        await a.submit("Go.")


async def test_a_reply_that_leaves_no_room_for_the_first_prompt_is_not_called_a_prompt_that_is_too_long(
    sandbox: Sandbox,
) -> None:
    class Greedy(Endings):
        async def generate(self, messages: Sequence[Message], tools: object) -> Generation:
            if any(message.role == "assistant" for message in messages):
                raise NoRoomForReply("a reply leaves no room")
            return Generation(say("", "true"))

    config = AgentConfig(toolsets=("terminal",))
    toolbox = Toolbox(config.toolsets, ToolContext(sandbox, None, SandboxConfig()))
    a = Agent(Greedy(""), toolbox, config, [Message("assistant", "Hello.")])
    with pytest.raises(PromptTooLong, match=r"^a reply leaves no room$"):
        await a.submit("Go.")
    later = Agent(Greedy(""), toolbox, config, [])
    assert await later.submit("Go.") == "context_full"
    assert len(later.steps) == 1


async def test_a_review_may_use_skill_tools_alone_and_keeps_the_prompt(sandbox: Sandbox) -> None:
    a = agent(sandbox, say("Done."), say("", "touch f"), say("Nothing to save."))
    await a.submit("Go.")
    toolbox = Toolbox(("terminal", "skills"), ToolContext(sandbox, None, SandboxConfig()))
    fork = a.fork(toolbox.allow(REVIEW_TOOLS), max_iterations=3)
    stop = await fork.submit(REVIEW_REQUEST)
    (refused,) = (r for m in fork.messages for r in m.results)
    assert not refused.executed
    assert fork.messages[: len(a.messages)] == a.messages
    assert [m.role for m in fork.trajectory(stop, since=len(a.messages)).messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


def looks(*turns: Sequence[tuple[str, dict[str, str]]]) -> list[Message]:
    """Replies that call these tools, and then one that answers."""
    calls = [tuple(ToolCall(f"c{n}", name, args) for n, (name, args) in enumerate(turn)) for turn in turns]
    return [*(Message("assistant", "", each) for each in calls), say("Done.")]


def with_skills(sandbox: Sandbox, model: ModelClient, **config: object) -> tuple[Agent, SkillSession]:
    skills = [skill_format.parse(skill_format.render(name, "How", "Do it.")) for name in ("first", "second")]
    session = SkillSession(Library(skills), origin="foreground", episode="e", model="m")
    settings = AgentConfig.model_validate({"toolsets": ["terminal", "skills"], **config})
    toolbox = Toolbox(settings.toolsets, ToolContext(sandbox, session, SandboxConfig()))
    return Agent(model, toolbox, settings, [Message("system", "You work.")]), session


async def test_a_skill_is_loaded_once_its_text_reached_the_model(sandbox: Sandbox) -> None:
    first, second = ("skill_view", {"name": "first"}), ("skill_view", {"name": "second"})
    replies = looks([first], [second, ("terminal", {"command": "sleep 60"})])
    a, session = with_skills(sandbox, ScriptedModel(in_turn(*replies)), max_seconds=5)
    assert await a.submit("Go.") == "max_seconds"
    assert session.loaded == ["first"]  # the second result was thrown away with its turn


async def test_a_skill_whose_text_did_not_fit_was_not_loaded(sandbox: Sandbox) -> None:
    class Small(Endings):
        async def generate(self, messages: Sequence[Message], tools: object) -> Generation:
            turn = sum(message.role == "assistant" for message in messages)
            if turn == 2:
                raise ContextFull("too long")
            call = ToolCall(f"c{turn}", "skill_view", {"name": ("first", "second")[turn]})
            return Generation(Message("assistant", "", (call,)))

    a, session = with_skills(sandbox, Small(""))
    assert await a.submit("Go.") == "context_full"
    assert session.loaded == ["first"]


async def test_a_replay_has_loaded_what_the_run_had(sandbox: Sandbox) -> None:
    """The recorded answers reach the model, whatever the tool answers now."""
    first, second = (ToolCall("c0", "skill_view", {"name": name}) for name in ("first", "second"))
    shown = ToolResult("c0", "skill_view", '{"name": "second", "content": "Do it."}')
    stopped = ToolResult("c0", "skill_view", '{"error": "stopped: the time limit was reached"}', ok=False)

    class Recording(Endings):
        async def generate(self, messages: Sequence[Message], tools: object) -> Generation:
            turn = sum(message.role == "assistant" for message in messages)
            if turn == 2:
                return Generation(say("Done."))
            call, answer = [(first, stopped), (second, shown)][turn]
            return Generation(Message("assistant", "", (call,)), then=Recorded((answer,), ""))

    a, session = with_skills(sandbox, Recording(""))
    assert await a.submit("Go.") == "answered"
    assert session.loaded == ["second"]


async def test_calls_of_the_grace_reply_are_answered_so_that_the_conversation_can_go_on(sandbox: Sandbox) -> None:
    a = agent(sandbox, say("", "true"), max_iterations=1)
    await a.submit("Go.")
    called = [call.id for m in a.messages for call in m.tool_calls]
    assert [r.call_id for m in a.messages for r in m.results] == called
    assert len(called) == 2
