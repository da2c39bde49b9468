"""Helpers shared by the tools: the model sees the same error messages as a person, but is not told to make a lock."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hermes_lab.errors import ConfigError, InfraError, ToolError
from hermes_lab.tools.registry import ToolContext
from hermes_lab.training.choices import Choice
from hermes_lab.training.lock import HOW_TO_CHANGE, lock_digest

_BY_A_PERSON = f"a person makes{HOW_TO_CHANGE.removeprefix('make')}"


def for_a_model(message: str) -> str:
    """An error message that leaves the making of a lock to a person."""
    return message.replace(HOW_TO_CHANGE, _BY_A_PERSON)


@contextmanager
def told() -> Iterator[None]:
    """Turns errors of a choice, a file or a server into a `ToolError`."""
    try:
        yield
    except (ConfigError, InfraError, OSError) as error:
        raise ToolError(" ".join(for_a_model(str(error)).split())) from None


def shown(ctx: ToolContext) -> dict[str, Any]:
    """Current choices, editable fields and locked values."""
    choice = ctx.state(Choice)
    content = choice.content()
    path, locked = choice.locked()
    return {
        "environment": choice.environment,
        "method": choice.method,
        "config": content,
        "can_be_edited": list(choice.fields()),
        "locked": locked.content(),
        "lock": path,
        "lock_digest": lock_digest(locked),
    }
