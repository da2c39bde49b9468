"""Configuration of learning episodes and of the review reward."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from hermes_lab.config.schema import RunConfig
from hermes_lab.config.section import Section
from hermes_lab.config.sources import load_section
from hermes_lab.errors import ConfigError
from hermes_lab.harness.check import check_own_loop
from hermes_lab.tools.toolbox import check_toolsets

Objective = Literal["solve", "review", "both"]
"""Which groups are made: rollouts of a task, reviews of a finished episode, or both."""


class ReviewWorth(Section):
    """Learning episodes: tasks of one world with a review after each. A review earns the change of success on follow-up
    tasks, less a cost of what it adds to the library."""

    tasks: Annotated[int, Field(ge=1, le=1000)]
    """Tasks of a learning episode, one after the other, each reviewed. The next task starts with the library after the
    first review."""
    followups: Annotated[int, Field(ge=1, le=10_000)]
    """Follow-up tasks of the same world that measure a library. They are never reviewed."""
    repeats: Annotated[int, Field(ge=1, le=1000)]
    """Rollouts of each follow-up task with each library."""
    listed_cost: Annotated[float, Field(ge=0)]
    """Reward per token that the review adds to every prompt: names and descriptions of skills, and notes. A token is 4
    bytes of UTF-8."""
    body_cost: Annotated[float, Field(ge=0)]
    """Reward per token that it adds to the texts and files of skills, which are read when loaded."""


DEFAULT = ReviewWorth(tasks=1, followups=4, repeats=1, listed_cost=0.001, body_cost=0.0005)
"""For an environment that is made without a configuration."""


def read_worth(values: Mapping[str, Any]) -> ReviewWorth:
    """The section with these values. Raises `ConfigError` for a mistake."""
    return load_section(ReviewWorth, [f"{name}={json.dumps(value)}" for name, value in values.items()])


def check_learning(config: RunConfig) -> None:
    """Raises `ConfigError` if `config` cannot run learning episodes."""
    check_own_loop(config, "a learning episode")
    agent = config.agent
    tools = frozenset() if agent.distribution else check_toolsets(agent.toolsets, agent.disabled_tools)
    if not agent.distribution and "memory" not in tools and (missing := {"skill_manage", "skill_view"} - tools):
        raise ConfigError(
            f"agent.toolsets: a review teaches nothing without {' and '.join(sorted(missing))}: add skill_manage, "
            "which writes skills, and skill_view, which reads them, or memory for notes"
        )
    if config.env.knowledge != "none":
        raise ConfigError(
            f"env.knowledge: is {config.env.knowledge}; a learning episode begins with skills.library; set it to none"
        )
    if config.learning.arms not in (("on",), ("placebo",)):
        raise ConfigError(
            f"learning.arms: {', '.join(config.learning.arms)}; a learning episode has one arm that learns: give [on], "
            "or [placebo] for a control whose skills are emptied"
        )
