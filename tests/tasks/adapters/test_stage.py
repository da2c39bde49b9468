"""The seam: a suite may bring tools with a state, and a user who goes on, to the one path of all rollouts."""

import json
from collections.abc import Callable, Sequence

import pytest
from typer.testing import CliRunner

from hermes_lab.config.digest import config_digest
from hermes_lab.config.schema import RunConfig
from hermes_lab.envs.stepwise import SteppedRollout
from hermes_lab.errors import ConfigError
from hermes_lab.knowledge import Knowledge
from hermes_lab.models.replay import ReplayModel
from hermes_lab.models.scripted import ScriptedModel
from hermes_lab.protocols import Sandbox, Workspace
from hermes_lab.rollout import RolloutContext, RolloutSpec, run_episode
from hermes_lab.suites import SessionSuite, Turn
from hermes_lab.tools.given import given_tool
from hermes_lab.tools.registry import ToolContext
from hermes_lab.tools.toolbox import Toolbox
from hermes_lab.types import Episode, Message, Task, ToolCall, Verdict

pytestmark = pytest.mark.anyio
ANY = {"type": "object", "properties": {"by": {"type": "integer"}, "note": {"type": "string"}}, "required": ["by"]}


class Counter:
    """Counts up to three with one tool, then to zero with another that comes with the second turn."""

    name, splits = "counter", ("train",)

    def __init__(self) -> None:
        self.stages: list[CounterStage] = []

    def load(self, *, split: str, count: int, seed: int, world: int) -> list[Task]:
        return [Task(id=f"t{n}", suite="counter", prompt="Count to three.") for n in range(count)]

    async def open_session(self, task: Task) -> "CounterStage":
        self.stages.append(CounterStage())
        return self.stages[-1]

    async def verify(self, task: Task, workspace: Workspace, answer: str | None, attempt: int = 1) -> Verdict:
        raise AssertionError("an episode with a stage is judged by it")


class CounterStage:
    def __init__(self) -> None:
        self.count, self.turn, self.closed = 0, 1, False
        self.answers: list[str | None] = []
        self.tools = (given_tool("add", "Adds.", ANY, self._add),)

    def _add(self, by: int, **rest: str) -> dict[str, object]:
        if by < 0:
            raise ValueError("only upwards")
        self.count += by
        return {"count": self.count, **rest}

    def _reset(self) -> dict[str, object]:
        self.count = 0
        return {"count": 0}

    async def next_user_turn(self, answer: str | None) -> Turn | None:
        self.answers.append(answer)
        if self.turn == 2:
            return None
        self.turn = 2
        empty = {"type": "object", "properties": {}}
        return Turn("Now call reset.", (given_tool("reset", "To zero.", empty, self._reset),))

    async def verify(self, workspace: Workspace, answer: str | None, attempt: int = 1) -> Verdict:
        done = self.turn == 2 and self.count == 0
        return Verdict(float(done), done)

    async def aclose(self) -> None:
        self.closed = True


def says(*turns: tuple[str, dict[str, object]] | str) -> ScriptedModel:
    def policy(messages: Sequence[Message]) -> Message:
        turn = turns[sum(m.role == "assistant" for m in messages)]
        if isinstance(turn, str):
            return Message(role="assistant", content=turn)
        return Message(role="assistant", content="", tool_calls=(ToolCall(f"c{len(messages)}", *turn),))

    return ScriptedModel(policy)


async def rollout(
    suite: Counter, model: ScriptedModel | ReplayModel, open_sandbox: Callable[[], Sandbox], **agent: object
) -> Episode:
    config = RunConfig.model_validate({"agent": agent})
    lab = RolloutContext(config, config_digest(config), suite, model, open_sandbox)
    (task,) = suite.load(split="train", count=1, seed=0, world=0)
    job = RolloutSpec(task, lane="main", round=0, sample=0, experience=0, place=0, review="never")
    return await run_episode(lab, job, Knowledge())


def answers(episode: Episode) -> list[dict[str, object]]:
    assert episode.trajectory is not None, episode.error
    return [json.loads(result.content) for message in episode.trajectory.messages for result in message.results]


SOLVES = (
    ("reset", {}),
    ("add", {"by": 3, "note": "x"}),
    ("add", {}),
    ("add", {"by": -1}),
    "Three.",
    ("reset", {}),
    "Zero.",
)


async def test_the_user_goes_on_and_brings_a_tool(open_sandbox: Callable[[], Sandbox]) -> None:
    suite = Counter()
    assert isinstance(suite, SessionSuite)
    episode = await rollout(suite, says(*SOLVES), open_sandbox)
    early, added, without, downwards, reset = answers(episode)
    assert "unknown tool 'reset'" in str(early["error"])
    assert (added, reset) == ({"count": 3, "note": "x"}, {"count": 0})
    assert "by: Field required" in str(without["error"])
    assert "only upwards" in str(downwards["error"])
    assert (episode.score, episode.success) == (1.0, True)
    (stage,) = suite.stages
    assert (stage.answers, stage.closed) == (["Three.", "Zero."], True)


async def test_schemas_are_given_once_and_come_last(open_sandbox: Callable[[], Sandbox]) -> None:
    episode = await rollout(Counter(), says(*SOLVES), open_sandbox, toolsets=["todo", "read_file"])
    assert episode.trajectory is not None
    assert [schema["function"]["name"] for schema in episode.trajectory.tools] == ["todo", "read_file", "add"]


async def test_each_episode_has_a_stage_of_its_own(open_sandbox: Callable[[], Sandbox]) -> None:
    suite = Counter()
    first = await rollout(suite, says(("add", {"by": 1}), "One.", "No."), open_sandbox)
    second = await rollout(suite, says(("add", {"by": 1}), "One.", "No."), open_sandbox)
    assert answers(first) == answers(second) == [{"count": 1}]
    assert (first.score, len(suite.stages)) == (0.0, 2)


async def test_a_budget_that_ends_leaves_the_user_unheard(open_sandbox: Callable[[], Sandbox]) -> None:
    suite = Counter()
    model = says(("add", {"by": 1}), ("add", {"by": 1}), "Out of time.")
    episode = await rollout(suite, model, open_sandbox, max_iterations=2)
    assert (episode.score, suite.stages[0].answers, suite.stages[0].closed) == (0.0, [], True)


@pytest.mark.parametrize("tool_format", ["native", "hermes"])
async def test_a_recording_gives_the_same_conversation(open_sandbox: Callable[[], Sandbox], tool_format: str) -> None:
    model = says(*SOLVES)
    model._tool_format = tool_format  # type: ignore[assignment]
    first = await rollout(Counter(), model, open_sandbox, tool_format=tool_format)
    again = await rollout(Counter(), ReplayModel([first], explains=True), open_sandbox, tool_format=tool_format)
    assert first.trajectory is not None
    assert again.trajectory is not None, again.error
    spoken = [(m.role, m.content) for m in first.trajectory.messages]
    assert [(m.role, m.content) for m in again.trajectory.messages] == spoken
    assert (first.success, again.success) == (True, True)


async def test_whoever_steps_a_rollout_hears_the_user_too() -> None:
    config, suite = RunConfig.model_validate({"agent": {"tool_format": "hermes"}}), Counter()
    (task,) = suite.load(split="train", count=1, seed=0, world=0)
    stepped = await SteppedRollout.begin(config, suite, task, Knowledge())
    try:
        await stepped.turn()
        heard = await stepped.act("Three.")
        assert not isinstance(heard, Episode)
        assert heard[-1].content == "Now call reset."
    finally:
        await stepped.aclose()
    assert suite.stages[0].closed


async def test_a_tool_of_the_task_takes_no_name_that_is_there(open_sandbox: Callable[[], Sandbox]) -> None:
    taken = given_tool("terminal", "Another one.", ANY, dict)
    context = ToolContext(open_sandbox(), None, RunConfig().sandbox)
    with pytest.raises(ConfigError, match="its own tools named terminal"):
        Toolbox(("terminal",), context, given=(taken,))
    assert Toolbox((), context, given=(taken,)).schemas == (taken.declaration.schema,)


def test_adapters_are_suites_by_name() -> None:
    from hermes_lab.runners.cli import app

    listed = CliRunner().invoke(app, ["tasks", "list"]).output
    assert all(name in listed for name in ("bfcl", "reasoning_gym", "humaneval", "textworld"))
