import re
from collections.abc import Callable
from dataclasses import replace
from math import sqrt

import msgspec
import pytest
from story import Story

from hermes_lab.agent.review import REVIEW_REQUEST
from hermes_lab.config.schema import AgentConfig, RunConfig
from hermes_lab.errors import ConfigError, ModelError
from hermes_lab.knowledge import Knowledge
from hermes_lab.models.scripted import ScriptedModel, TaskAwarePolicy, load_policy
from hermes_lab.protocols import Sandbox
from hermes_lab.rollout import RolloutContext, RolloutSpec, run_episode
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.learning.write_policy import objection
from hermes_lab.skills.library import Library, merge
from hermes_lab.skills.placebo import placebo
from hermes_lab.tasks import load_suite
from hermes_lab.tasks.demonstrator import demonstrator
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.expected import expected_success
from hermes_lab.tasks.family import criterion
from hermes_lab.tasks.feedback import PLAIN, write_feedback
from hermes_lab.tasks.learner import Lesson, believed, learner, learnt, lines_about, noop
from hermes_lab.tasks.registry import domains, load_family, served
from hermes_lab.tasks.subtasks import known_skill, subtasks_of
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.tasks.worlds import WorldSpec, redraw
from hermes_lab.types import Message, Task
from hermes_lab.types.trajectory import ToolFormat

LEDGER = load_family("ledger")
FAMILIES = sorted([*(family for families in domains().values() for family in families), *served()])


def ledger(**spec: object) -> WorldSuite:
    return WorldSuite("ledger", (LEDGER,), WorldSpec(**spec))  # type: ignore[arg-type]


def first_task(suite: WorldSuite, *, ruled: bool = True) -> Task:
    tasks = suite.load(split="train", count=50, seed=0, world=0)
    return next(task for task in tasks if bool(task.triggers) == ruled)


def taught(suite: WorldSuite, task: Task) -> Library:
    return Story(suite, task, Library()).run(learner()).library


@pytest.mark.parametrize("hermes", [False, True])
def test_it_fails_once_learns_and_then_succeeds(hermes: bool) -> None:
    suite = ledger()
    task = first_task(suite)
    before = Story(suite, task, Library(), hermes).run(learner())
    assert before.names == ["terminal", "terminal", "skill_manage"]
    assert before.successes == [False, True]
    after = Story(suite, task, before.library, hermes).run(learner())
    assert after.names == ["skill_view", "terminal"]
    assert after.successes == [True]
    assert after.said[-1] == "Nothing to save."


def test_it_writes_the_skill_that_somebody_would_who_was_told() -> None:
    suite = ledger()
    task = first_task(suite)
    (subtask,) = subtasks_of(task.truth)
    (skill,) = taught(suite, task).skills.values()
    assert skill_format.shown(skill) == known_skill(subtask.site, subtask.site.drawn).text


def test_a_plain_place_teaches_nothing() -> None:
    suite = ledger()
    story = Story(suite, first_task(suite, ruled=False), Library()).run(learner())
    assert story.successes == [True]
    assert story.names == ["terminal"]


def test_another_places_skill_is_left_alone() -> None:
    suite = ledger()
    task = first_task(suite)
    mine = subtasks_of(task.truth)[0].site
    others = [site for site in suite.sites(split="train", world=0) if site.entity != mine.entity]
    library = Library(known_skill(site, site.drawn) for site in others)
    assert Story(suite, task, library).run(learner()).names == ["terminal", "terminal", "skill_manage"]


def test_what_it_does_is_what_the_viewed_skill_says_and_not_what_is_true() -> None:
    suite = ledger()
    task = first_task(suite)
    (subtask,) = subtasks_of(task.truth)
    emptied = Story(suite, task, placebo(taught(suite, task))).run(learner())
    assert emptied.names[0] == "skill_view"
    assert emptied.calls[1].arguments == subtask.solve(None)[0].arguments
    assert emptied.successes == [False, True]
    wrong = known_skill(subtask.site, redraw(subtask.site, Draws("another")))
    assert Story(suite, task, Library([wrong])).run(learner()).successes == [False, True]


def test_after_a_redraw_a_skill_misleads_is_patched_and_holds() -> None:
    suite = ledger(ruled=1, plain=0, drift_at=1)
    old, new, again = suite.load(split="train", count=3, seed=0, world=0)
    library = taught(suite, old)
    misled = Story(suite, new, library).run(learner())
    (subtask,) = subtasks_of(new.truth)
    assert misled.names == ["skill_view", "terminal", "terminal", "skill_manage"]
    assert misled.calls[1].arguments == subtask.solve(subtask.candidates[0])[0].arguments
    assert misled.writes == ["patch"]
    assert Story(suite, again, misled.library).run(learner()).successes == [True]


def test_where_nothing_special_holds_any_more_it_says_so_and_believes_it() -> None:
    suite = ledger(ruled=1, plain=0, drift_at=1, drift="invert")
    old, new, again = suite.load(split="train", count=3, seed=0, world=0)
    misled = Story(suite, new, taught(suite, old)).run(learner())
    assert misled.successes == [False, True]
    (skill,) = misled.library.skills.values()
    assert "There is no special rule" in skill.text
    after = Story(suite, again, misled.library).run(learner())
    assert after.names == ["skill_view", "terminal"]
    assert after.successes == [True]


def test_of_two_places_only_the_rejected_one_is_done_again() -> None:
    suite = ledger(ruled=2, plain=2, pieces=2)
    tasks = suite.load(split="train", count=40, seed=0, world=0)
    task = next(task for task in tasks if len(task.triggers) == 1)
    story = Story(suite, task, Library()).run(learner())
    assert story.successes == [False, True]
    assert story.names == ["terminal"] * 3 + ["skill_manage"]


def test_it_asks_on_while_nobody_tells_the_rule() -> None:
    suite = ledger(discovery=2)
    story = Story(suite, first_task(suite), Library()).run(learner())
    assert story.successes == [False, False, False, True]
    silent = ledger(salience="symptom")
    story = Story(silent, first_task(silent), Library()).run(learner())
    assert story.successes == [False, False]
    assert story.writes == []


def test_it_never_captures_at_rate_zero_and_never_looks_when_it_slips() -> None:
    suite = ledger()
    task = first_task(suite)
    assert Story(suite, task, Library()).run(learner(capture=0.0)).writes == []
    slipping = Story(suite, task, taught(suite, task)).run(learner(slip=1.0))
    assert slipping.names == ["terminal", "terminal"]
    assert Story(suite, task, Library()).run(learner(slip=1.0)).writes == []


def test_a_skill_that_is_there_but_not_listed_is_edited() -> None:
    suite = ledger()
    task = first_task(suite)
    (skill,) = taught(suite, task).skills.values()
    hidden = Library(
        [skill_format.marked(skill_format.rewritten(skill, skill.description, "Old."), state="deprecated")]
    )
    story = Story(suite, task, hidden).run(learner())
    assert story.names == ["terminal", "terminal", "skill_manage", "skill_manage"]
    assert story.writes == ["edit"]
    assert believed(subtasks_of(task.truth)[0], story.library.skills[skill.name].text) is not None


def test_decisions_depend_on_seed_and_task_only() -> None:
    suite = ledger()
    tasks = [task for task in suite.load(split="train", count=80, seed=0, world=0) if task.triggers]
    first, again, other = (
        [bool(Story(suite, task, Library()).run(learner(capture=0.5, seed=seed)).writes) for task in tasks]
        for seed in (1, 1, 2)
    )
    assert first == again != other


def test_tasks_of_one_prompt_in_two_worlds_are_told_apart() -> None:
    suite = ledger()
    task = first_task(suite)
    (subtask,) = subtasks_of(task.truth)
    twin = replace(subtask, site=replace(subtask.site, ruled=False))
    policy = learner()
    assert Story(suite, task, Library()).run(policy).successes == [False, True]
    plain = msgspec.structs.replace(task, id="other", truth={"pieces": (twin,)})
    assert Story(suite, plain, Library()).run(policy).successes == [True]


@pytest.mark.parametrize(
    ("spec", "capture", "slip"),
    [
        ({"ruled": 3, "plain": 1}, 0.6, 0.15),
        ({"ruled": 3, "plain": 2, "pieces": 2, "frequencies": "zipf"}, 0.8, 0.0),
        ({"ruled": 3, "plain": 1, "drift_at": 6}, 0.8, 0.1),
        ({"ruled": 3, "plain": 2, "drift_at": 6, "drift": "invert", "discovery": 1}, 0.7, 0.1),
        ({"ruled": 3, "plain": 1, "salience": "worded"}, 1.0, 0.0),
    ],
)
def test_the_success_rate_follows_the_closed_form(spec: dict[str, object], capture: float, slip: float) -> None:
    suite, length, lanes = ledger(**spec), 12, 30
    solved = [0] * length
    for lane in range(lanes):
        library = Library()
        for n, task in enumerate(suite.load(split="heldout", count=length, seed=lane, world=lane)):
            story = Story(suite, task, library).run(learner(capture, slip, seed=lane))
            solved[n] += story.successes[0]
            library = story.library
    for n in range(length):
        expected = expected_success(n, suite.spec, capture, slip)
        deviation = sqrt(max(expected * (1 - expected), 1e-9) / lanes)
        assert abs(solved[n] / lanes - expected) < 4 * deviation + 1e-9, n
    mean = sum(expected_success(n, suite.spec, capture, slip) for n in range(length)) / length
    assert abs(sum(solved) / lanes / length - mean) < 0.1


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("split", ["train", "validation", "heldout"])
def test_every_rule_can_be_told_believed_and_saved(family: str, split: str) -> None:
    for salience in ("told", "worded"):
        spec = WorldSpec(ruled=6, plain=0, unseen=3, drift_at=20, salience=salience)  # type: ignore[arg-type]
        suite = WorldSuite(family, (load_family(family),), spec)
        for world in range(3):
            for task in suite.load(split=split, count=30, seed=0, world=world)[15:]:
                (subtask,) = subtasks_of(task.truth)
                rejected = [[criterion("right", False, "it is not right", ruled=True)]]
                feedback = write_feedback([subtask], rejected, suite.spec, 1, Draws(task.id))
                lesson = learnt(subtask, lines_about(subtask, feedback))
                assert lesson == Lesson(subtask.site.drawn), feedback
                for rule in subtask.candidates:
                    skill = known_skill(subtask.site, rule)
                    body = skill_format.body(skill)
                    assert believed(subtask, skill.text) == rule, body
                    assert objection(f"{skill.description}\n{body}") is None


def test_where_no_rule_holds_the_reason_is_told_before_the_plain_sentence_and_it_is_believed() -> None:
    suite = ledger()
    (subtask,) = subtasks_of(first_task(suite, ruled=False).truth)
    rejected = [[criterion("right", False, "the total is not right", ruled=True)]]
    feedback = write_feedback([subtask], rejected, suite.spec, 1, Draws("it"))
    told = f"{subtask.site.called} has no special rule, so the standard way is right"
    assert feedback == f"Rejected: the total is not right; {told}."
    assert learnt(subtask, lines_about(subtask, feedback)) == Lesson(None)


@pytest.mark.parametrize("policy", [learner(), demonstrator()])
def test_an_ordinary_mistake_at_a_plain_place_blames_no_skill_and_teaches_nothing(policy: TaskAwarePolicy) -> None:
    suite = ledger()
    task = first_task(suite, ruled=False)
    (subtask,) = subtasks_of(task.truth)
    feedback = f"Rejected: a line is missing; {PLAIN.format(place=subtask.site.called)}."
    told = [Message(role="user", content=task.prompt), Message(role="user", content=feedback)]
    again = policy.for_task(task)(told)
    assert again.tool_calls[0].arguments == subtask.solve(None)[0].arguments
    assert "out of date" not in again.content
    assert "  " not in again.content
    assert policy.for_task(task)([*told, Message(role="user", content=REVIEW_REQUEST)]).tool_calls == ()


@pytest.mark.parametrize("rates", [{"capture": 1.2}, {"capture": -0.1}, {"slip": 20}, {"slip": "much"}])
def test_a_rate_that_is_no_probability_is_refused(rates: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=r"model.options: \w+ must be a probability from 0 to 1, not "):
        load_policy("hermes_lab.tasks.learner:learner", rates)


def test_noop_answers_at_once() -> None:
    assert noop()([Message(role="user", content="Work.")]).tool_calls == ()


@pytest.mark.anyio
async def test_a_chat_has_no_task_and_the_model_says_so() -> None:
    with pytest.raises(ModelError, match="works only on tasks of a suite"):
        await ScriptedModel(learner(), name="it").generate([Message(role="user", content="Hello.")], [])


@pytest.mark.anyio
@pytest.mark.parametrize("tool_format", ["native", "hermes"])
async def test_the_real_agent_learns_from_one_episode_to_the_next(
    open_sandbox: Callable[[], Sandbox], tool_format: ToolFormat
) -> None:
    suite = load_suite(RunConfig(suite={"name": "ledger"}).suite)  # type: ignore[arg-type]
    assert isinstance(suite, WorldSuite)
    config = RunConfig(agent=AgentConfig(tool_format=tool_format, toolsets=("terminal", "skills")))
    lab = RolloutContext(config, "digest", suite, ScriptedModel(learner(), tool_format=tool_format), open_sandbox)
    job = RolloutSpec(first_task(suite), "lane", round=0, sample=0, experience=0, place=0, review="always")
    before = await run_episode(lab, job, Knowledge())
    assert (before.error, before.success, len(before.verdicts)) == (None, False, 2)
    assert before.review is not None
    after = await run_episode(lab, job, Knowledge(merge(Library(), before.review.writes)))
    assert (after.error, after.success, len(after.verdicts)) == (None, True, 1)
    assert after.skills.loaded == (subtasks_of(job.task.truth)[0].site.skill_name,)


@pytest.mark.anyio
@pytest.mark.parametrize("policy", [learner(), demonstrator()])
async def test_a_family_whose_tools_are_not_there_is_an_error_that_names_the_toolset(
    open_sandbox: Callable[[], Sandbox], policy: TaskAwarePolicy
) -> None:
    config = RunConfig(agent=AgentConfig(toolsets=("terminal", "skill_view", "skill_manage")))
    suite = WorldSuite("repair", (load_family("repair"),), WorldSpec())
    lab = RolloutContext(config, "digest", suite, ScriptedModel(policy), open_sandbox)
    job = RolloutSpec(first_task(suite), "lane", round=0, sample=0, experience=0, place=0, review="always")
    episode = await run_episode(lab, job, Knowledge())
    assert episode.error is not None
    assert episode.error.kind == "model"
    assert re.search(r"needs `\w+_file`: add `file` to agent.toolsets", episode.error.message), episode.error
