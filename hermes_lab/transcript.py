"""Which messages the model sees after a conversation was compressed. Shared by the agent and by replay."""

from collections.abc import Sequence

from hermes_lab.text.clip import clip
from hermes_lab.types import Compression, Message

CONCLUDE = "The budget for tools is used up. Answer now, without tools."
"""Sent when a budget ends, to ask for a final answer."""
SUMMARY = "[Summary of earlier turns, which are no longer shown]\n"
SUMMARISE = """\
Summarise this part of an agent's work for the agent itself, which will continue from your summary alone. Keep what \
was asked, what was done and found, exact names, paths, numbers and errors, what failed and why, and what is left to \
do. Leave out everything else. Answer with the summary only."""


def visible(messages: Sequence[Message], compressions: Sequence[Compression]) -> Sequence[Message]:
    """The messages that the model sees after `compressions`. The last summary replaces all turns before its end."""
    if not compressions:
        return messages
    start = compressions[-1].start
    return [*messages[:start], *_after(messages, compressions, start, len(messages))]


def summary_request(
    messages: Sequence[Message], compressions: Sequence[Compression], start: int, end: int, room: int
) -> list[Message]:
    """The prompt that asks for a summary of `messages[start:end]`, as visible after `compressions`.

    Each message is clipped to `room` characters.
    """
    turns = _after(messages, compressions, start, end)
    text = "\n\n".join(f"## {turn.role}\n{_shortened(turn, room)}" for turn in turns)
    return [Message(role="system", content=SUMMARISE), Message(role="user", content=text)]


def _after(messages: Sequence[Message], compressions: Sequence[Compression], start: int, end: int) -> list[Message]:
    """The visible messages between two indices: the last summary, if any, and the turns it does not cover."""
    if not compressions:
        return list(messages[start:end])
    last, summaries = compressions[-1], {compression.at for compression in compressions}
    return [messages[last.at], *(messages[i] for i in range(last.end, end) if i not in summaries)]


def _shortened(turn: Message, room: int) -> str:
    # In the Hermes text format the content already contains the calls.
    calls = [f"[calls {c.name} with {c.arguments or c.raw}]" for c in turn.tool_calls if c.name not in turn.content]
    text = "\n".join([turn.content, *calls]).strip()
    return clip(text, room).text


def begins_turn(messages: Sequence[Message], index: int) -> bool:
    """Whether the conversation can be cut before this message without separating a tool call from its result."""
    message = messages[index]
    return message.role == "assistant" or (message.role == "user" and not message.results)
