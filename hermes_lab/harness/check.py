"""Checks before a run whether its agent can work on its tasks."""

from collections.abc import Iterable, Sequence

from hermes_lab.config.schema import Arm, RunConfig
from hermes_lab.errors import ConfigError
from hermes_lab.harness.installed import find_executable, read_settings
from hermes_lab.harness.program import Program
from hermes_lab.harness.programs import find_program
from hermes_lab.mcp.check import check_servers
from hermes_lab.protocols import Suite
from hermes_lab.suites import servers_of
from hermes_lab.tools.distributions import check_tools
from hermes_lab.types import Task


def check_own_loop(config: RunConfig, what: str) -> None:
    """Raises `ConfigError` if another program is configured, for `what` can only run the lab's own loop."""
    if config.agent.program:
        raise ConfigError(
            f"agent.program: {what} runs only the lab's own agent loop; leave out agent.program={config.agent.program}"
        )


def check_agent(config: RunConfig, suite: Suite, tasks: Iterable[Task], arms: Sequence[Arm] = ()) -> None:
    """Raises `ConfigError` for a tool that is not available; with `agent.program`, if it is not installed, or cannot
    do what the tasks or the `arms` of an experiment need."""
    agent = config.agent
    if not agent.program:
        check_tools(agent)
        check_servers(config, servers_of(config.mcp, suite))
        return
    if servers_of(config.mcp, suite).servers:
        raise ConfigError(
            f"mcp.servers: only the lab's own loop offers them; leave out agent.program={agent.program}, or give that "
            "program its servers in its own configuration"
        )
    program = find_program(agent.program)
    read_settings(program, agent.settings)
    find_executable(program, agent.at)
    if any(task.pages for task in tasks):
        raise ConfigError(
            f"suite.name: the tasks of {suite.name} have web pages of their own, which only the lab's own loop can "
            f"search; choose another suite, or leave out agent.program={agent.program}"
        )
    model = config.model
    if model.provider == "anthropic" and program.dialect != "messages" and model.sampling.max_tokens is None:
        raise ConfigError(
            f"model.sampling.max_tokens: the Anthropic Messages API needs a number, which {program.name} does not give"
        )
    if agent.review == "own" and not program.learns:
        raise ConfigError(f"agent.review: {program.name} does not review its work by itself; use `asked` or `none`")
    if agent.carry_state:
        _check_state(config, program, arms)
    if needing := [arm for arm in arms if arm != "off"] if not program.skills else []:
        raise ConfigError(
            f"learning.arms: {program.name} reads no skills, so {', '.join(needing)} cannot differ from off; use "
            "learning.arms=[off] or another program"
        )


def _check_state(config: RunConfig, program: Program, arms: Sequence[Arm]) -> None:
    if not program.state:
        raise ConfigError(f"agent.carry_state: {program.name} has no memory besides its skills and notes to carry")
    if "on" not in arms:
        raise ConfigError("agent.carry_state: only arm `on` of an experiment (`hermes-lab experiment`) carries it")
    if other := [arm for arm in arms if arm in ("placebo", "oracle")]:
        raise ConfigError(
            f"agent.carry_state: not with learning.arms={', '.join(other)}, because the lab can neither blank the "
            f"memory of {program.name} nor write the rules into it; use the arms off and on"
        )
    if config.learning.round_size > 1:
        raise ConfigError(
            "agent.carry_state: needs learning.round_size=1, as what tasks that run side by side leave cannot be merged"
        )
    if config.run.executor == "ray":
        raise ConfigError("agent.carry_state: needs the run folder, which the nodes of run.executor=ray do not have")
