"""The same calls with the same results: the model is told, and then the work ends."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec
import pytest
from fakes.episodes import record

from hermes_lab.agent.loop import Agent
from hermes_lab.agent.repeats import DEFAULT_MAX_REPEATS, Repeats
from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.config.schema import AgentConfig, RunConfig
from hermes_lab.models.replay import ReplayModel
from hermes_lab.models.scripted import ScriptedModel
from hermes_lab.protocols import ModelClient, Sandbox
from hermes_lab.sandbox import open_sandbox
from hermes_lab.tools.registry import ToolContext
from hermes_lab.tools.toolbox import Toolbox
from hermes_lab.transcript import CONCLUDE
from hermes_lab.types import Message, ToolCall, ToolResult

pytestmark = pytest.mark.anyio

SAME = "the same call gave the same result {} times in a row; try something else, or answer"
Calls = Sequence[tuple[str, dict[str, Any]]]


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with open_sandbox(SandboxConfig()) as box:
        yield box


def sh(command: str) -> tuple[str, dict[str, Any]]:
    return "terminal", {"command": command}


def in_turn(*turns: Calls) -> Callable[[Sequence[Message]], Message]:
    """Asks for these calls, one turn after another, the last ones for ever; concludes where it is told to."""

    def policy(messages: Sequence[Message]) -> Message:
        if messages[-1].content == CONCLUDE:
            return Message("assistant", "This far.")
        said = sum(message.role == "assistant" for message in messages)
        calls = turns[min(said, len(turns) - 1)]
        made = tuple(ToolCall(f"call_{n}", name, arguments) for n, (name, arguments) in enumerate(calls))
        return Message("assistant", "" if made else "Done.", made)

    return policy


def agent(sandbox: Sandbox, *turns: Calls, model: ModelClient | None = None, **config: Any) -> Agent:
    settings = AgentConfig.model_validate({"toolsets": ["shell"], "max_iterations": 20, **config})
    toolbox = Toolbox(settings.toolsets, ToolContext(sandbox, None, SandboxConfig()), profile=settings.prompt)
    model = model or ScriptedModel(in_turn(*turns), tool_format=settings.tool_format)
    return Agent(model, toolbox, settings, [Message("system", "You work.")])


def notes(a: Agent) -> list[str]:
    return [json.loads(result.content).get("note", "") for message in a.messages for result in message.results]


def same(first: int, last: int) -> list[str]:
    return [SAME.format(times) for times in range(first, last + 1)]


@pytest.mark.parametrize("tool_format", ["native", "hermes"])
async def test_a_call_without_effect_is_noted_and_then_ends_the_work(sandbox: Sandbox, tool_format: str) -> None:
    a = agent(sandbox, [sh("cat none")], tool_format=tool_format)
    assert await a.submit("Go.") == "repeated"
    assert notes(a) == ["", *same(2, DEFAULT_MAX_REPEATS)]
    assert a.messages[-2].content == CONCLUDE
    assert a.trajectory("repeated").final_response == "This far."
    assert all("No such file" in r.content for m in a.messages for r in m.results)


async def test_a_compact_prompt_has_neither_notes_nor_a_bound(sandbox: Sandbox) -> None:
    a = agent(sandbox, [sh("cat none")], prompt="compact", max_iterations=DEFAULT_MAX_REPEATS + 2)
    assert await a.submit("Go.") == "max_iterations"
    assert notes(a) == [""] * (DEFAULT_MAX_REPEATS + 2)
    a = agent(sandbox, [sh("cat none")], prompt="compact", max_repeats=2)
    assert await a.submit("Go.") == "repeated"
    assert notes(a) == ["", ""]


@pytest.mark.parametrize(("most", "turns", "stop"), [(1, 1, "repeated"), (3, 3, "repeated"), (0, 20, "max_iterations")])
async def test_the_bound_can_be_set(sandbox: Sandbox, most: int, turns: int, stop: str) -> None:
    a = agent(sandbox, [sh("cat none")], max_repeats=most)
    assert await a.submit("Go.") == stop
    assert len(notes(a)) == turns


async def test_another_call_or_another_result_in_between_begins_the_count_anew(sandbox: Sandbox) -> None:
    a = agent(sandbox, [sh("true")], [sh("true")], [sh("echo")], [sh("true")], [sh("true")], [])
    assert await a.submit("Go.") == "answered"
    assert notes(a) == ["", SAME.format(2), "", "", SAME.format(2)]
    a = agent(sandbox, [sh("echo x >>f; wc -l <f")], max_repeats=2, max_iterations=5)
    assert await a.submit("Go.") == "max_iterations"
    assert notes(a) == [""] * 5


async def test_the_count_begins_anew_with_each_submission(sandbox: Sandbox) -> None:
    a = agent(sandbox, *[[sh("true")]] * 2, [], *[[sh("true")]] * 2, [], max_repeats=3)
    assert [await a.submit("Go."), await a.submit("Again.")] == ["answered", "answered"]
    assert notes(a) == ["", SAME.format(2)] * 2


async def test_parallel_calls_are_compared_turn_by_turn_in_any_order(sandbox: Sandbox) -> None:
    turns = [[sh("echo a"), sh("echo b")], [sh("echo b"), sh("echo a")], [sh("echo a"), sh("echo c")]]
    a = agent(sandbox, *turns, [sh("echo a")], [], max_repeats=4)
    assert await a.submit("Go.") == "repeated"  # the last call is one of all four turns
    assert notes(a) == ["", "", SAME.format(2), SAME.format(2), SAME.format(3), "", SAME.format(4)]
    a = agent(sandbox, *([sh("echo a"), sh(f"echo {n}")] for n in range(5)), [], max_repeats=3)
    assert await a.submit("Go.") == "answered"  # something was new in every turn


async def test_a_call_that_stands_several_times_in_a_turn_is_noted_and_ends_nothing(sandbox: Sandbox) -> None:
    a = agent(sandbox, [sh("true")] * 3, [sh("true")], [], max_repeats=3)
    assert await a.submit("Go.") == "answered"
    assert notes(a) == ["", *same(2, 4)]


async def test_a_call_that_cannot_be_read_is_a_call_too(sandbox: Sandbox) -> None:
    broken = Message("assistant", "<tool_call>{oops</tool_call>")

    def policy(messages: Sequence[Message]) -> Message:
        return Message("assistant", "This far.") if messages[-1].content == CONCLUDE else broken

    a = agent(sandbox, model=ScriptedModel(policy, tool_format="hermes"), tool_format="hermes", max_repeats=3)
    assert await a.submit("Go.") == "repeated"
    assert notes(a) == ["", *same(2, 3)]


async def test_to_wait_for_a_background_command_is_no_repeat(sandbox: Sandbox) -> None:
    start = ("terminal", {"command": "sleep 60", "background": True})
    for action in ("poll", "log", "list", "wait"):
        look = ("process", {"action": action, "id": "p1"} | ({"timeout": 0.01} if action == "wait" else {}))
        a = agent(sandbox, [start], *[[look, sh("true")]] * 4, [], max_repeats=2)
        assert await a.submit("Go.") == "answered"
        assert notes(a) == [""] * 9


async def test_to_look_at_a_command_that_has_ended_is_a_repeat(sandbox: Sandbox) -> None:
    start, wait = ("terminal", {"command": "true", "background": True}), ("process", {"action": "wait", "id": "p1"})
    a = agent(sandbox, [start], [wait], max_repeats=3)
    assert await a.submit("Go.") == "repeated"
    assert notes(a) == ["", "", *same(2, 3)]
    a = agent(sandbox, [("process", {"action": "poll", "id": "p7"})], max_repeats=3)
    assert await a.submit("Go.") == "repeated"


def test_a_question_to_a_person_may_be_asked_again() -> None:
    repeats = Repeats(AgentConfig(max_repeats=2))
    call, result = ToolCall("c", "clarify", {"question": "Which?"}), ToolResult("c", "clarify", '{"answer": "Wait."}')
    for _ in range(3):
        assert repeats.count([call], [result]) == [result]
        assert not repeats.reached


@pytest.mark.parametrize(
    "content",
    [
        *('{"output": "é\\n", "exit_code": 0}', '{"name": "a", "note": "the \\"nearest\\"", "files": ["x"]}', "{}"),
        *('{"error": "no; such"}', '{"note": ""}', '{"note": "a; b"}'),
    ],
)
def test_a_note_stands_beside_what_is_there(content: str) -> None:
    repeats = Repeats(AgentConfig())
    call, result = ToolCall("c", "f"), ToolResult("c", "f", content, ok=False)
    first, second = (repeats.count([call], [result])[0] for _ in range(2))
    assert first == result
    told, before = json.loads(second.content), json.loads(content)
    assert told["note"].endswith(SAME.format(2))
    assert told["note"].startswith(before.get("note", ""))
    assert {**told, "note": ""} == {**before, "note": ""}
    assert (second.call_id, second.name, second.ok) == ("c", "f", False)


def test_an_answer_that_takes_no_note_stays_as_it_is() -> None:
    repeats = Repeats(AgentConfig(max_repeats=2))
    result = ToolResult("c", "f", "[1]")
    assert [repeats.count([ToolCall("c", "f")], [result]) for _ in range(2)] == [[result]] * 2
    assert repeats.reached


@pytest.mark.parametrize("tool_format", ["native", "hermes"])
async def test_a_replay_ends_where_the_run_ended_with_the_same_notes(sandbox: Sandbox, tool_format: str) -> None:
    turns = [[sh("date +%N")], [sh("cat none"), sh("echo x")]]
    then = agent(sandbox, *turns, tool_format=tool_format)
    stop = await then.submit("Go.")
    assert stop == "repeated"
    model = ReplayModel([record(trajectory=then.trajectory(stop))])
    now = agent(sandbox, model=model, tool_format=tool_format)
    assert await now.submit("Go.") == stop
    encode = msgspec.json.encode
    assert [encode((m.role, m.content)) for m in now.messages] == [encode((m.role, m.content)) for m in then.messages]


async def test_a_replay_logs_no_difference_for_a_note(sandbox: Sandbox, caplog: pytest.LogCaptureFixture) -> None:
    then = agent(sandbox, [sh("echo x")])
    stop = await then.submit("Go.")
    now = agent(sandbox, model=ReplayModel([record(trajectory=then.trajectory(stop))]))
    with caplog.at_level("INFO", logger="hermes_lab.replay"):
        await now.submit("Go.")
    assert caplog.records == []


def test_children_and_reviews_have_the_same_bound() -> None:
    config = RunConfig.model_validate({"agent": {"max_repeats": 2}}).agent
    assert not Repeats(config).reached
    repeats = Repeats(config.model_copy(update={"max_iterations": 3}))  # as theirs is made
    call, result = ToolCall("c", "f"), ToolResult("c", "f", "{}")
    for _ in range(2):
        repeats.count([call], [result])
    assert repeats.reached
