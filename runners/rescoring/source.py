"""A run to rescore: its episodes, and the suite whose verifier is applied to them."""

import hashlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from hermes_lab import tasks as packaged
from hermes_lab.config.digest import result_fields
from hermes_lab.config.schema import RunConfig
from hermes_lab.config.sources import load_config
from hermes_lab.errors import ConfigError
from hermes_lab.lane import lane_key
from hermes_lab.manifest import RunManifest, read_manifest
from hermes_lab.protocols import Suite
from hermes_lab.returned import load_tasks
from hermes_lab.runners.engine.folder import with_kept_suite
from hermes_lab.runners.engine.plan import Lane, plan_run, tasks_digest
from hermes_lab.runners.experiments.experiment import plan_learn
from hermes_lab.skills.library import Library
from hermes_lab.suites import JudgedSuite
from hermes_lab.tasks import jsonl, load_suite
from hermes_lab.tasks.jsonl import JsonlSuite
from hermes_lab.types import Episode, Task
from hermes_lab.types.episode import CHAT
from hermes_lab.verification import check_judge

_GIVEN = ("prompt", "files", "setup", "pages", "attempts")
"""What the agent worked with: where it has changed, another verdict would be about another task."""

Key = tuple[int, int, str]
"""Replicate, world and id: all arms and weights have the same tasks."""


@dataclass(frozen=True)
class Source:
    """The run, its configuration with the new suite and judge, and the tasks now and then.

    `then` has the tasks of the run's own copy of a JSONL suite; it is empty for other suites, of which no copy is kept.
    """

    run: Path
    manifest: RunManifest
    config: RunConfig
    suite: Suite
    now: Mapping[Key, Task]
    then: Mapping[Key, Task]
    verifier: str

    def task_of(self, episode: Episode) -> Task | None:
        """The episode's task, as the suite has it now."""
        return self.now.get(_key(episode.lane, episode.task_id))

    def change_of(self, episode: Episode, task: Task) -> str:
        """The first part of the task that is not what the agent was given; "" for the same task."""
        then = self.then.get(_key(episode.lane, episode.task_id))
        if then:
            return next((name for name in _GIVEN if getattr(then, name) != getattr(task, name)), "")
        # A prompt that begins with a slash is expanded by the skill that it names.
        return "" if episode.prompt == task.prompt or task.prompt.startswith("/") else "prompt"


def open_source(run: Path, overrides: Sequence[str]) -> Source:
    """Reads the run and the suite, of which `overrides` may name another file.

    Raises `ConfigError` if there is no run or no suite, or if an override changes what the agent did.
    """
    manifest = read_manifest(run)
    if manifest.command == CHAT:
        raise ConfigError(f"{run}: holds turns of chats, which no verifier judges; /good and /bad in the chat do")
    before = RunConfig.model_validate(manifest.config)
    config = load_config(overrides, before.model_dump(mode="json"))
    _check_overrides(before, config)
    path = config.suite.path
    if path and not Path(path).exists():
        raise ConfigError(f"suite.path: {path} is gone; name the file with the changed verifier: -c suite.path=FILE")
    suite = load_suite(config.suite, config.sandbox)
    now = _tasks(manifest.command, config, suite)
    kept = with_kept_suite(run, before)
    then = _tasks(manifest.command, kept, load_suite(kept.suite, kept.sandbox)) if kept is not before else {}
    if before.judge and not (isinstance(suite, JudgedSuite) and any(map(suite.judge_rubric, now.values()))):
        config = config.model_copy(update={"judge": None})  # the run's own judge is not needed any more
    check_judge(config, suite, now.values())
    return Source(run, manifest, config, suite, now, then, _digest(config, suite, now.values()))


def _check_overrides(before: RunConfig, now: RunConfig) -> None:
    allowed = {"suite", "judge", "run"}
    changed = [name for name in type(now).model_fields if getattr(now, name) != getattr(before, name)]
    settings = before.run.model_copy(update={"concurrency": now.run.concurrency})
    if others := [name for name in changed if name not in allowed or (name == "run" and now.run != settings)]:
        raise ConfigError(
            f"{others[0]}: rescore runs no agent, so it cannot be changed; change suite, judge or run.concurrency"
        )


def _tasks(command: str, config: RunConfig, suite: Suite) -> dict[Key, Task]:
    if isinstance(suite, JsonlSuite):  # rows may have been added or removed since
        found = load_tasks(suite, split=config.suite.split, count=0, seed=0, world=0)
        if command == "run":
            return {_key("main", task.id): task for task in found}
        places = [(r, w) for r in range(config.learning.replicates) for w in range(config.learning.worlds)]
        return {(*place, task.id): task for place in places for task in found}
    if command == "run":
        lanes = plan_run(config, suite, Library())
    else:  # the arm `off` has the tasks of all, and needs no library
        learning = config.learning.model_copy(update={"arms": ("off",)})
        lanes = plan_learn(config.model_copy(update={"learning": learning}), suite, Library())
    return {_key(lane.name, task.id): task for lane in lanes for task in _all(lane)}


def _all(lane: Lane) -> Iterable[Task]:
    return (task for tasks in (*lane.rounds, *lane.heldout) for task in tasks)


def _key(lane: str, task: str) -> Key:
    place = lane_key(lane)
    return (place.replicate, place.world, task) if place else (0, 0, task)


def _digest(config: RunConfig, suite: Suite, tasks: Iterable[Task]) -> str:
    """sha256 of what decides a verdict: the answer keys, the verifier's source, and the judge."""
    judge = result_fields(config.model_dump(mode="json")).get("judge")
    parts = [tasks_digest([Lane("", "frozen", Library(), 1, [list(tasks)])]), *map(_file_digest, _sources(suite))]
    return hashlib.sha256(msgspec.json.encode([parts, judge])).hexdigest()


def _sources(suite: Suite) -> list[Path]:
    """The files with the verifier's code: a JSONL suite's module, or the package of a suite and of its families."""
    if isinstance(suite, JsonlSuite):
        return [Path(jsonl.__file__)]
    folders = set()
    for each in (suite, *getattr(suite, "families", ())):
        module = type(each).__module__
        root = sys.modules.get(module.partition(".")[0])
        if module.startswith("hermes_lab."):
            folders.add(Path(packaged.__path__[0]))
        elif root is not None and hasattr(root, "__path__"):  # a package without __init__.py has no file
            folders.update(map(Path, root.__path__))
        elif root is not None and root.__file__:
            folders.add(Path(root.__file__))
    files = [file for each in folders for file in ([each] if each.is_file() else each.rglob("*"))]
    return sorted(file for file in files if file.suffix in (".py", ".yaml", ".json"))


def _file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
