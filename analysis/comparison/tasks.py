"""Whether two runs have the same tasks, and which tasks and samples only one of them has."""

import hashlib
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

import msgspec
import pandas as pd
from msgspec import Struct

from hermes_lab.errors import ConfigError
from hermes_lab.manifest import RunManifest, read_manifest
from hermes_lab.records import read_attempts
from hermes_lab.tasks_version import other_versions
from hermes_lab.text.counted import counted

TaskKey = tuple[str, str]
"""A suite and a task of it."""


def refuse_other_tasks(before: Path, after: Path) -> None:
    """Raises `ConfigError` if two runs have other tasks, or tasks of the same id with other content."""
    a, b = read_manifest(before), read_manifest(after)
    if a.tasks_digest and a.tasks_digest == b.tasks_digest:
        return
    was, now = a.config.get("suite", {}), b.config.get("suite", {})
    # `count` may differ: a longer draw starts with the same tasks. So may the folder of a file of tasks.
    for field in sorted((was.keys() | now.keys()) - {"count"}):
        if _told(field, was.get(field)) != _told(field, now.get(field)):
            raise ConfigError(
                f"{before} and {after} cannot be paired: suite.{field} is {was.get(field)!r} in one and "
                f"{now.get(field)!r} in the other; compare runs of the same tasks"
            )
    olds, news = _prompts(before), _prompts(after)
    changed = sorted(task for task in olds.keys() & news.keys() if olds[task] != news[task])
    if changed:
        versions = ""
        if other := other_versions(a.tasks_digest, b.tasks_digest):
            versions = f" (versions {other[0]} and {other[1]} of the tasks)"
        elif a.prompts != b.prompts:
            versions = f" (versions {a.prompts} and {b.prompts} of the prompts)"
        raise ConfigError(
            f"{before} and {after} cannot be paired: {len(changed):,} of {len(olds.keys() & news.keys()):,} tasks of "
            f"the same id have another prompt{versions}, such as {changed[0][1]}; run both on the same tasks"
        )
    if _same_plan(a, b):
        raise ConfigError(
            f"{before} and {after} cannot be paired: their tasks have the same ids and prompts, but other content, "
            "such as files or answers (tasks_digest in run.json); run both on the same tasks"
        )


def coverage(before: pd.DataFrame, after: pd.DataFrame, names: tuple[str, str]) -> Iterator[str]:
    """What only one of two runs has, a line each: tasks, and samples of tasks that both have."""
    olds, news = (set(zip(side["suite"], side["task_id"], strict=True)) for side in (before, after))
    only = [(len(mine - other), name) for mine, other, name in ((olds, news, names[0]), (news, olds, names[1]))]
    if any(count for count, _ in only):
        told = " and ".join(f"{counted(count, 'task')} only in {name}" for count, name in only if count)
        yield f"{told}: left out"
    shared = olds & news
    samples = [max(_samples(side, shared), default=0) for side in (before, after)]
    if samples[0] != samples[1]:
        yield f"samples per task: {samples[0]:,} and {samples[1]:,}; those without a counterpart are left out"


def _samples(side: pd.DataFrame, shared: set[TaskKey]) -> Iterator[int]:
    """For each episode of the shared tasks, its place among the samples of its task, from 1."""
    rows = zip(side["suite"], side["task_id"], side["sample"], strict=True)
    return (int(sample) + 1 for suite, task, sample in rows if (suite, task) in shared)


def _told(field: str, value: Any) -> Any:
    return PurePath(value).stem if field == "path" and isinstance(value, str) else value


def _same_plan(a: RunManifest, b: RunManifest) -> bool:
    """Whether both digests are of the same selection of tasks by the same version, so that they differ in content only.

    Versions may write tasks in different ways, and lanes are part of a digest.
    """
    of_suite = [run.config.get("suite", {}).get("count") for run in (a, b)]
    lanes = [_lanes(run) for run in (a, b)]
    versions = [run.versions.get("hermes-lab") for run in (a, b)]
    known = bool(a.tasks_digest and b.tasks_digest and versions[0])
    return known and of_suite[0] == of_suite[1] and lanes[0] == lanes[1] and versions[0] == versions[1]


def _lanes(run: RunManifest) -> Any:
    return run.command, {} if run.command == "run" else run.config.get("learning")


class _Message(Struct, frozen=True):
    role: str
    content: str = ""


class _Trajectory(Struct, frozen=True):
    messages: msgspec.Raw = msgspec.Raw(b"[]")


class _Program(Struct, frozen=True):
    prompt: str = ""


class _Line(Struct, frozen=True):
    suite: str
    task_id: str
    v: int = 1
    trajectory: _Trajectory | None = None
    program: _Program | None = None


def _prompts(run: Path) -> dict[TaskKey, bytes]:
    """A digest of each task's prompt, which is that of `Episode.prompt`."""
    found: dict[TaskKey, bytes] = {}
    for line in read_attempts(run, _Line):
        task = (line.suite, line.task_id)
        if task in found or line.trajectory is None:
            continue
        if line.program and line.program.prompt:
            found[task] = _digest(line.program.prompt)
            continue
        messages = msgspec.json.decode(line.trajectory.messages, type=list[_Message])
        if prompt := next((message.content for message in messages if message.role == "user"), None):
            found[task] = _digest(prompt)
    return found


def _digest(prompt: str) -> bytes:
    return hashlib.sha256(prompt.encode()).digest()
