"""A policy that makes the calls in its prompt, lines such as `CALL terminal {"command": "ls"}`, and answers with the
result of the last."""

import json
from collections.abc import Sequence

from hermes_lab.models.scripted import Policy
from hermes_lab.types import Message, ToolCall


def tool_caller() -> Policy:
    """One call a turn."""

    def policy(messages: Sequence[Message]) -> Message:
        asked = max(n for n, message in enumerate(messages) if message.role == "user")
        lines = [line.split(" ", 2) for line in messages[asked].content.splitlines() if line.startswith("CALL ")]
        turn = sum(message.role == "assistant" for message in messages[asked:])
        if turn >= len(lines):
            return Message(role="assistant", content=messages[-1].content)
        _, name, arguments = lines[turn]
        return Message(role="assistant", tool_calls=(ToolCall(f"c{turn}", name, json.loads(arguments)),))

    return policy
