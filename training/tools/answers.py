"""What the tools have in common: a mistake is told to the model in the words that a person would be told."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hermes_lab.errors import ConfigError, InfraError, ToolError
from hermes_lab.tools.registry import ToolContext
from hermes_lab.training.choices import Choice
from hermes_lab.training.lock import lock_digest


@contextmanager
def told() -> Iterator[None]:
    """Turns what is wrong with a choice, a file or a server into an answer."""
    try:
        yield
    except (ConfigError, InfraError, OSError) as error:
        raise ToolError(" ".join(str(error).split())) from None


def shown(ctx: ToolContext) -> dict[str, Any]:
    """What is chosen so far, what may be edited, and what is locked."""
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
