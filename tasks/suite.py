"""Suites of one or several families: unlimited tasks in worlds with hidden rules."""

from collections.abc import Sequence

from hermes_lab.errors import ConfigError
from hermes_lab.protocols import Workspace
from hermes_lab.skills.library import Library
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Action, Rule
from hermes_lab.tasks.feedback import write_feedback
from hermes_lab.tasks.rule_matcher import RuleMatcher
from hermes_lab.tasks.subtasks import Subtask, known_skill, subtasks_of
from hermes_lab.tasks.worlds import SPLITS, AnyFamily, Site, WorldSpec, draw_sites, draw_world, task_id
from hermes_lab.types import Skill, Task, Verdict

FRAMES = {
    "train": ("Please do these {count} tasks.", "There are {count} jobs for you today."),
    "validation": ("Here is a list of {count} requests:",),
    "heldout": ("Could you take care of {count} issues?", "{count} messages came in."),
}
"""The first sentence of a task with several subtasks, by split."""

_MATCHERS = 64
"""Worlds of which the texts that state a rule are kept, about 1 MB each."""


class WorldSuite:
    """A suite of generated tasks. Task n of a (split, world, seed) does not depend on how many tasks are loaded."""

    splits = SPLITS

    def __init__(self, name: str, families: tuple[AnyFamily, ...], spec: WorldSpec) -> None:
        self.name = name
        self.families = families
        self.spec = spec
        self.domain = families[0].domain
        self._matchers: dict[tuple[str, int, int], RuleMatcher] = {}

    def load(self, *, split: str, count: int, seed: int, world: int) -> list[Task]:
        """Generates `count` tasks of a world. Raises `ConfigError` for an unknown split or a count of 0."""
        if split not in self.splits:
            raise ConfigError(f"suite.split: {self.name} has no split {split!r}; there are: {', '.join(self.splits)}")
        if count < 1:
            raise ConfigError(f"{self.name} has unlimited tasks; give a number of at least 1", "suite.count")
        return [self._task(split, world, seed, number) for number in range(count)]

    def sites(self, *, split: str, world: int, number: int = 0) -> tuple[Site, ...]:
        """The sites of a world at the time of task `number`."""
        epoch = int(bool(self.spec.drift_at) and number >= self.spec.drift_at)
        return draw_world(self.name, self.families, split, world, self.spec, epoch)

    def _task(self, split: str, world: int, seed: int, number: int) -> Task:
        draws = Draws(self.name, split, world, seed, number)
        chosen = self._choose(self.sites(split=split, world=world, number=number), draws)
        subtasks = tuple(
            # Each subtask has its own random stream, so that it does not depend on the others.
            _draw_subtask(
                site,
                Draws(self.name, split, world, seed, number, site.entity.name),
                n if len(chosen) > 1 else 0,
                self._candidates(site, split, world),
            )
            for n, site in enumerate(chosen, 1)
        )
        return Task(
            id=task_id(split, world, seed, number),
            suite=self.name,
            prompt=self._ask(subtasks, draws),
            domain=self.domain,
            split=split,
            world=world,
            files={path: text for subtask in subtasks for path, text in subtask.files.items()},
            setup=tuple(command for subtask in subtasks for command in subtask.setup),
            pages=tuple(page for subtask in subtasks for page in subtask.instance.pages),
            triggers=tuple(site.trigger for site in chosen if site.ruled),
            attempts=2 + self.spec.discovery,
            truth={"pieces": subtasks},
            metadata={
                "family": "+".join(site.family.name for site in chosen),
                "place": "+".join(site.entity.name for site in chosen),
                "rule_type": "+".join(site.drawn.type for site in chosen if site.ruled),
                "seen": not any(site.ruled and site.drawn.unseen for site in chosen),
                "epoch": chosen[0].epoch,
            },
        )

    def _candidates(self, site: Site, split: str, world: int) -> tuple[Rule, ...]:
        if not self.spec.drift_at:
            return (site.drawn,)
        epochs = (self.sites(split=split, world=world, number=number) for number in (0, self.spec.drift_at))
        drawn = [each.drawn for sites in epochs for each in sites if each.entity == site.entity]
        return tuple({rule.instruction: rule for rule in drawn}.values())

    async def verify(self, task: Task, workspace: Workspace, answer: str | None, attempt: int = 1) -> Verdict:
        """Judges every subtask by the workspace, never by the prose of `answer`."""
        subtasks = subtasks_of(task.truth)
        judged = [await subtask.judge(workspace, answer) for subtask in subtasks]
        named = {
            f"{subtask.folder}.{each.name}" if subtask.folder else each.name: each
            for subtask, criteria in zip(subtasks, judged, strict=True)
            for each in criteria
        }
        score, success = self._grade([all(each.score == 1.0 for each in criteria) for criteria in judged])
        draws = Draws(self.name, task.id, "feedback", attempt)
        return Verdict(
            score=score,
            success=success,
            criteria={name: each.score for name, each in named.items()},
            feedback="" if score == 1.0 else write_feedback(subtasks, judged, self.spec, attempt, draws),
            reasons={name: each.reason for name, each in named.items() if each.score < 1.0},
        )

    def oracle(self, task: Task) -> tuple[Action, ...]:
        """The tool calls of the solution that follows the rules in force."""
        return tuple(action for subtask in subtasks_of(task.truth) for action in subtask.solve(subtask.site.rule))

    def naive(self, task: Task) -> tuple[Action, ...]:
        """The tool calls of the naive solution."""
        return tuple(action for subtask in subtasks_of(task.truth) for action in subtask.solve(None))

    def known_skills(self, *, split: str, world: int) -> Library:
        """A skill for each initial rule of a world, as an agent could write it after a rejection."""
        sites = self.sites(split=split, world=world)
        return Library(known_skill(site, site.drawn) for site in sites if site.ruled)

    def rules(self, *, split: str, world: int, number: int = 0) -> frozenset[str]:
        """The ids of the rules in force at the time of task `number`."""
        return self._matcher(split, world, number).rules

    def stated_rules(self, skill: Skill, *, split: str, world: int, number: int = 0) -> tuple[str, ...]:
        """The ids of the rules in force that a skill states, by its text, and "" for each other rule that it states."""
        return self._matcher(split, world, number).stated_rules(skill)

    def _matcher(self, split: str, world: int, number: int) -> RuleMatcher:
        first = self.sites(split=split, world=world)
        now = self.sites(split=split, world=world, number=number)
        key = (split, world, now[0].epoch)
        if key not in self._matchers:
            if len(self._matchers) >= _MATCHERS:  # an environment has a new world in every pass
                del self._matchers[next(iter(self._matchers))]
            self._matchers[key] = RuleMatcher(now, past=first)
        return self._matchers[key]

    def _choose(self, sites: Sequence[Site], draws: Draws) -> list[Site]:
        """Draws the sites of a task."""
        return draw_sites(sites, self.spec, draws)

    def _ask(self, subtasks: Sequence[Subtask], draws: Draws) -> str:
        """The prompt."""
        if len(subtasks) == 1:
            return subtasks[0].instance.request
        opening = draws.choice(FRAMES[subtasks[0].site.entity.split]).format(count=len(subtasks))
        return "\n".join((opening, *requests(subtasks)))

    def _grade(self, right: Sequence[bool]) -> tuple[float, bool]:
        """Score and success, given which subtasks are right.

        There is no partial credit, since it would reward solutions that ignore the rules.
        """
        return float(all(right)), all(right)


def requests(subtasks: Sequence[Subtask]) -> list[str]:
    """The requests of several subtasks, one line each."""
    return [f"{n}. In the folder {subtask.folder}: {subtask.instance.request}" for n, subtask in enumerate(subtasks, 1)]


def _draw_subtask(site: Site, draws: Draws, number: int, candidates: tuple[Rule, ...]) -> Subtask:
    """Draws a subtask; `number` is its position among several, or 0 if there is only one."""
    folder = site.entity.slug(f"part{number}") if number else ""
    return Subtask(site, site.family.instance(site.entity, site.site_config, draws), folder, candidates)
