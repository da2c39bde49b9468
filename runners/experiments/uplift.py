"""Leave one out: the tasks of a run's lanes again, with the lane's last library and with that less one skill.

Each lane of the source becomes one lane `all` and one `without-<skill>` for each skill that its prompts name. They
learn nothing: every task is a held-out one to them. What differs between the two sides of a pair is the one skill.
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
from hermes_lab.runners.engine.libraries import check_skill_name
from hermes_lab.runners.engine.plan import Lane, tasks_digest
from hermes_lab.runners.engine.reload import lanes_of
from hermes_lab.runners.engine.snapshots import load_notes
from hermes_lab.runners.engine.weights import weights_of
from hermes_lab.skills.learning.listing import choose
from hermes_lab.skills.library import Library, load_snapshot
from hermes_lab.tasks import load_suite
from hermes_lab.types import Task

Blocks = Sequence[Sequence[Task]]


@dataclass(frozen=True)
class Source:
    """An experiment and those of its lanes whose skills are left out one by one. `warning` says that it is not
    finished, "" where it is."""

    run: Path
    warning: str
    config: RunConfig
    suite: Suite
    lanes: Sequence[Lane]


def open_source(text: str, arm: str, overrides: Sequence[str]) -> Source:
    """The lanes that RUN or RUN:LANE means; of a run those of the `arm`. Raises `ConfigError` where they have no skills
    to leave out, or the suite no longer makes the tasks that they had."""
    run, lane = Path(text), ""
    if not run.is_dir() and ":" in text:
        folder, _, lane = text.rpartition(":")
        run = Path(folder)
    (opened,) = open_runs(run)
    manifest = opened.manifest
    if manifest.command != "learn":
        raise ConfigError(
            f"{run}: is a run of `{manifest.command}`; uplift runs lanes of an `experiment` again (a library of your "
            "own has the arm frozen)"
        )
    asked = load_config(overrides, manifest.config)
    config = with_kept_suite(
        run, asked.model_copy(update={"skills": asked.skills.model_copy(update={"library": text})})
    )
    suite = load_suite(config.suite)
    lanes = lanes_of(run, config, suite)
    if tasks_digest(lanes) != manifest.tasks_digest:
        raise ConfigError(f"{run}: its tasks are not made any more: the suite, or what was overridden, has changed")
    chosen = [each for each in lanes if (each.name == lane if lane else _is_of(each, arm))]
    if not chosen:
        known = ", ".join(each.name for each in lanes) if lane else ", ".join(dict.fromkeys(each.arm for each in lanes))
        what = f"lane {lane!r}; there are: {known}" if lane else f"arm {arm!r}; --arm takes: {known}"
        raise ConfigError(f"{run}: has no {what}")
    return Source(run, opened.warning(), config, suite, chosen)


def plan_uplift(source: Source, *, skills: Collection[str] = (), about: bool = False, most: int = 0) -> list[Lane]:
    """The lanes of the leave-one-out run. `skills` are those to leave out, all that prompts name by default; `most` is
    the number of tasks for each of them, 0 for all.

    A skill's tasks are the held-out tasks of the lane in whose prompt the skill is named: in the others nothing would
    change. With `about`, or where a lane holds out none, they are those, held out or learnt from, in which the skill
    was eligible or loaded when the source ran. Raises `ConfigError` where nothing is left to run.
    """
    last = {lane.name: _last(source.run, lane) for lane in source.lanes}
    every = Library(skill for knowledge in last.values() for skill in knowledge.library.skills.values())
    for name in skills:
        check_skill_name(every, name)
    planned = [new for lane in source.lanes for new in _leave_out(source, lane, last[lane.name], skills, about, most)]
    if not planned:
        lanes = ", ".join(lane.name for lane in source.lanes)
        raise ConfigError(f"{source.run}: no skill of {lanes} met a task, so there is nothing to run again")
    return planned


def libraries_digest(lanes: Sequence[Lane]) -> str:
    """One digest over what every lane begins with."""
    parts = (f"{lane.library.snapshot}/{lane.notes.snapshot if lane.notes.memory else ''}" for lane in lanes)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _leave_out(
    source: Source, lane: Lane, knowledge: Knowledge, skills: Collection[str], about: bool, most: int
) -> Iterator[Lane]:
    wanted = [name for name in knowledge.library.listed if not skills or name in skills]
    met = _named_in_prompts(source, lane, knowledge.library) if lane.heldout and not about else _about(source, lane)
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


def _named_in_prompts(source: Source, lane: Lane, library: Library) -> Mapping[str, Collection[str]]:
    """By task, the skills that its prompt names."""
    most = source.config.skills.max_listed
    return {t.id: {s.name for s in choose(library, t.prompt, most)} for block in lane.heldout for t in block}


def _about(source: Source, lane: Lane) -> Mapping[str, Collection[str]]:
    """By task, the skills that were eligible or loaded when the source ran it."""
    met: dict[str, set[str]] = defaultdict(set)
    for seen in read_seen(source.run):
        if seen.lane == lane.name and seen.status == "ok":
            met[seen.task_id].update(trace.name for trace in seen.skills.traces if trace.eligible or trace.loaded)
    return met


def _blocks(lane: Lane) -> Blocks:
    """The tasks to run again, by block: the held-out ones, else those learnt from."""
    if lane.heldout:
        return lane.heldout
    blocks: list[list[Task]] = [[] for _ in range(lane.blocks)]
    for round_, tasks in enumerate(lane.rounds):
        blocks[lane.block(round_)] += tasks
    return blocks


def _last(run: Path, lane: Lane) -> Knowledge:
    """What a lane knew in the end."""
    home = run / "lanes" / lane.name / "home"
    if not (home / "skills").exists():
        return Knowledge(Library())  # it never began
    notes = load_notes((home / "memory").resolve()) if (home / "memory").exists() else Notes()
    return Knowledge(load_snapshot(home / "skills"), notes)


def _is_of(lane: Lane, arm: str) -> bool:
    key = lane_key(lane.name)
    return key is not None and key.arm == arm
