"""Leave-one-out ablation: reruns the tasks of a run's lanes with the final library and without each skill.

Each lane of the source becomes one lane `all` and one `without-<skill>` for each skill that its prompts list. They do
not learn: all their tasks are held out. The two sides of a pair differ only in the one skill.
"""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from hermes_lab.analysis.data.runs import open_runs
from hermes_lab.analysis.skill_effects.funnel import read_seen
from hermes_lab.config.schema import RunConfig
from hermes_lab.config.sources import load_config
from hermes_lab.errors import ConfigError
from hermes_lab.knowledge import Knowledge
from hermes_lab.lane import WHOLE, lane_key, lane_name, without
from hermes_lab.memory.notes import Notes
from hermes_lab.protocols import Suite
from hermes_lab.runners.engine.folder import with_kept_suite
from hermes_lab.runners.engine.plan import Lane, tasks_digest
from hermes_lab.runners.engine.reload import lanes_of
from hermes_lab.runners.engine.snapshots import load_notes
from hermes_lab.runners.engine.weights import weights_of
from hermes_lab.skills.learning.listing import choose
from hermes_lab.skills.library import Library, check_skill_name, load_snapshot
from hermes_lab.tasks import load_suite
from hermes_lab.tasks_version import other_versions
from hermes_lab.types import Task

Blocks = Sequence[Sequence[Task]]


@dataclass(frozen=True)
class Source:
    """An experiment and the lanes whose skills are ablated. `warning` is set if it is not finished."""

    run: Path
    warning: str
    config: RunConfig
    suite: Suite
    lanes: Sequence[Lane]


def open_source(text: str, arm: str, overrides: Sequence[str]) -> Source:
    """Resolves RUN:LANE to a lane, or RUN to the lanes of an `arm`. Raises `ConfigError` for unknown lanes, for a run
    that is not an experiment, and if the suite no longer generates the same tasks."""
    run, lane = Path(text), ""
    if not run.is_dir() and ":" in text:
        folder, _, lane = text.rpartition(":")
        run = Path(folder)
    (opened,) = open_runs(run)
    manifest = opened.manifest
    if manifest.command != "learn":
        raise ConfigError(
            f"{run}: is a `{manifest.command}` run; uplift needs an experiment (use the arm `frozen` for your own "
            "library)"
        )
    asked = load_config(overrides, manifest.config)
    config = with_kept_suite(
        run, asked.model_copy(update={"skills": asked.skills.model_copy(update={"library": text})})
    )
    suite = load_suite(config.suite, config.sandbox)
    lanes = lanes_of(run, config, suite)
    if other := other_versions(manifest.tasks_digest, now := tasks_digest(lanes)):
        raise ConfigError(
            f"{run}: has version {other[0]} of the tasks, now it is {other[1]}, so they cannot be regenerated"
        )
    if manifest.tasks_digest != now:
        raise ConfigError(f"{run}: its tasks cannot be regenerated, since the suite or the overrides have changed")
    chosen = [each for each in lanes if (each.name == lane if lane else _has_arm(each, arm))]
    if not chosen:
        known = ", ".join(each.name for each in lanes) if lane else ", ".join(dict.fromkeys(each.arm for each in lanes))
        what = f"lane {lane!r}; choose from {known}" if lane else f"arm {arm!r}; choose --arm from {known}"
        raise ConfigError(f"{run}: has no {what}")
    return Source(run, opened.warning(), config, suite, chosen)


def plan_uplift(source: Source, *, skills: Collection[str] = (), about: bool = False, most: int = 0) -> list[Lane]:
    """The lanes of the leave-one-out run. `skills` are the skills to ablate (default: all that prompts list); `most` is
    the maximum number of tasks per skill, 0 for all.

    A skill is tested on the held-out tasks whose prompt lists it; the others would not change. With `about`, or if the
    lane has no held-out tasks, it is tested on the tasks in which it was eligible or loaded in the source run.
    Raises `ConfigError` if there is nothing to run.
    """
    last = {lane.name: _final_knowledge(source.run, lane) for lane in source.lanes}
    every = Library(skill for knowledge in last.values() for skill in knowledge.library.skills.values())
    for name in skills:
        check_skill_name(every, name)
    planned = [new for lane in source.lanes for new in _leave_out(source, lane, last[lane.name], skills, about, most)]
    if not planned:
        lanes = ", ".join(lane.name for lane in source.lanes)
        raise ConfigError(f"{source.run}: no skill of {lanes} applies to a task, so there is nothing to rerun")
    return planned


def libraries_digest(lanes: Sequence[Lane]) -> str:
    """A digest over the initial knowledge of all lanes."""
    parts = (f"{lane.library.snapshot}/{lane.notes.snapshot if lane.notes.memory else ''}" for lane in lanes)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _leave_out(
    source: Source, lane: Lane, knowledge: Knowledge, skills: Collection[str], about: bool, most: int
) -> Iterator[Lane]:
    wanted = [name for name in knowledge.library.listed if not skills or name in skills]
    met = _listed_in_prompts(source, lane, knowledge.library) if lane.heldout and not about else _about(source, lane)
    blocks = _blocks(lane)
    order = [task.id for block in blocks for task in block]
    tasks = {name: list(islice((each for each in order if name in met.get(each, ())), most or None)) for name in wanted}
    tasks = {name: ids for name, ids in tasks.items() if ids}
    if not tasks:
        return
    sides = [(WHOLE, knowledge.library, {each for ids in tasks.values() for each in ids})]
    sides += [(without(name), knowledge.library.without(name), set(ids)) for name, ids in tasks.items()]
    key = lane_key(lane.name)
    assert key is not None
    with_weights = len(weights_of("learn", source.config)) > 1
    for arm, library, ids in sides:
        yield Lane(
            name=lane_name(key._replace(arm=arm), with_weights=with_weights),
            arm="frozen",
            library=library,
            samples=1,
            rounds=(),
            blocks=lane.blocks,
            weights=lane.weights,
            heldout=[[task for task in block if task.id in ids] for block in blocks],
            checks=frozenset({0}),
            notes=knowledge.notes,
        )


def _listed_in_prompts(source: Source, lane: Lane, library: Library) -> Mapping[str, Collection[str]]:
    """The skills that each task's prompt lists."""
    most = source.config.skills.max_listed
    return {t.id: {s.name for s in choose(library, t.prompt, most)} for block in lane.heldout for t in block}


def _about(source: Source, lane: Lane) -> Mapping[str, Collection[str]]:
    """The skills that were eligible or loaded in each task of the source run."""
    met: dict[str, set[str]] = defaultdict(set)
    for seen in read_seen(source.run):
        if seen.lane == lane.name and seen.status == "ok":
            met[seen.task_id].update(trace.name for trace in seen.skills.traces if trace.eligible or trace.loaded)
    return met


def _blocks(lane: Lane) -> Blocks:
    """The tasks to rerun, by block: the held-out ones if there are any, else the training tasks."""
    if lane.heldout:
        return lane.heldout
    blocks: list[list[Task]] = [[] for _ in range(lane.blocks)]
    for round_, tasks in enumerate(lane.rounds):
        blocks[lane.block(round_)] += tasks
    return blocks


def _final_knowledge(run: Path, lane: Lane) -> Knowledge:
    """The final knowledge of a lane."""
    home = run / "lanes" / lane.name / "home"
    if not (home / "skills").exists():
        return Knowledge(Library())  # the lane never started
    notes = load_notes((home / "memory").resolve()) if (home / "memory").exists() else Notes()
    return Knowledge(load_snapshot(home / "skills"), notes)


def _has_arm(lane: Lane, arm: str) -> bool:
    key = lane_key(lane.name)
    return key is not None and key.arm == arm
