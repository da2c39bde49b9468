"""A model that never answers."""

from hermes_lab.models.scripted import Policy
from hermes_lab.types import Message, ToolCall


def never_answers() -> Policy:
    """Calls a tool at every turn, also when it is told to conclude."""
    call = ToolCall("c", "terminal", {"command": "true"})
    return lambda _: Message(role="assistant", content="", tool_calls=(call,))
