"""What a turn led to, and what the user answered, as chats show and read it."""

import msgspec

from hermes_lab.chat.conversation import Turn
from hermes_lab.errors import ToolError
from hermes_lab.sessions import Session

_WHY = {
    "empty": "the model's reply was empty",
    "length": "the reply was cut off at its token limit; raise model.sampling.max_tokens, or ask to continue",
    "context_full": "the conversation no longer fits the context window; /compress it, or start a /new session",
    "max_iterations": "the turn reached its limit of model calls (agent.max_iterations)",
    "max_seconds": "the turn reached its time limit (agent.max_seconds)",
    "max_tokens": "the turn reached its token limit (agent.max_tokens)",
    "max_cost": "the turn reached its cost limit (agent.max_cost)",
    "repeated": "the same call kept giving the same result (agent.max_repeats)",
}


def why_no_answer(turn: Turn) -> str:
    """One line, or "" for an answered turn."""
    why = _WHY.get(turn.stop, "")
    return f"no answer: {why}" if why and turn.answer is None and turn.stop != "length" else why


def as_json(session: Session, turn: Turn) -> str:
    """The result of a turn, for `--json`."""
    content = {"session": session.id, "name": session.name, "answer": turn.answer, "stop_reason": turn.stop}
    return msgspec.json.encode(content | {"usage": msgspec.to_builtins(turn.usage)}).decode()


def chosen(line: str, choices: tuple[str, ...]) -> str:
    """The user's answer to a question: a choice by its number, or what was typed. Raises `ToolError` for none."""
    if not line:
        raise ToolError("the user gave no answer; decide yourself, say what you assumed, and continue")
    if line.isdecimal() and 1 <= int(line) <= len(choices):
        return choices[int(line) - 1]
    return line
