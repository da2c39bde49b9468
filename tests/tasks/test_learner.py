import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from hermes_lab.agent.review import REVIEW_REQUEST
from hermes_lab.config import AgentConfig, RunConfig
from hermes_lab.knowledge import Knowledge
from hermes_lab.models.hermes_format import render_results
from hermes_lab.models.scripted import Policy, ScriptedModel
from hermes_lab.protocols import Sandbox
from hermes_lab.rollout import Job, Lab, run_episode
from hermes_lab.skills.library import Library, merge
from hermes_lab.types import Message, Task, ToolCall, ToolResult
from hermes_lab.types.trajectory import ToolFormat
from tasks.learner import demonstrator, expected_success, learner, noop
from tasks.ledger.suite import LedgerSuite
from tasks.worlds import WorldSpec

SUITE = LedgerSuite()


@dataclass
class Story:
    """An episode without a sandbox: commands are compared with the oracle's, skills live in a dictionary."""

    task: Task
    skills: dict[str, dict[str, str]]
    hermes: bool = False
    messages: list[Message] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    successes: list[bool] = field(default_factory=list)
    written: dict[str, dict[str, str]] = field(default_factory=dict)
    command: str = ""

    def run(self, policy: Policy) -> "Story":
        index = "\n".join(f"- {name}: {skill['description']}" for name, skill in self.skills.items())
        system = "You are Hermes." + (f"\n\n<skills>\n{index}\n</skills>" if self.skills else "")
        self.messages.append(Message(role="system", content=system))
        prompt = self.task.prompt
        for _ in range(self.task.attempts):
            self._submit(policy, prompt)
            self.successes.append(self.command == SUITE.oracle(self.task)[0])
            if self.successes[-1]:
                break
            prompt = self.task.truth["hint"] or "Rejected: the total is not right."
        self._submit(policy, f"The submission was judged.\n\n{REVIEW_REQUEST}")
        return self

    def _submit(self, policy: Policy, text: str) -> None:
        self.messages.append(Message(role="user", content=text))
        for _ in range(5):
            reply = policy(self.messages)
            self.messages.append(reply)
            if not reply.tool_calls:
                assert reply.content
                return
            self._answer(reply.tool_calls)
        raise AssertionError("the policy does not come to an end")

    def _answer(self, calls: Sequence[ToolCall]) -> None:
        results = [ToolResult(call.id, call.name, json.dumps(self._do(call))) for call in calls]
        if self.hermes:
            self.messages.append(Message(role="user", content=render_results(results), results=tuple(results)))
        else:
            self.messages += [
                Message(role="tool", content=r.content, results=(r,), tool_call_id=r.call_id) for r in results
            ]

    def _do(self, call: ToolCall) -> dict[str, str]:
        self.calls.append(call)
        if call.name == "skill_view":
            return self.skills.get(call.arguments["name"], {"error": "no such skill"})
        if call.name == "skill_manage":
            assert call.arguments["action"] == "create"
            self.written[call.arguments["name"]] = {k: call.arguments[k] for k in ("description", "content")}
            return {"saved": call.arguments["name"]}
        assert call.name == "terminal"
        self.command = call.arguments["command"]
        return {"output": ""}

    @property
    def names(self) -> list[str]:
        return [call.name for call in self.calls]


def first_task(*, ruled: bool, split: str = "train") -> Task:
    tasks = SUITE.load(split=split, count=50, seed=0, world=0)
    return next(task for task in tasks if bool(task.triggers) == ruled)


def taught(task: Task) -> dict[str, dict[str, str]]:
    return Story(task, {}).run(learner()).written


@pytest.mark.parametrize("hermes", [False, True])
def test_it_fails_once_learns_and_then_succeeds(hermes: bool) -> None:
    task = first_task(ruled=True)
    before = Story(task, {}, hermes).run(learner())
    assert before.names == ["terminal", "terminal", "skill_manage"]
    assert before.successes == [False, True]
    after = Story(task, before.written, hermes).run(learner())
    assert after.names == ["skill_view", "terminal"]
    assert after.successes == [True]
    assert after.messages[-1].content == "Nothing to save."


def test_a_skill_is_one_sentence_and_the_literal_command() -> None:
    task = first_task(ruled=True)
    desk = task.metadata["desk"]
    ((name, skill),) = taught(task).items()
    assert name == f"{desk}-totals"
    assert skill["description"] == f"How the {desk} desk's totals are made"
    sentence, run = skill["content"].split("\n\n")
    assert sentence[0] == sentence[0].upper()
    assert sentence.endswith(".")
    assert run == f"Run: {SUITE.oracle(task)[0]}"


def test_a_plain_desk_teaches_nothing() -> None:
    story = Story(first_task(ruled=False), {}).run(learner())
    assert story.successes == [True]
    assert story.names == ["terminal"]


def test_another_desks_skill_is_left_alone() -> None:
    task = first_task(ruled=True)
    skills = {
        "moon-totals": {
            "description": "How the moon desk's totals are made",
            "content": "Run: ./ledger sum m",
        }
    }
    assert Story(task, skills).run(learner()).names == ["terminal", "terminal", "skill_manage"]


def test_a_wrong_skill_is_followed_then_mended_and_not_doubled() -> None:
    task = first_task(ruled=True)
    skills = taught(task)
    for skill in skills.values():
        skill["content"] = skill["content"].replace(task.truth["flags"], "--add 1")
    story = Story(task, skills).run(learner())
    assert story.successes == [False, True]
    assert story.written == {}


def test_it_never_captures_at_rate_zero_and_never_looks_when_it_slips() -> None:
    task = first_task(ruled=True)
    assert Story(task, {}).run(learner(capture=0.0)).written == {}
    slipping = Story(task, taught(task)).run(learner(slip=1.0))
    assert slipping.names == ["terminal", "terminal"]
    assert Story(task, {}).run(learner(slip=1.0)).written == {}


def test_decisions_depend_on_seed_and_task_only() -> None:
    tasks = [t for t in SUITE.load(split="train", count=80, seed=0, world=0) if t.triggers]
    first = [bool(Story(task, {}).run(learner(capture=0.5, seed=1)).written) for task in tasks]
    assert first == [bool(Story(task, {}).run(learner(capture=0.5, seed=1)).written) for task in tasks]
    assert first != [bool(Story(task, {}).run(learner(capture=0.5, seed=2)).written) for task in tasks]


@pytest.mark.parametrize(
    ("spec", "capture", "slip"),
    [(WorldSpec(), 1.0, 0.0), (WorldSpec(), 0.6, 0.15), (WorldSpec(ruled=3, plain=1, unseen=1), 0.4, 0.0)],
)
def test_the_success_rate_follows_the_closed_form(spec: WorldSpec, capture: float, slip: float) -> None:
    suite, length, lanes = LedgerSuite(spec), 10, 120
    solved = [0] * length
    for lane in range(lanes):
        policy = learner(capture, slip, seed=lane)
        skills: dict[str, dict[str, str]] = {}
        for n, task in enumerate(suite.load(split="heldout", count=length, seed=lane, world=lane)):
            story = Story(task, skills).run(policy)
            solved[n] += story.successes[0]
            skills = {**skills, **story.written}
    for n in range(length):
        expected = expected_success(n, spec, capture, slip)
        deviation = (expected * (1 - expected) / lanes) ** 0.5
        assert abs(solved[n] / lanes - expected) < 4 * deviation, n
    mean = sum(expected_success(n, spec, capture, slip) for n in range(length)) / length
    assert abs(sum(solved) / lanes / length - mean) < 0.05


def test_the_closed_form_begins_at_the_plain_share_and_ends_at_the_slip() -> None:
    spec = WorldSpec(ruled=5, plain=2)
    assert expected_success(0, spec) == pytest.approx(2 / 7)
    assert expected_success(1, spec) == pytest.approx(2 / 7 + 5 / 49)
    assert expected_success(10_000, spec, 0.5, 0.2) == pytest.approx(2 / 7 + 5 / 7 * 0.8)


def test_demonstrations_vary_in_words_and_stumble_now_and_then() -> None:
    policy = demonstrator(seed=0)
    thoughts: set[str] = set()
    stumbles, mistakes = 0, set()
    tasks = [t for t in SUITE.load(split="train", count=600, seed=0, world=0) if t.triggers]
    for task in tasks:
        story = Story(task, taught(task)).run(policy)
        assert story.successes == [True]
        thoughts |= {m.content for m in story.messages if m.role == "assistant"}
        if story.names == ["skill_view", "terminal", "terminal"]:
            wrong, right = story.calls[1].arguments["command"], story.calls[2].arguments["command"]
            assert wrong != right == SUITE.oracle(task)[0]
            stumbles += 1
            mistakes.add(len(right) - len(wrong))
    assert 0.02 < stumbles / len(tasks) < 0.10
    assert len(mistakes) == 3
    assert len(thoughts) > 10
    assert max(len(thought.split()) for thought in thoughts) <= 7


def test_noop_answers_at_once() -> None:
    story = Story(first_task(ruled=False), {}).run(noop())
    assert story.calls == []


@pytest.mark.anyio
@pytest.mark.parametrize("tool_format", ["native", "hermes"])
async def test_the_real_agent_learns_from_one_episode_to_the_next(
    open_sandbox: Callable[[], Sandbox], tool_format: ToolFormat
) -> None:
    config = RunConfig(agent=AgentConfig(tool_format=tool_format, toolsets=("terminal", "skills")))
    lab = Lab(config, "digest", SUITE, ScriptedModel(learner(), tool_format=tool_format), open_sandbox)
    job = Job(first_task(ruled=True), "lane", round=0, sample=0, experience=0, place=0, review="always")
    before = await run_episode(lab, job, Knowledge())
    assert (before.error, before.success, len(before.verdicts)) == (None, False, 2)
    assert before.review is not None
    after = await run_episode(lab, job, Knowledge(merge(Library(), [before.review.writes])))
    assert (after.error, after.success, len(after.verdicts)) == (None, True, 1)
    assert after.skills.loaded == (f"{job.task.metadata['desk']}-totals",)
