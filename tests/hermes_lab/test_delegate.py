"""Delegation: what a child has and has not, what its parent sees and pays, and that nothing of it is left behind."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import anyio
import pytest
from fakes.processes import eventually, is_running, unique_seconds

from hermes_lab.agent.delegate import Delegation
from hermes_lab.agent.loop import Agent
from hermes_lab.config.schema import RunConfig, SuiteConfig
from hermes_lab.errors import ContextFull, ModelError, SandboxError
from hermes_lab.knowledge import Knowledge
from hermes_lab.models.scripted import ScriptedModel
from hermes_lab.protocols import ModelClient, Sandbox
from hermes_lab.rollout import RolloutContext, RolloutSpec, run_episode
from hermes_lab.sandbox import open_sandbox
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library
from hermes_lab.skills.session import SkillSession
from hermes_lab.tasks import load_suite
from hermes_lab.tools.registry import ToolContext, known_tools, unavailable_tools
from hermes_lab.tools.toolbox import Toolbox
from hermes_lab.transcript import CONCLUDE
from hermes_lab.types import Generation, Message, SkillEdit, ToolCall, ToolResult, Usage

pytestmark = pytest.mark.anyio
Script = Mapping[str, Sequence[Message]]


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with open_sandbox(RunConfig().sandbox) as box:
        yield box


@pytest.fixture
def marker() -> str:
    return unique_seconds()


def say(text: str, *calls: tuple[str, dict[str, Any]]) -> Message:
    return Message("assistant", text, tuple(ToolCall(f"c{n}", name, args) for n, (name, args) in enumerate(calls)))


def run(command: str) -> tuple[str, dict[str, Any]]:
    return "terminal", {"command": command}


def give(goal: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "delegate_task", {"goal": goal, **more}


def scripted(script: Script) -> Callable[[Sequence[Message]], Message]:
    """Gives a conversation its replies in turn, by the first line that its agent was told."""

    def policy(messages: Sequence[Message]) -> Message:
        replies = script[messages[1].content.splitlines()[0]]
        return replies[min(sum(m.role == "assistant" for m in messages), len(replies) - 1)]

    return policy


class Family:
    """An agent that may delegate, and its children."""

    def __init__(self, sandbox: Sandbox, model: ModelClient | Script, library: Library | None = None, **agent: Any):
        fields = {"toolsets": ["terminal", "delegation"], **agent}
        price = {"prompt": 10.0, "completion": 10.0}
        self.config = RunConfig.model_validate({"agent": fields, "model": {"price": price}})
        if isinstance(model, Mapping):
            model = ScriptedModel(scripted(model), tool_format=self.config.agent.tool_format)
        self.skills = SkillSession(library or Library(), origin="foreground", episode="e", model="m")
        self.delegation = Delegation(model, self.config, sandbox, self.skills, _system)
        context = ToolContext(sandbox, self.skills, self.config.sandbox, delegate=self.delegation)
        toolbox = Toolbox(self.config.agent.toolsets, context)
        self.agent = Agent(model, toolbox, self.config.agent, [_system(toolbox)], self.config.model.price)
        self.delegation.serve(self.agent, toolbox)

    @property
    def results(self) -> list[ToolResult]:
        return results(self.agent.messages)

    @property
    def told(self) -> list[dict[str, Any]]:
        """What the agent's tools answered."""
        return [json.loads(r.content) for r in self.results]


def _system(toolbox: Toolbox) -> Message:
    return Message("system", f"You have {', '.join(schema['function']['name'] for schema in toolbox.schemas)}.")


def results(messages: Sequence[Message]) -> list[ToolResult]:
    return [result for message in messages for result in message.results]


async def test_a_child_knows_its_goal_alone_and_its_parent_the_answer_alone(sandbox: Sandbox) -> None:
    call = give("Count.", context="The file is f.")
    script = {"Go.": [say("", call), say("Done.")], "Count.": [say("", run("wc -l <f; touch g")), say("Two lines.")]}
    await sandbox.write("f", b"1\n2\n")
    family = Family(sandbox, script)
    assert await family.agent.submit("Go.") == "answered"
    assert family.told == [{"answer": "Two lines."}]
    (child,) = family.delegation.children
    assert (child.goal, child.depth, child.error, child.children) == ("Count.", 1, None, ())
    assert child.trajectory
    said = [(m.role, m.content) for m in child.trajectory.messages]
    assert said[:2] == [
        ("system", "You have terminal, delegate_task."),
        ("user", "Count.\n\n# Context\nThe file is f."),
    ]
    assert json.loads(said[3][1]) == {"output": "2\n", "exit_code": 0}
    assert child.trajectory.final_response == "Two lines."
    assert await sandbox.read("g") == b""


async def test_directory_variables_and_background_leak_neither_way(sandbox: Sandbox, marker: str) -> None:
    probe = "pwd; echo [$OURS$ITS]; cat /tmp/secret"
    script = {
        "Go.": [
            say("", run("mkdir d; cd d; export OURS=1; echo x >/tmp/secret; " + f"sleep {marker}1 &")),
            say("", give("Look.")),
            say("", run(probe)),
            say("Done."),
        ],
        "Look.": [say("", run(probe)), say("", run(f"cd /; export ITS=2; setsid sleep {marker}2 &")), say("Seen.")],
    }
    family = Family(sandbox, script)
    await family.agent.submit("Go.")
    (child,) = family.delegation.children
    assert child.trajectory
    its_look, ours = results(child.trajectory.messages)[0].content, family.results[2].content
    assert json.loads(its_look)["output"].splitlines()[:2] == ["/app/data", "[]"]
    assert json.loads(its_look)["exit_code"] == 1, "its /tmp is its own"
    assert json.loads(ours)["output"] == "/app/data/d\n[1]\nx\n"
    assert not is_running(f"{marker}2")
    assert is_running(f"{marker}1")


ALL = [name for name in known_tools() if name not in unavailable_tools()]


@pytest.mark.parametrize(
    "name", ["clarify", "execute_code", "memory", "send_message", "session_search", "skill_manage", "skill_compile"]
)
async def test_a_forbidden_tool_is_neither_shown_to_a_child_nor_executed(sandbox: Sandbox, name: str) -> None:
    arguments = {
        "clarify": {"question": "May I?"},
        "execute_code": {"code": "print(1)"},
        "session_search": {"query": "x"},
        "skill_manage": {"action": "create", "name": "mine", "description": "d", "content": "# c"},
    }
    script = {
        "Go.": [say("", give("Try.")), say("Done.")],
        "Try.": [say("", (name, arguments.get(name, {}))), say("No.")],
    }
    skill = skill_format.parse(skill_format.render("totals", "How", "Do it."))
    family = Family(sandbox, script, Library([skill]), toolsets=ALL)
    await family.agent.submit("Go.")
    (child,) = family.delegation.children
    assert child.trajectory
    (refused,) = results(child.trajectory.messages)
    assert not refused.executed
    shown = {schema["function"]["name"] for schema in child.trajectory.tools}
    assert name not in shown
    assert shown >= {"terminal", "process", "read_file", "patch", "todo", "skill_view", "skills_list", "delegate_task"}
    assert family.skills.writes == []


async def test_children_of_children_have_no_children(sandbox: Sandbox) -> None:
    script = {
        "Go.": [say("", give("One.")), say("Done.")],
        "One.": [say("", give("Two.")), say("One done.")],
        "Two.": [say("", give("Three.")), say("Two done.")],
    }
    family = Family(sandbox, script)
    await family.agent.submit("Go.")
    (one,) = family.delegation.children
    (two,) = one.children
    assert (one.goal, one.depth, two.goal, two.depth, two.children) == ("One.", 1, "Two.", 2, ())
    assert two.trajectory
    assert [schema["function"]["name"] for schema in two.trajectory.tools] == ["terminal"]
    (refused,) = results(two.trajectory.messages)
    assert not refused.executed


async def test_depth_is_a_setting(sandbox: Sandbox) -> None:
    script = {"Go.": [say("", give("One.")), say("Done.")], "One.": [say("", give("Two.")), say("One done.")]}
    family = Family(sandbox, script, delegation={"max_depth": 1})
    await family.agent.submit("Go.")
    (one,) = family.delegation.children
    assert one.children == ()
    assert one.trajectory
    assert [schema["function"]["name"] for schema in one.trajectory.tools] == ["terminal"]


@pytest.mark.parametrize(
    ("toolsets", "tools"),
    [
        (["reading"], ["read_file", "search_files"]),
        (["file", "clarify_me"], "clarify_me"),
        (["terminal", "read_file"], ["terminal", "read_file"]),
        (["coding"], ["terminal", "patch", "read_file", "search_files", "write_file"]),
        (["clarify"], "a child agent cannot use 'clarify'; available: terminal, patch"),
        (["process"], "a child agent cannot use 'process'"),
        (["termnal"], "did you mean terminal?"),
        (["readng"], "did you mean reading?"),
        ([], ["terminal", "patch", "read_file", "search_files", "write_file", "delegate_task"]),
    ],
)
async def test_toolsets_narrow_and_never_widen(sandbox: Sandbox, toolsets: list[str], tools: list[str] | str) -> None:
    script = {"Go.": [say("", give("Try.", toolsets=toolsets)), say("Done.")], "Try.": [say("Tried.")]}
    family = Family(sandbox, script, toolsets=["terminal", "file", "clarify", "delegation"])
    await family.agent.submit("Go.")
    if isinstance(tools, str):
        assert tools in family.told[0]["error"]
        assert family.delegation.children == ()
    else:
        (child,) = family.delegation.children
        assert child.trajectory
        assert [schema["function"]["name"] for schema in child.trajectory.tools] == tools


@pytest.mark.parametrize(
    "arguments", [{"goal": "  "}, {}, {"goal": "x", "toolsets": "terminal"}, {"goal": "x", "depth": 3}]
)
async def test_a_call_that_makes_no_sense_is_answered_and_begins_nothing(
    sandbox: Sandbox, arguments: dict[str, Any]
) -> None:
    family = Family(sandbox, {"Go.": [say("", ("delegate_task", arguments)), say("Done.")]})
    await family.agent.submit("Go.")
    assert "error" in family.told[0]
    assert family.delegation.children == ()


async def test_where_nobody_runs_children_the_tool_says_so(sandbox: Sandbox) -> None:
    toolbox = Toolbox(("delegation",), ToolContext(sandbox, None, RunConfig().sandbox))
    result = await toolbox.run(ToolCall("c", "delegate_task", {"goal": "x"}))
    assert "child agents are not available here" in result.content


async def test_children_of_one_turn_overlap_and_are_recorded_in_the_order_of_the_calls(sandbox: Sandbox) -> None:
    wait = "until [ -e {0} ]; do sleep 0.01; done"
    script = {
        "Go.": [say("", give("First."), give("Second.")), say("Done.")],
        "First.": [say("", run("touch a; " + wait.format("b"))), say("", run("sleep 0.2")), say("First done.")],
        "Second.": [say("", run(wait.format("a") + "; touch b")), say("Second done.")],
    }
    family = Family(sandbox, script, max_seconds=30)
    assert await family.agent.submit("Go.") == "answered"
    assert family.told == [{"answer": "First done."}, {"answer": "Second done."}]
    assert [child.goal for child in family.delegation.children] == ["First.", "Second."]


class Asked:
    """A model whose reply a test makes, and may wait for: a test double."""

    def __init__(self, reply: Callable[[Sequence[Message]], Awaitable[Generation]]) -> None:
        self.identity = ScriptedModel(scripted({})).identity
        self._reply = reply

    async def generate(self, messages: Sequence[Message], tools: object) -> Generation:
        return await self._reply(messages)

    async def aclose(self) -> None: ...


async def test_no_more_work_side_by_side_than_the_setting_says(sandbox: Sandbox) -> None:
    goals = [f"{n}." for n in range(5)]
    at_work: set[str] = set()
    most = 0

    async def reply(messages: Sequence[Message]) -> Generation:
        nonlocal most
        goal = messages[1].content
        if goal == "Go.":
            return Generation(say("", *map(give, goals)) if len(messages) == 2 else say("Done."))
        at_work.add(goal)
        most = max(most, len(at_work))
        await eventually(lambda: most >= 2)
        await anyio.sleep(0.02)  # in which others may begin that must not
        at_work.remove(goal)
        return Generation(say(f"Did {goal}"))

    family = Family(sandbox, Asked(reply), delegation={"at_once": 2})
    await family.agent.submit("Go.")
    assert most == 2
    assert family.told == [{"answer": f"Did {goal}"} for goal in goals]


async def test_cancelling_the_parent_ends_children_of_children_with_all_their_processes(
    sandbox: Sandbox, marker: str
) -> None:
    leave = f"setsid sleep {marker}{{0}} & sleep {marker}{{1}}"
    script = {
        "Go.": [say("", give("One."), give("Other."))],
        "One.": [say("", give("Two."))],
        "Two.": [say("", run(leave.format(1, 2)))],
        "Other.": [say("", run(leave.format(3, 4)))],
    }
    family = Family(sandbox, script)
    async with anyio.create_task_group() as group:
        group.start_soon(family.agent.submit, "Go.")
        await eventually(lambda: all(is_running(f"{marker}{n}") for n in (1, 2, 3, 4)))
        group.cancel_scope.cancel()
    assert not is_running(marker)
    assert (await sandbox.exec("echo on")).output == "on\n"


@pytest.mark.parametrize("tool_format", ["native", "hermes"])
async def test_a_child_ends_with_the_time_of_its_parent(sandbox: Sandbox, marker: str, tool_format: str) -> None:
    script = {"Go.": [say("", give("Wait."), give("Later."))], "Wait.": [say("", run(f"sleep {marker}"))]}
    options: dict[str, Any] = {"max_seconds": 1.0, "delegation": {"at_once": 1}, "tool_format": tool_format}
    family = Family(sandbox, script, **options)
    assert await family.agent.submit("Go.") == "max_seconds"
    assert not is_running(marker)
    assert "the time limit was reached" in family.told[0]["error"]
    waiting, later = family.delegation.children
    assert waiting.trajectory
    assert waiting.trajectory.stop_reason == "max_seconds"
    assert waiting.trajectory.final_response is None
    answered = results(waiting.trajectory.messages)
    assert len(answered) == len([c for m in waiting.trajectory.messages for c in m.tool_calls])
    assert (later.goal, later.trajectory) == ("Later.", None)


@pytest.mark.parametrize(("budget", "config"), [("max_tokens", {"max_tokens": 500}), ("max_cost", {"max_cost": 0.005})])
async def test_what_a_child_spends_is_spent_by_its_parent(
    sandbox: Sandbox, budget: str, config: dict[str, float]
) -> None:
    async def reply(messages: Sequence[Message]) -> Generation:
        if messages[-1].content == CONCLUDE:
            return Generation(say("This far."), usage=Usage(90, 10))
        call = give("Work.") if messages[1].content == "Go." else run("true")
        return Generation(say("", call), usage=Usage(90, 10))

    family = Family(sandbox, Asked(reply), **config)
    assert await family.agent.submit("Go.") == budget
    assert family.told == [{"answer": "This far.", "stopped": budget}]
    (child,) = family.delegation.children
    assert child.trajectory
    assert child.trajectory.usage == Usage(450, 50)  # four calls and the grace call, after one of its parent
    assert family.agent.usage == Usage(630, 70)
    assert family.agent.cost == pytest.approx(0.007)


async def test_iterations_are_the_childs_own(sandbox: Sandbox) -> None:
    script = {
        "Go.": [say("", give("Loop.")), say("", run("true")), say("", run("true")), say("Done.")],
        "Loop.": [say("", run("true"))],
    }
    family = Family(sandbox, script, max_iterations=3, delegation={"max_iterations": 5})
    assert await family.agent.submit("Go.") == "max_iterations"
    (child,) = family.delegation.children
    assert child.trajectory
    assert (child.trajectory.stop_reason, len(child.trajectory.steps)) == ("max_iterations", 6)
    assert family.told[0] == {"error": "the child agent gave no answer: max_iterations"}


@pytest.mark.parametrize("text", ["", "<think>nothing to say</think>"])
async def test_a_child_that_says_nothing_gave_no_answer(sandbox: Sandbox, text: str) -> None:
    script = {"Go.": [say("", give("Be silent.")), say("Done.")], "Be silent.": [say(text)]}
    family = Family(sandbox, script, tool_format="hermes")
    await family.agent.submit("Go.")
    assert list(family.told[0]) == ["error"]


async def test_thoughts_of_a_child_stay_its_own(sandbox: Sandbox) -> None:
    script = {"Go.": [say("", give("Think.")), say("Done.")], "Think.": [say("<think>6 * 7</think>\n42")]}
    family = Family(sandbox, script, tool_format="hermes")
    await family.agent.submit("Go.")
    assert family.told == [{"answer": "42"}]


@pytest.mark.parametrize("failure", [ModelError("endpoint down"), SandboxError("died")])
async def test_a_failure_of_the_infrastructure_is_the_parents(
    sandbox: Sandbox, failure: Exception, marker: str
) -> None:
    async def reply(messages: Sequence[Message]) -> Generation:
        match messages[1].content:
            case "Go." if len(messages) == 2:
                return Generation(say("", give("Fail."), give("Go on.")))
            case "Go.":
                return Generation(say("Done."))
            case "Fail.":
                await eventually(lambda: is_running(marker))
                raise failure
        return Generation(say("", run(f"setsid sleep {marker} & sleep 60")))

    family = Family(sandbox, Asked(reply), max_seconds=60)
    with pytest.raises(type(failure), match=str(failure)):
        await family.agent.submit("Go.")
    assert not is_running(marker)


async def test_any_other_failure_is_a_failed_call(sandbox: Sandbox) -> None:
    async def reply(messages: Sequence[Message]) -> Generation:
        match messages[1].content:
            case "Go." if len(messages) == 2:
                return Generation(say("", give("Break."), give("Overflow."), give("Work.")))
            case "Break.":
                raise TypeError("a bug")
            case "Overflow.":
                raise ContextFull("too long")
        return Generation(say("Done."))

    family = Family(sandbox, Asked(reply))
    assert await family.agent.submit("Go.") == "answered"
    assert family.told == [
        {"error": "the child agent failed: TypeError: a bug"},
        {"error": "the child agent gave no answer: context_full"},
        {"answer": "Done."},
    ]
    broken, full, fine = family.delegation.children
    assert broken.trajectory is None
    assert broken.error
    assert (broken.error.kind, broken.error.message) == ("internal", "TypeError: a bug")
    assert 'raise TypeError("a bug")' in broken.error.detail
    assert full.trajectory
    assert full.trajectory.stop_reason == "context_full"
    assert fine.error is None


async def test_a_child_reads_skills(sandbox: Sandbox) -> None:
    writer = SkillSession(Library(), origin="user", episode="e", model="m")
    writer.manage(SkillEdit("create", "count-lines", description="When lines are counted.", content="# Use wc -l."))
    view = ("skill_view", {"name": "count-lines"})
    script = {"Go.": [say("", give("Read.")), say("Done.")], "Read.": [say("", view), say("Read it.")]}
    family = Family(sandbox, script, writer.library, toolsets=["skills", "delegation"])
    await family.agent.submit("Go.")
    (child,) = family.delegation.children
    assert child.trajectory
    assert "Use wc -l." in results(child.trajectory.messages)[0].content


async def test_to_serve_another_agent_begins_another_record(sandbox: Sandbox) -> None:
    script = {"Go.": [say("", give("Work.")), say("Done.")], "Work.": [say("Worked.")]}
    family = Family(sandbox, script)
    await family.agent.submit("Go.")
    toolbox = Toolbox(("terminal",), ToolContext(sandbox, None, family.config.sandbox))
    family.delegation.serve(family.agent, toolbox)
    assert family.delegation.children == ()


async def test_what_children_load_their_parent_has_loaded(sandbox: Sandbox) -> None:
    look = ("skill_view", {"name": "totals"})
    script = {
        "Go.": [say("", give("One.")), say("Done.")],
        "One.": [say("", give("Two.")), say("One done.")],
        "Two.": [say("", look), say("Two done.")],
    }
    skill = skill_format.parse(skill_format.render("totals", "How", "Do it."))
    family = Family(sandbox, script, Library([skill]), toolsets=["terminal", "skills", "delegation"])
    await family.agent.submit("Go.")
    assert family.skills.loaded == ["totals"]


async def test_what_a_child_loaded_before_it_failed_was_loaded(sandbox: Sandbox) -> None:
    async def reply(messages: Sequence[Message]) -> Generation:
        if messages[1].content == "Go.":
            return Generation(say("", give("Break.")) if len(messages) == 2 else say("Done."))
        if len(messages) > 2:
            raise TypeError("a bug")
        return Generation(say("", ("skill_view", {"name": "totals"})))

    skill = skill_format.parse(skill_format.render("totals", "How", "Do it."))
    family = Family(sandbox, Asked(reply), Library([skill]), toolsets=["skills", "delegation"])
    await family.agent.submit("Go.")
    assert family.skills.loaded == ["totals"]


async def test_what_a_child_was_never_shown_is_not_loaded(sandbox: Sandbox, marker: str) -> None:
    shown, cut = ("skill_view", {"name": "shown"}), ("skill_view", {"name": "cut"})
    script = {
        "Go.": [say("", ("skill_view", {"name": "lost"}), give("Work."))],
        "Work.": [say("", shown), say("", cut, run(f"sleep {marker}"))],
    }
    skills = [skill_format.parse(skill_format.render(name, "How", "Do it.")) for name in ("shown", "cut", "lost")]
    family = Family(sandbox, script, Library(skills), toolsets=["terminal", "skills", "delegation"], max_seconds=5)
    assert await family.agent.submit("Go.") == "max_seconds"
    assert family.skills.loaded == ["shown"]  # the other results were thrown away when the time was up


async def test_the_record_tells_what_children_loaded_and_followed() -> None:
    suite = load_suite(SuiteConfig(name="ledger"))
    task = suite.load(split="train", count=1, seed=0, world=0)[0]
    script = {task.prompt.splitlines()[0]: [say("", give("One.")), say("Done.")]}
    script["One."] = [say("", ("skill_view", {"name": "sums"})), say("", run("echo make total")), say("One done.")]
    config = RunConfig.model_validate({"agent": {"toolsets": ["terminal", "skills", "delegation"]}})
    model = ScriptedModel(scripted(script))
    lab = RolloutContext(config, "", suite, model, lambda: open_sandbox(config.sandbox))
    skill = skill_format.parse(skill_format.render("sums", "How", "Run: make total"))
    episode = await run_episode(lab, RolloutSpec(task, "main", 0, 0, 0, 0, "never"), Knowledge(Library([skill])))
    assert episode.error is None
    assert episode.skills.loaded == ("sums",)
    (trace,) = episode.skills.traces
    assert (trace.loaded, trace.followed) == (True, True)
