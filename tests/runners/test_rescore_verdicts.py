"""One episode judged again: by a verifier that takes any failure for the agent's, and with feedback in between."""

from functools import partial
from pathlib import Path

import msgspec
import pytest

from hermes_lab.config.schema import RunConfig
from hermes_lab.manifest import RunManifest
from hermes_lab.protocols import Workspace
from hermes_lab.runners.rescoring.source import Source
from hermes_lab.runners.rescoring.verdicts import NOT_KEPT, Rescorer, Unknown, answers_of
from hermes_lab.sandbox import open_sandbox
from hermes_lab.types import Episode, Message, ModelIdentity, Task, TaskInfo, Trajectory, Verdict


class Careless:
    """Scores 0 for whatever goes wrong; "later" needs a file only for the second submission."""

    name = "careless"
    splits = ("train",)
    tasks = (Task(id="reads", suite="careless", prompt="Go."), Task(id="later", suite="careless", prompt="Go."))

    def load(self, *, split: str, count: int, seed: int, world: int) -> list[Task]:
        return list(self.tasks)

    async def verify(self, task: Task, workspace: Workspace, answer: str | None, attempt: int = 1) -> Verdict | None:
        if task.id == "later" and attempt == 1:
            return Verdict(0.5, False, feedback="Once more.")
        try:
            return Verdict(float(await workspace.read("a") == b"a"), True)
        except BaseException:
            return Verdict(0.0, False)


def episode_of(task_id: str, *turns: Message, verdicts: tuple[Verdict, ...] = (Verdict(1.0, True),)) -> Episode:
    messages = (Message("system", "You work."), Message("user", "Go."), *turns)
    return Episode(
        suite="careless",
        task_id=task_id,
        lane="main",
        round=0,
        sample=0,
        experience=0,
        place=0,
        status="ok",
        task=TaskInfo("d", "train"),
        model=ModelIdentity("scripted", "m"),
        config_digest="",
        started_at="",
        seconds=0.0,
        score=verdicts[0].score,
        success=verdicts[0].success,
        verdicts=verdicts,
        trajectory=Trajectory(messages, (), "native", "answered", final_response=messages[-1].content),
    )


def rescorer(tmp_path: Path) -> Rescorer:
    config = RunConfig()
    manifest = RunManifest(
        command="run", config={}, config_digest="", tasks_digest="", wanted=1, created_at="", versions={}
    )
    now = {(0, 0, task.id): task for task in Careless.tasks}
    source = Source(tmp_path, manifest, config, Careless(), now, {}, "digest")
    return Rescorer(source, partial(open_sandbox, config.sandbox), None)


@pytest.mark.anyio
async def test_a_verifier_that_takes_a_missing_workspace_for_a_failure_gives_no_zero(tmp_path: Path) -> None:
    again = await rescorer(tmp_path).rescore(episode_of("reads", Message("assistant", "Done.")))
    assert again.rescored is not None
    assert (again.status, again.score, again.success, again.verdicts) == ("ok", None, None, ())
    assert again.rescored.problem == NOT_KEPT
    assert (again.rescored.score, again.rescored.success) == (1.0, True)


@pytest.mark.anyio
async def test_the_first_submission_is_judged_even_if_later_ones_cannot_be(tmp_path: Path) -> None:
    first = Verdict(0.0, False, feedback="No.")
    turns = (Message("assistant", "One."), Message("user", "No."), Message("assistant", "Two."))
    again = await rescorer(tmp_path).rescore(episode_of("later", *turns, verdicts=(first, Verdict(1.0, True))))
    assert (again.score, [verdict.score for verdict in again.verdicts]) == (0.5, [0.5])
    assert again.rescored is not None
    assert (again.rescored.problem, again.rescored.problem_later) == ("", NOT_KEPT)


def test_each_answer_stands_before_the_feedback_on_it() -> None:
    verdicts = tuple(Verdict(0.0, False, feedback=text) for text in ("No.", "No.", ""))
    turns = [
        Message("assistant", "<think>hm</think>One."),
        Message("user", "No."),
        Message("assistant", "Two."),
        Message("user", "No."),
        Message("assistant", "Three."),
    ]
    episode = episode_of("reads", *turns, verdicts=verdicts)
    assert answers_of(episode) == ["One.", "Two.", "Three."]
    other = msgspec.structs.replace(verdicts[0], feedback="Never said.")
    unknown, *_ = answers_of(msgspec.structs.replace(episode, verdicts=(other, *verdicts[1:])))
    assert isinstance(unknown, Unknown)
