"""`/verbose`."""

from collections.abc import Sequence
from typing import get_args

from hermes_lab.commands.command import Command, CommandContext, Reply
from hermes_lab.config.home import Verbosity
from hermes_lab.errors import ConfigError

_LEVELS: tuple[Verbosity, ...] = get_args(Verbosity)


async def _run(context: CommandContext, level: str) -> Reply:
    surface = context.chat.surface
    if level and level not in _LEVELS:
        raise ConfigError(f"no level {level!r}; choose {', '.join(_LEVELS)}")
    if level:
        surface.verbosity = level
    return Reply(f"tool calls shown: {surface.verbosity}")


def _levels(context: CommandContext) -> Sequence[str]:
    del context
    return _LEVELS


COMMAND = Command(
    "verbose",
    "Choose which tool calls are shown",
    "Configuration",
    _run,
    hint=f"[{'|'.join(_LEVELS)}]",
    busy="now",
    arguments=_levels,
)
