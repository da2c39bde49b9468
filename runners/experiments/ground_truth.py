"""What only the suite knows of a run: which rules held in its worlds, and what its held-out tasks have as answers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct

from hermes_lab.analysis.skill_effects.capture import LibraryClaims
from hermes_lab.analysis.skill_effects.leaks import Answer, Leak, scan, secrets
from hermes_lab.config.schema import RunConfig
from hermes_lab.errors import ConfigError, InfraError
from hermes_lab.lane import lane_key
from hermes_lab.manifest import read_manifest
from hermes_lab.protocols import RuleAwareSuite, Suite
from hermes_lab.records import read_attempts
from hermes_lab.runners.engine.plan import Lane
from hermes_lab.runners.engine.reload import config_of, lanes_of
from hermes_lab.sandbox import open_sandbox, probe
from hermes_lab.skills.library import Library, load_snapshot
from hermes_lab.tasks import load_suite
from hermes_lab.tasks.answers import answer_key
from hermes_lab.types import Skill, Task, TaskInfo

if TYPE_CHECKING:
    from hermes_lab.analysis.report.findings import FromSuite


class _Snapshot(Struct, frozen=True):
    snapshot: str = ""


class _LaneEpisode(Struct, frozen=True, kw_only=True):
    """A view of an `Episode` that holds what its lane met, and with which library."""

    v: int = 1
    lane: str
    round: int
    place: int
    experience: int
    task_id: str
    task: TaskInfo
    phase: str = "learn"
    skills: _Snapshot = _Snapshot()


def library_claims(run: Path) -> list[LibraryClaims] | None:
    """What the libraries of a run tell of its rules: for every lane that may have skills, at the beginning of each
    round and after the last one. None where the suite cannot tell.

    Raises `ConfigError` where the run cannot be read, or its suite is no longer there.
    """
    suite = load_suite(config_of(run).suite)
    if not isinstance(suite, RuleAwareSuite):
        return None
    lanes: dict[str, dict[tuple[int, str], _LaneEpisode]] = {}
    for met in read_attempts(run, _LaneEpisode):
        if met.phase == "learn":  # of two records of one task the last
            lanes.setdefault(met.lane, {})[met.round, met.task_id] = met
    reader = _Reader(suite, run)
    return [claims for name in sorted(lanes) for claims in _lane_claims(reader, name, list(lanes[name].values()))]


def _lane_claims(reader: "_Reader", name: str, episodes: list[_LaneEpisode]) -> Iterator[LibraryClaims]:
    key = lane_key(name)
    if key and key.arm == "off":
        return
    rounds: dict[int, list[_LaneEpisode]] = {}
    for met in sorted(episodes, key=lambda met: (met.round, met.place)):
        rounds.setdefault(met.round, []).append(met)
    split = episodes[0].task.split
    numbers = dict.fromkeys((met.task.world for tasks in rounds.values() for met in tasks), 0)
    so_far: set[str] = set()
    for round_ in (*rounds, max(rounds) + 1):
        tasks = rounds.get(round_, [])
        library = reader.snapshot(tasks[0].skills.snapshot) if tasks else reader.last(name)
        rules = reader.rules(split, numbers)
        yield LibraryClaims(
            lane=name,
            arm=key.arm if key else name,
            round=round_,
            experience=sum(numbers.values()),
            rules=rules,
            met=rules & so_far,
            claims={skill: reader.claims(library, skill, split, numbers) for skill in library.listed},
        )
        for met in tasks:
            numbers[met.task.world] += 1
            so_far.update(_rule_ids(met.task.world, met.task.triggers))


@dataclass
class _Reader:
    """Asks the suite, each question once. Ids of rules have their world before them: worlds may share names."""

    suite: RuleAwareSuite
    run: Path
    _libraries: dict[str, Library] = field(default_factory=dict)
    _claims: dict[tuple[object, ...], tuple[str, ...]] = field(default_factory=dict)

    def snapshot(self, snapshot: str) -> Library:
        if snapshot not in self._libraries:
            self._libraries[snapshot] = load_snapshot(self.run / "skills" / snapshot)
        return self._libraries[snapshot]

    def last(self, lane: str) -> Library:
        return self.snapshot((self.run / "lanes" / lane / "home" / "skills").resolve().name)

    def rules(self, split: str, numbers: Mapping[int, int]) -> frozenset[str]:
        """The rules in force in all worlds; `numbers` has the number of the next task of each."""
        return frozenset(
            rule
            for world, number in numbers.items()
            for rule in _rule_ids(world, self.suite.rules(split=split, world=world, number=number))
        )

    def claims(self, library: Library, name: str, split: str, numbers: Mapping[int, int]) -> tuple[str, ...]:
        """What a skill tells. What is true of one world is no untrue word about another."""
        of_world = [self._ask(library, name, split, world, number) for world, number in numbers.items()]
        true = [claims for claims in of_world if any(claims)]
        return tuple(claim for claims in true for claim in claims) if true else max(of_world, key=len, default=())

    def _ask(self, library: Library, name: str, split: str, world: int, number: int) -> tuple[str, ...]:
        rules = self.suite.rules(split=split, world=world, number=number)
        key = (library.digests[name], split, world, rules)
        if key not in self._claims:
            claims = self.suite.stated_rules(library.skills[name], split=split, world=world, number=number)
            self._claims[key] = tuple(claim and next(iter(_rule_ids(world, [claim]))) for claim in claims)
        return self._claims[key]


def _rule_ids(world: int, rules: Sequence[str] | frozenset[str]) -> Iterator[str]:
    return (f"w{world}/{rule}" for rule in rules)


class LeakScan(Struct, frozen=True, kw_only=True):
    """Each lane's last library against the answers of its held-out tasks. `answers` of the `tasks` are known, and
    `findable` of them hold a literal by which a leak would be found."""

    lanes: int
    tasks: int
    answers: int
    findable: int
    leaks: dict[str, tuple[Leak, ...]]
    """By lane, of those lanes that have some."""


def scan_leaks(run: Path) -> LeakScan | None:
    """None where the run holds out no tasks. The answers are made in sandboxes, in a second or so for ten tasks.

    Raises `ConfigError` where the run cannot be read, `InfraError` where a sandbox fails.
    """
    config = config_of(run)
    if read_manifest(run).command != "learn" or not config.learning.heldout.tasks:
        return None
    suite = load_suite(config.suite)
    lanes = [lane for lane in lanes_of(run, config, suite) if lane.arm not in ("off", "oracle")]
    lanes = [lane for lane in lanes if (run / "lanes" / lane.name / "home" / "skills").is_dir()]
    tasks = {task.id: task for lane in lanes for block in lane.heldout for task in block}
    answers = anyio.run(_make_answers, config, suite, list(tasks.values()))
    found = {lane.name: tuple(scan(_last_skills(run, lane), _answers_of(lane, answers))) for lane in lanes}
    return LeakScan(
        lanes=len(lanes),
        tasks=len(tasks),
        answers=len(answers),
        findable=sum(map(bool, secrets(answers.values()).values())),
        leaks={name: leaks for name, leaks in found.items() if leaks},
    )


async def _make_answers(config: RunConfig, suite: Suite, tasks: Sequence[Task]) -> dict[str, Answer]:
    """By task, the answers that the suite knows."""
    answers: dict[str, Answer] = {}
    scheduler = anyio.Semaphore(config.run.concurrency)

    async def make(task: Task) -> None:
        async with scheduler:
            if key := await answer_key(suite, task, partial(open_sandbox, config.sandbox)):
                answers[task.id] = Answer(task_id=task.id, answer=key.answer, known=key.known)

    await probe(config.sandbox)
    async with anyio.create_task_group() as group:
        for task in tasks:
            group.start_soon(make, task)
    return answers


def _answers_of(lane: Lane, answers: Mapping[str, Answer]) -> list[Answer]:
    return [answers[task.id] for block in lane.heldout for task in block if task.id in answers]


def _last_skills(run: Path, lane: Lane) -> list[Skill]:
    return list(load_snapshot(run / "lanes" / lane.name / "home" / "skills").skills.values())


def from_suite(runs: list[Path]) -> "FromSuite":
    """What only the suite knows, of one run. Where it cannot be asked, the page is complete without it."""
    from hermes_lab.analysis.report.findings import FromSuite
    from hermes_lab.analysis.skill_effects.capture import captures

    if len(runs) > 1:
        return FromSuite(searched="this is done of one run at a time")
    try:
        claims = library_claims(runs[0])
        scan = scan_leaks(runs[0])
    except (ConfigError, InfraError) as error:
        return FromSuite(searched=str(error))
    found = None if claims is None else captures(claims)
    if scan is None:
        return FromSuite(captures=found, searched="the run holds out no tasks")
    leaks = [
        f"{lane}: {leak.skill} tells {', '.join(leak.literals)}, of the answer of {leak.task_id}"
        for lane, several in scan.leaks.items()
        for leak in several
    ]
    against = f"against the answers of {scan.findable} of {scan.tasks} held-out tasks"
    searched = f"The last libraries of {scan.lanes} lanes {against}"
    return FromSuite(captures=found, leaks=leaks, searched=searched)
