"""A policy that compiles a skill whose first draft fails, fixes it, and answers."""

from collections.abc import Sequence

from hermes_lab.models.scripted import Policy
from hermes_lab.types import Message, ToolCall

CODE = 'def double(n: int) -> int:\n    """Double n."""\n    return {} * n\n'
TESTS = "from double import double\nassert double(2) == 4\n"


def toolmaker() -> Policy:
    """Drafts, heals, answers."""

    def policy(messages: Sequence[Message]) -> Message:
        turn = sum(message.role == "assistant" for message in messages)
        if turn == 2:
            return Message(role="assistant", content="Done.")
        arguments = {"name": "double", "purpose": "Double a number.", "code": CODE.format(3 - turn), "tests": TESTS}
        return Message(role="assistant", tool_calls=(ToolCall(f"c{turn}", "skill_compile", arguments),))

    return policy
