"""Ground truth of a run, from its suite: the rules of its worlds and the answers of its held-out tasks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
from hermes_lab.protocols import Suite
from hermes_lab.records import read_attempts
from hermes_lab.runners.engine.plan import Lane
from hermes_lab.runners.engine.reload import config_of, lanes_of
from hermes_lab.sandbox import probe
from hermes_lab.skills.library import Library, load_snapshot
from hermes_lab.suites import RuleAwareSuite
from hermes_lab.tasks import load_suite
from hermes_lab.tasks.answers import answer_key
from hermes_lab.tasks.play import opener
from hermes_lab.tasks.registry import is_own
from hermes_lab.types import Skill, Task, TaskInfo
from hermes_lab.types.episode import EpisodeKey

if TYPE_CHECKING:
    from hermes_lab.analysis.report.findings import FromSuite


_NOT_LOADED = (
    "the suite is a class of yours, and a report does not run it; `hermes-lab skills effects RUN --leaks` does"
)


class _Snapshot(Struct, frozen=True):
    snapshot: str = ""


class _LaneEpisode(EpisodeKey, frozen=True, kw_only=True):
    """The fields of an `Episode` needed to know which rules a lane encountered, and with which library."""

    place: int
    experience: int
    task: TaskInfo
    phase: str = "learn"
    skills: _Snapshot = _Snapshot()


def library_claims(run: Path) -> list[LibraryClaims] | None:
    """The rules that the libraries of a run state: for each lane with skills, at the start of each round and after the
    last one. None if the suite does not expose its rules.

    Raises `ConfigError` if the run cannot be read, or its suite is no longer available.
    """
    config = config_of(run)
    suite = load_suite(config.suite, config.sandbox)
    if not isinstance(suite, RuleAwareSuite):
        return None
    lanes: dict[str, dict[tuple[int, str], _LaneEpisode]] = {}
    for episode in read_attempts(run, _LaneEpisode):
        if episode.phase == "learn":  # a later record of a task replaces the earlier one
            lanes.setdefault(episode.lane, {})[episode.round, episode.task_id] = episode
    reader = _Reader(suite, run)
    return [claims for name in sorted(lanes) for claims in _lane_claims(reader, name, list(lanes[name].values()))]


def _lane_claims(reader: "_Reader", name: str, episodes: list[_LaneEpisode]) -> Iterator[LibraryClaims]:
    key = lane_key(name)
    if key and key.arm == "off":
        return
    rounds: dict[int, list[_LaneEpisode]] = {}
    for episode in sorted(episodes, key=lambda episode: (episode.round, episode.place)):
        rounds.setdefault(episode.round, []).append(episode)
    split = episodes[0].task.split
    numbers = dict.fromkeys((episode.task.world for episodes in rounds.values() for episode in episodes), 0)
    so_far: set[str] = set()
    for round_ in (*rounds, max(rounds) + 1):
        in_round = rounds.get(round_, [])
        library = reader.snapshot(in_round[0].skills.snapshot) if in_round else reader.last(name)
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
        for episode in in_round:
            numbers[episode.task.world] += 1
            so_far.update(_rule_ids(episode.task.world, episode.task.triggers))


@dataclass
class _Reader:
    """Caches queries to the suite. Rule ids are prefixed with their world, since worlds may share names."""

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
        """The rules in force in all worlds; `numbers` maps each world to the number of its next task."""
        return frozenset(
            rule
            for world, number in numbers.items()
            for rule in _rule_ids(world, self.suite.rules(split=split, world=world, number=number))
        )

    def claims(self, library: Library, name: str, split: str, numbers: Mapping[int, int]) -> tuple[str, ...]:
        """The rules that a skill states. A rule that is true in one world does not count as wrong in another."""
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
    """Result of searching each lane's final library for answers to its held-out tasks. Of `tasks`, `answers` have a
    known answer, and `findable` have one with a literal by which a leak can be recognised."""

    lanes: int
    tasks: int
    answers: int
    findable: int
    leaks: dict[str, tuple[Leak, ...]]
    """By lane; only lanes with leaks."""


def scan_leaks(run: Path) -> LeakScan | None:
    """Searches a run's skills for leaked answers; None if the run holds out no tasks. The answers are computed in
    sandboxes, about 0.1 s per task.

    Raises `ConfigError` if the run cannot be read, `InfraError` if a sandbox fails.
    """
    config = config_of(run)
    if read_manifest(run).command != "learn" or not config.learning.heldout.tasks:
        return None
    suite = load_suite(config.suite, config.sandbox)
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
    """The known answers by task id."""
    answers: dict[str, Answer] = {}
    slots = anyio.Semaphore(config.run.concurrency)

    async def make(task: Task) -> None:
        async with slots:
            if key := await answer_key(suite, task, opener(config.sandbox, suite)):
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
    """The report's ground-truth section for a single run. If the suite is unavailable, the report works without it.

    A suite of the user's own is not loaded, since that runs its code.
    """
    from hermes_lab.analysis.report.findings import FromSuite
    from hermes_lab.analysis.skill_effects.capture import captures

    if len(runs) > 1:
        return FromSuite(searched="only available for a single run")
    try:
        if is_own(config_of(runs[0]).suite.name):
            return FromSuite(searched=_NOT_LOADED)
        claims = library_claims(runs[0])
        scan = scan_leaks(runs[0])
    except (ConfigError, InfraError) as error:
        return FromSuite(searched=str(error))
    found = None if claims is None else captures(claims)
    if scan is None:
        return FromSuite(captures=found, searched="the run holds out no tasks")
    leaks = [
        f"{lane}: {leak.skill} contains {', '.join(leak.literals)} from the answer of {leak.task_id}"
        for lane, several in scan.leaks.items()
        for leak in several
    ]
    against = f"against the answers of {scan.findable} of {scan.tasks} held-out tasks"
    searched = f"The final libraries of {scan.lanes} lanes {against}"
    return FromSuite(captures=found, leaks=leaks, searched=searched)
