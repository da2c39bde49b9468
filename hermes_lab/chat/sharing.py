"""What may leave the record of chats: only turns whose writers agree, and none with a possible secret."""

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from hermes_lab.chat.turns import UNDONE
from hermes_lab.text.secrets import secrets_in
from hermes_lab.types import Episode
from hermes_lab.types.episode import CHAT

_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|[\"\\/nrt])")


def withheld(episode: Episode, *, consent: bool) -> str | None:
    """Why a turn of a chat is neither exported nor trained on; None if it is, and for episodes that are no chat.

    `consent`: that of the writers is taken for granted, else the turn must have been recorded with it.
    """
    if episode.suite != CHAT:
        return None
    if episode.task.metadata.get(UNDONE):
        return "taken back with /undo"
    if not consent and not episode.task.metadata.get("consent"):
        return "without consent (chat.consent, --consent or gate.consent)"
    found = secrets_in(_texts(episode))
    return f"with a possible secret ({', '.join(found)})" if found else None


def _unescaped(match: re.Match[str]) -> str:
    escape = match[1]
    return chr(int(escape[1:], 16)) if escape.startswith("u") else {"n": "\n", "r": "\r", "t": "\t"}.get(escape, escape)


def _texts(episode: Episode) -> Iterator[str]:
    """All texts of the conversations and verdicts, and the strings inside those that are JSON, such as results."""
    trajectories = [episode.trajectory, episode.review.trajectory if episode.review else None]
    said = [(trajectory.messages, trajectory.tools) for trajectory in trajectories if trajectory]
    waiting: list[Any] = [msgspec.to_builtins([said, episode.children, episode.verdicts, episode.skills])]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
            if "\\" in value:  # escapes of JSON inside of a longer text
                yield _ESCAPE.sub(_unescaped, value)
            if value.lstrip().startswith(("{", "[")):
                try:
                    waiting.append(json.loads(value))
                except (ValueError, RecursionError):
                    continue
        elif isinstance(value, dict):
            waiting += (*value, *value.values())
        elif isinstance(value, list | tuple):
            waiting += value
