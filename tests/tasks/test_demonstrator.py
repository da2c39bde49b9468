import json
from collections.abc import Callable, Iterator, Mapping

import pytest
from story import Story

from hermes_lab.config.schema import AgentConfig, RunConfig
from hermes_lab.knowledge import Knowledge
from hermes_lab.models.scripted import ScriptedModel
from hermes_lab.protocols import Sandbox
from hermes_lab.rollout import RolloutContext, RolloutSpec, run_episode
from hermes_lab.skills.learning.observe import Done, done
from hermes_lab.skills.library import Library
from hermes_lab.tasks.conversation import text_of
from hermes_lab.tasks.demonstrator import DEMONSTRATED, demonstrator, mistyped
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import shell
from hermes_lab.tasks.learner import WORDS
from hermes_lab.tasks.registry import domains, load_family
from hermes_lab.tasks.subtasks import subtasks_of
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.tasks.worlds import WorldSpec
from hermes_lab.types import Episode, Message, ToolResult

FAMILIES = sorted(family for families in domains().values() for family in families)


def suite_of(family: str, **spec: object) -> WorldSuite:
    return WorldSuite(family, (load_family(family),), WorldSpec(**spec))  # type: ignore[arg-type]


async def lane(suite: WorldSuite, count: int, model: ScriptedModel, open_sandbox: Callable[[], Sandbox]) -> Iterator:  # type: ignore[type-arg]
    """The episodes of one lane, each with what the ones before it taught."""
    toolsets = ("terminal", "file", "web", "skill_view", "skill_manage")
    config = RunConfig(agent=AgentConfig(tool_format="hermes", prompt="compact", toolsets=toolsets))
    lab = RolloutContext(config, "digest", suite, model, open_sandbox)
    library, episodes = Library(), []
    for n, task in enumerate(suite.load(split="train", count=count, seed=0, world=0)):
        job = RolloutSpec(task, "lane", round=n, sample=0, experience=n, place=0, review="always")
        episode = await run_episode(lab, job, Knowledge(library))
        assert episode.error is None
        assert episode.review is not None
        for write in episode.review.writes:
            library = library.after(write)
        episodes.append(episode)
    return iter(episodes)


def messages(episode: Episode) -> list[Message]:
    assert episode.trajectory
    assert episode.review
    assert episode.review.trajectory
    return [*episode.trajectory.messages, *episode.review.trajectory.messages]


def calls(episode: Episode) -> list[Done]:
    return list(done(messages(episode)))


def assert_no_failed_call_comes_again(episode: Episode) -> None:
    failed: list[object] = []
    for each in calls(episode):
        assert each.result.executed, each.result.content
        assert (each.call.name, each.call.arguments) not in failed
        if each.failed:
            failed.append((each.call.name, each.call.arguments))


def assert_nothing_is_written_over_unseen(episode: Episode, files: Mapping[str, str]) -> None:
    """A file that the task came with was named in an earlier call, or some line of it shown by one."""
    before: list[Done] = []
    for each in calls(episode):
        path = str((each.call.arguments or {}).get("path"))
        if each.call.name == "write_file" and path in files:
            lines = [line for line in files[path].splitlines() if len(line) > 12]
            shown = "\n".join(f"{one.call.arguments} {one.result.content}" for one in before if not one.failed)
            assert path in shown or any(json.dumps(line)[1:-1] in shown for line in lines), path
        before.append(each)


def test_where_work_begins_with_the_look_that_is_not_made_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        type(load_family("ledger")), "explore", lambda self, instance: (*self.solve(instance, None), shell("pwd"))
    )
    suite = suite_of("ledger", ruled=0, plain=2)
    task = suite.load(split="train", count=1, seed=0, world=0)[0]
    (subtask,) = subtasks_of(task.truth)
    story = Story(suite, task, Library()).run(demonstrator(stumble=0.0))
    assert [call.arguments for call in story.calls] == [
        {"command": "pwd"},
        *(dict(m.arguments) for m in subtask.solve(None)),
    ]


@pytest.mark.anyio
@pytest.mark.parametrize("family", FAMILIES)
async def test_in_every_family_it_finds_the_rule_uses_the_skill_and_mends_it(
    family: str, open_sandbox: Callable[[], Sandbox]
) -> None:
    suite = suite_of(family, ruled=1, plain=0, drift_at=2)
    model = ScriptedModel(demonstrator(stumble=1.0), tool_format="hermes")
    episodes = list(await lane(suite, 3, model, open_sandbox))
    found, used, misled = episodes
    files = {task.id: task.files for task in suite.load(split="train", count=3, seed=0, world=0)}
    assert [len(episode.verdicts) for episode in episodes] == [2, 1, 2]
    assert all(episode.verdicts[-1].success for episode in episodes)
    assert [[write.action for write in e.review.writes] for e in episodes] == [["create"], [], ["patch"]]
    assert [len(episode.skills.loaded) for episode in episodes] == [0, 1, 1]
    for episode in episodes:
        assert_no_failed_call_comes_again(episode)
        assert_nothing_is_written_over_unseen(episode, files[episode.task_id])
        assert any(each.failed for each in calls(episode)), "it stumbled"
    (skill,) = used.skills.loaded
    (site,) = suite.sites(split="train", world=0)
    said = [message.content for message in messages(used) if message.role == "assistant"]
    assert said[0].startswith(f'Skill "{skill}" ')
    assert site.called in next(m.content for m in messages(found) if m.role == "assistant")
    assert messages(misled)[-1].content.strip()


def test_what_it_says_fits_every_moment() -> None:
    assert DEMONSTRATED.keys() == WORDS.keys() | {"mistyped", "mended", "reading"}
    suite = suite_of("ledger", ruled=3, plain=1)
    said: set[str] = set()
    library = Library()
    for task in suite.load(split="train", count=60, seed=0, world=0):
        story = Story(suite, task, library).run(demonstrator())
        library = story.library
        said |= set(story.said)
        assert all(text[0].upper() == text[0] for text in story.said)
    assert len(said) > 20
    assert not any("{" in text for text in said)


def test_it_always_looks_first_and_stumbles_as_often_as_asked() -> None:
    suite = suite_of("ledger", ruled=0, plain=3)
    stumbled = 0
    tasks = suite.load(split="train", count=400, seed=0, world=0)
    for task in tasks:
        story = Story(suite, task, Library()).run(demonstrator(stumble=0.1))
        assert story.successes == [True]
        (subtask,) = subtasks_of(task.truth)
        commands = [call.arguments["command"] for call in story.calls]
        explore = [action.arguments["command"] for action in subtask.explore()]
        assert commands[: len(explore)] == explore
        stumbled += len(commands) - len(explore) > 1
    assert 0.06 < stumbled / len(tasks) < 0.14


def test_a_place_that_prompts_do_not_name_is_not_named_before_somebody_does() -> None:
    suite = suite_of("ledger", ruled=2, plain=0, wording="far")
    for task in suite.load(split="train", count=10, seed=0, world=0):
        story = Story(suite, task, Library()).run(demonstrator())
        (subtask,) = subtasks_of(task.truth)
        assert subtask.site.entity.name not in story.said[0].lower()
        assert subtask.site.entity.about in story.said[0]


@pytest.mark.parametrize(
    "path", ["./ledger", "fleet.csv", "etc/app/conf.d/10-main.conf", "a/11.22", "https://x.org/aa"]
)
def test_a_mistyped_name_is_another_one_in_the_same_folder(path: str) -> None:
    for seed in range(20):
        wrong = mistyped(path, Draws(seed))
        assert wrong != path
        assert wrong.rpartition("/")[0] == path.rpartition("/")[0]


def test_results_that_are_no_json_are_no_skill() -> None:
    assert text_of(ToolResult("c", "skill_view", "broken", ok=False)) == ""
    assert text_of(ToolResult("c", "skill_view", '{"error": "no skill"}', ok=False)) == ""
