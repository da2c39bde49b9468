"""The skills that the rollouts of a task start with (`env.knowledge`).

They are those that a lane of an experiment could have at that point, so that a rollout is rewarded for finding the
right skill, following it, and doing without one. All rollouts of a group have the same.
"""

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from hermes_lab.analysis.libraries import load_initial_library
from hermes_lab.config.schema import RunConfig
from hermes_lab.errors import ConfigError
from hermes_lab.knowledge import Knowledge
from hermes_lab.protocols import Suite
from hermes_lab.returned import load_tasks
from hermes_lab.skills.library import Library
from hermes_lab.suites import OracleSuite, RuleAwareSuite
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.registry import wrap_suite_errors
from hermes_lab.tools.toolbox import check_toolsets
from hermes_lab.types import Skill, Task

EARLIER = 11
"""Most earlier tasks of a lane."""
KINDS = ("none", "oracle", "lane", "distractors")
"""What `mixed` draws from. `distractors`: as `lane`, among skills of other worlds."""
_OTHER_WORLDS = 2
_FARTHEST = 1000
_SEEDS = 2**31 - 1


@runtime_checkable
class _KnownSuite(OracleSuite, RuleAwareSuite, Protocol):
    """A suite that can state its hidden rules, and tell which of them a skill states."""


def start_library(config: RunConfig, library: Library | None = None) -> Library:
    """`library`, or else that of `skills.library`. Raises `ConfigError` if both are given and differ, or if there is no
    such library."""
    if not config.skills.library:
        return library or Library()
    configured = load_initial_library(config.skills.library)
    if library is not None and library.snapshot != configured.snapshot:
        raise ConfigError(
            f"skills.library: `{config.skills.library}` is not the library that is passed as an argument; give one"
        )
    return configured


class TaskKnowledge:
    """Chooses the skills of each task.

    They depend only on the mode, the suite with its options, and the task's id, split and world; so a resume, another
    process and another run give a task the same skills.
    """

    def __init__(self, config: RunConfig, suite: Suite, library: Library | None = None) -> None:
        """`library` is what every task has with `env.knowledge: none`; by default `skills.library`.

        Raises `ConfigError` as `start_library`, for a library besides another mode, for a suite that cannot state its
        rules, and for an agent that cannot read a skill.
        """
        self._mode = config.env.knowledge
        self._library = start_library(config, library)
        if self._mode == "none":
            return
        if self._library.skills:
            raise ConfigError(
                f"env.knowledge: `{self._mode}` decides which skills a rollout has; give no library, or set it to none"
            )
        if not isinstance(suite, _KnownSuite):
            raise ConfigError(
                f"env.knowledge: {suite.name} has no hidden rules that skills could state; set it to none"
            )
        self._suite = suite
        agent = config.agent
        chosen_elsewhere = agent.program or agent.distribution
        if not chosen_elsewhere and "skill_view" not in check_toolsets(agent.toolsets, agent.disabled_tools):
            raise ConfigError(
                f"env.knowledge: `{self._mode}` gives skills that no tool of agent.toolsets can read; add skill_view"
            )

    def of(self, task: Task) -> Knowledge:
        """What the rollouts of that task start with."""
        if self._mode == "none":
            return Knowledge(self._library)
        with wrap_suite_errors(self._suite):
            draws = Draws("knowledge", self._suite.name, task.id)
            kind = draws.choice(KINDS) if self._mode == "mixed" else self._mode
            library = self._library_of(kind, task, draws)
            return Knowledge(library, label=self._label(kind, task, library))

    def _library_of(self, kind: str, task: Task, draws: Draws) -> Library:
        if kind == "none":
            return Library()
        known = self._suite.known_skills(split=task.split, world=task.world)
        if kind == "oracle":
            return known
        met = self._met(task, draws)
        learnt = [skill for skill in known.skills.values() if met & self._stated(skill, task)]
        others = self._distractors(known, task, draws) if kind == "distractors" else ()
        return Library([*others, *learnt])

    def _met(self, task: Task, draws: Draws) -> set[str]:
        """The rules that a lane has met in its earlier tasks. Their number is uniform in 0 to `EARLIER`."""
        count, seed = draws.integer(0, EARLIER), draws.integer(0, _SEEDS)
        if not count:
            return set()
        earlier = load_tasks(self._suite, split=task.split, count=count, seed=seed, world=task.world, fewer=True)
        return {rule for each in earlier for rule in each.triggers}

    def _distractors(self, known: Library, task: Task, draws: Draws) -> Iterator[Skill]:
        """Skills of other worlds that say nothing about this one. A false rule about it would mislead, and no lane of
        this world could have learnt it."""
        for _ in range(_OTHER_WORLDS):
            world = task.world + draws.integer(1, _FARTHEST)
            for skill in self._suite.known_skills(split=task.split, world=world).skills.values():
                if skill.name not in known.skills and not self._claims(skill, task):
                    yield skill

    def _label(self, kind: str, task: Task, library: Library) -> str:
        """`lane, 0 of 1 rules known`, of the task's own rules. A rule from after a drift is not known."""
        if not task.triggers:
            return f"{kind}, no rule"
        stated = {rule for skill in library.skills.values() for rule in self._stated(skill, task)}
        return f"{kind}, {len(stated & set(task.triggers))} of {len(set(task.triggers))} rules known"

    def _stated(self, skill: Skill, task: Task) -> set[str]:
        return set(self._claims(skill, task)) - {""}

    def _claims(self, skill: Skill, task: Task) -> tuple[str, ...]:
        return self._suite.stated_rules(skill, split=task.split, world=task.world)
