"""The review: what it may do, what it is asked, when it is due, and that it never harms."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import anyio
import msgspec
import pytest

from hermes_lab.agent.loop import Agent
from hermes_lab.agent.review import REFINE, REVIEW_REQUEST, REVIEW_TOOLS, due, request, review
from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.config.schema import AgentConfig, MemoryConfig, SkillsConfig
from hermes_lab.errors import ModelError
from hermes_lab.memory.notes import Notes, NotesSession
from hermes_lab.models.scripted import ScriptedModel
from hermes_lab.protocols import Sandbox
from hermes_lab.sandbox import open_sandbox
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library
from hermes_lab.skills.session import SkillSession
from hermes_lab.tools.registry import ToolContext
from hermes_lab.tools.toolbox import Toolbox
from hermes_lab.types import Generation, Message, Observation, Skill, SkillEdit, SkillWrite, ToolCall, Usage, Verdict

pytestmark = pytest.mark.anyio
CONFIG = SkillsConfig()
TOOLSETS = ("terminal", "file", "skills", "memory", "delegation", "todo")
GOOD, BAD = Verdict(1.0, True), Verdict(0.0, False)
CREATE = {"action": "create", "name": "totals", "description": "How totals are made", "content": "Leave refunds out."}


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with open_sandbox(SandboxConfig()) as box:
        yield box


def skill(name: str, **ours: str) -> Skill:
    return skill_format.parse(skill_format.render(name, f"About {name}", "Do it.", **ours))


def say(text: str = "", **calls: dict[str, Any]) -> Message:
    made = tuple(ToolCall(f"c{n}", name, arguments) for n, (name, arguments) in enumerate(calls.items()))
    return Message("assistant", text, tool_calls=made)


class Episode:
    """An agent that has delivered its work, and a toolbox with a view of everything."""

    def __init__(self, sandbox: Sandbox, policy: Callable[[Sequence[Message]], Message], *skills: Skill) -> None:
        who = {"origin": "foreground", "episode": "e", "model": "m"}
        self.skills = SkillSession(Library(skills), **who)  # type: ignore[arg-type]
        self.notes = NotesSession(Notes(), config=MemoryConfig(), **who)  # type: ignore[arg-type]
        self.delegated: list[str] = []

        async def delegate(goal: str, context: str, toolsets: tuple[str, ...]) -> dict[str, Any]:
            self.delegated.append(goal)
            return {}

        context = ToolContext(sandbox, self.skills, SandboxConfig(), notes=self.notes, delegate=delegate)
        self.toolbox = Toolbox(TOOLSETS, context)
        messages = [Message("system", "You work."), Message("user", "Go."), Message("assistant", "Done.")]
        self.agent = Agent(ScriptedModel(policy), self.toolbox, AgentConfig(), messages)

    async def review(self, *verdicts: Verdict) -> Any:
        return await review(self.agent, self.toolbox, verdicts, CONFIG)


def in_turn(*replies: Message) -> Callable[[Sequence[Message]], Message]:
    """These replies to the review, one after another, then nothing more to say."""

    def policy(messages: Sequence[Message]) -> Message:
        said = sum(message.role == "assistant" for message in messages) - 1
        return replies[said] if said < len(replies) else say("Nothing more.")

    return policy


FORBIDDEN: dict[str, dict[str, Any]] = {
    "terminal": {"command": "touch broken-out"},
    "write_file": {"path": "broken-out", "content": "x"},
    "delegate_task": {"goal": "touch broken-out"},
    "web_search": {"query": "x"},
    "skill_manage2": CREATE,
    "Skill_Manage": CREATE,
    "skill_manage ": CREATE,
    "todo": {"todos": []},
    "review": {},
}


@pytest.mark.parametrize("name", FORBIDDEN)
async def test_every_other_tool_is_refused_and_nothing_happens(sandbox: Sandbox, name: str) -> None:
    episode = Episode(sandbox, in_turn(say(**{name: FORBIDDEN[name]}), say(**{name: FORBIDDEN[name]})))
    looked_back = await episode.review(GOOD)
    results = [result for message in looked_back.trajectory.messages for result in message.results]
    assert [(result.executed, result.ok) for result in results] == [(False, False)] * 2
    assert (await sandbox.exec("ls -A", timeout=10)).output == ""
    assert (episode.delegated, looked_back.writes, looked_back.memory, looked_back.error) == ([], (), (), None)


def compiled() -> Skill:
    """A skill that can be called as a tool."""
    script = 'def make_mark(path: str) -> str:\n    """Make a mark."""\n    open(path, "w").close()\n    return path\n'
    bare = skill("make-mark", compiled="make_mark")
    return msgspec.structs.replace(bare, files={"scripts/make_mark.py": script.encode()})


@pytest.mark.parametrize("late", [False, True])
async def test_a_compiled_skill_is_no_way_out(sandbox: Sandbox, late: bool) -> None:
    """Neither one of the library, nor one that was compiled in this very episode."""
    episode = Episode(sandbox, in_turn(say(make_mark={"path": "x"})), *([] if late else [compiled()]))
    episode.skills.library = Library([compiled()])
    assert "invalid arguments for make_mark" in (await episode.toolbox.run(ToolCall("c", "make_mark"))).content
    looked_back = await episode.review(GOOD)
    (result,) = (result for message in looked_back.trajectory.messages for result in message.results)
    assert not result.executed
    assert (await sandbox.exec("ls -A", timeout=10)).output == ""


async def test_a_forbidden_call_beside_an_allowed_one_is_refused_alone(sandbox: Sandbox) -> None:
    episode = Episode(sandbox, in_turn(say(terminal={"command": "touch x"}, skill_manage=CREATE)))
    looked_back = await episode.review(GOOD)
    assert [write.name for write in looked_back.writes] == ["totals"]
    assert (await sandbox.exec("ls -A", timeout=10)).output == ""


async def test_the_whitelist_is_skills_and_memory(sandbox: Sandbox) -> None:
    note = {"action": "add", "target": "memory", "content": "Totals are due on Fridays."}
    calls = {"skill_view": {"name": "old"}, "skills_list": {}, "skill_manage": CREATE, "memory": note}
    assert set(calls) == REVIEW_TOOLS
    looked_back = await Episode(sandbox, in_turn(say(**calls)), skill("old")).review(GOOD)
    results = [result for message in looked_back.trajectory.messages for result in message.results]
    assert {result.name for result in results if result.ok} == REVIEW_TOOLS
    assert [(write.origin, write.text) for write in looked_back.memory] == [("review", note["content"])]


async def test_writes_are_the_reviews_and_the_episodes_stay_as_they_are(sandbox: Sandbox) -> None:
    episode = Episode(sandbox, in_turn(say(skill_manage=CREATE)))
    messages = list(episode.agent.messages)
    looked_back = await episode.review(GOOD)
    assert [(write.origin, write.episode, write.name) for write in looked_back.writes] == [("review", "e", "totals")]
    assert (episode.skills.writes, dict(episode.skills.library.skills)) == ([], {})
    assert episode.agent.messages == messages
    assert [message.role for message in looked_back.trajectory.messages] == ["user", "assistant", "tool", "assistant"]


async def test_the_review_has_a_budget_of_its_own(sandbox: Sandbox) -> None:
    episode = Episode(sandbox, lambda _: say(skills_list={}))
    looked_back = await review(episode.agent, episode.toolbox, (), SkillsConfig(review_iterations=3))
    assert looked_back.trajectory.stop_reason == "max_iterations"
    assert len(looked_back.trajectory.steps) == 4  # and the call to conclude


async def test_a_refusal_of_the_policy_is_an_answer_that_can_be_mended(sandbox: Sandbox) -> None:
    story = CREATE | {"content": "The user asked for the total of May."}
    looked_back = await Episode(sandbox, in_turn(say(skill_manage=story), say(skill_manage=CREATE))).review(GOOD)
    first, second = (result for message in looked_back.trajectory.messages for result in message.results)
    assert (first.ok, second.ok) == (False, True)
    assert "a one-off event" in first.content
    assert [write.name for write in looked_back.writes] == ["totals"]


async def test_what_may_be_no_skill_may_be_no_note_either(sandbox: Sandbox) -> None:
    story = {"action": "add", "target": "user", "content": "The user asked for the total of May."}
    looked_back = await Episode(sandbox, in_turn(say(memory=story))).review(GOOD)
    (result,) = (result for message in looked_back.trajectory.messages for result in message.results)
    assert "a one-off event" in result.content
    assert looked_back.memory == ()


@pytest.mark.parametrize(
    ("failure", "kind"), [(ModelError("the server is gone"), "model"), (ZeroDivisionError("a bug"), "internal")]
)
async def test_a_failure_is_an_error_and_what_was_written_does_not_count(
    sandbox: Sandbox, failure: Exception, kind: str
) -> None:
    def policy(messages: Sequence[Message]) -> Message:
        if messages[-1].role == "tool":
            raise failure
        return say(skill_manage=CREATE, memory={"action": "add", "target": "memory", "content": "Fridays."})

    looked_back = await Episode(sandbox, policy).review(GOOD)
    assert looked_back.error is not None
    assert (looked_back.error.kind, str(failure) in looked_back.error.message) == (kind, True)
    assert (looked_back.writes, looked_back.memory) == ((), ())
    said = looked_back.trajectory
    assert [message.role for message in said.messages] == ["user", "assistant", "tool", "tool"]
    assert (said.stop_reason, said.final_response, len(said.steps)) == ("failed", None, 1)


class Counting(ScriptedModel):
    """A model whose every reply costs a hundred tokens."""

    async def generate(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Generation:
        return msgspec.structs.replace(await super().generate(messages, tools), usage=Usage(90, 10))


async def test_what_a_failed_review_spent_is_in_its_record(sandbox: Sandbox) -> None:
    def policy(messages: Sequence[Message]) -> Message:
        if messages[-1].role == "tool":
            raise ModelError("the server is gone")
        return say(skill_manage=CREATE)

    episode = Episode(sandbox, policy)
    agent = Agent(Counting(policy), episode.toolbox, AgentConfig(), episode.agent.messages)
    looked_back = await review(agent, episode.toolbox, [GOOD], CONFIG)
    assert looked_back.error
    assert looked_back.trajectory
    assert looked_back.trajectory.usage == Usage(90, 10)


async def test_a_failure_before_the_first_reply_is_a_record_too(sandbox: Sandbox) -> None:
    def policy(_: Sequence[Message]) -> Message:
        raise ModelError("the server is gone")

    looked_back = await Episode(sandbox, policy).review(GOOD)
    assert [message.role for message in looked_back.trajectory.messages] == ["user"]
    assert (looked_back.trajectory.steps, looked_back.error.kind) == ((), "model")


class BrokenSession(SkillSession):
    """A session in which every write meets a bug."""

    def fork(self, *_: object) -> "BrokenSession":
        return self

    def manage(self, edit: SkillEdit) -> SkillWrite:
        raise ZeroDivisionError(edit.name)


async def test_a_bug_in_a_tool_is_an_answer(sandbox: Sandbox) -> None:
    episode = Episode(sandbox, in_turn(say(skill_manage=CREATE)))
    broken = BrokenSession(Library(), origin="foreground", episode="e", model="m")
    toolbox = Toolbox(TOOLSETS, replace(episode.toolbox.context, skills=broken))
    looked_back = await review(episode.agent, toolbox, [GOOD], CONFIG)
    assert (looked_back.error, looked_back.writes) == (None, ())
    assert "ZeroDivisionError" in looked_back.trajectory.messages[2].content


async def test_cancellation_passes_through(sandbox: Sandbox) -> None:
    def policy(_: Sequence[Message]) -> Message:
        scope.cancel()
        return say(skills_list={})

    episode = Episode(sandbox, policy)
    with anyio.CancelScope() as scope:
        await episode.review(GOOD)
        pytest.fail("the review went on")
    assert scope.cancelled_caught


async def test_the_request_tells_how_the_work_fared_and_ends_with_what_never_varies(sandbox: Sandbox) -> None:
    episode = Episode(sandbox, in_turn(), skill("old"), skill("gone", state="deprecated"))
    context = episode.toolbox.context
    assert request(context, ()).startswith("The work has been delivered.")
    assert request(context, [BAD]).startswith("The submission was not accepted.")
    assert request(context, [GOOD]).startswith("The submission was accepted on the first try.")
    assert request(context, [BAD, GOOD]).startswith("The submission was accepted after a rejection.")
    assert "gone" in request(context, [GOOD])
    assert "old" not in request(context, [GOOD])
    assert REFINE not in request(context, [GOOD])
    episode.skills.view("old")
    episode.skills.view("old")
    assert f"You had loaded old. {REFINE}" in request(context, [GOOD])
    assert "You had loaded old, and your first submission was rejected" in request(context, [BAD, GOOD])
    assert REFINE in request(context, [BAD, GOOD])
    assert all(request(context, verdicts).endswith(REVIEW_REQUEST) for verdicts in ((), (GOOD,), (BAD, GOOD)))


async def test_a_request_names_a_few_skills_at_most(sandbox: Sandbox) -> None:
    many = [skill(f"s-{n:02}", state="deprecated") for n in range(30)]
    text = request(Episode(sandbox, in_turn(), *many).toolbox.context, ())
    assert "s-04, ..." in text
    assert "s-05" not in text


def seen(worth: bool = False) -> Observation:
    return Observation(0.8, True, 3, False, True, 12, worth)


@pytest.mark.parametrize(
    ("idle", "iterations", "worth", "every", "expected"),
    [
        (0, 9, False, 10, False),
        (0, 10, False, 10, True),
        (7, 3, False, 10, True),
        (7, 2, False, 10, False),
        (0, 0, True, 10, True),
        (0, 0, False, 0, True),
    ],
)
def test_a_review_is_due_by_cadence_or_by_worth(
    idle: int, iterations: int, worth: bool, every: int, expected: bool
) -> None:
    assert due(idle, iterations, seen(worth), SkillsConfig(review_every=every)) is expected
