"""Detects which skills a program has read: those whose own text reached the model, by whatever tool."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from hermes_lab.skills import format as skill_format
from hermes_lab.types import Message, Skill

_SHARE = 0.8
"""The share of a skill's lines that a text must contain: tools shorten, number and wrap lines."""
_LONGEST_LINE = 200


def loaded_skills(skills: Mapping[str, Skill], messages: Sequence[Message]) -> list[str]:
    """The names of the skills whose text is in a tool result, or in what the program added to the conversation after
    its first reply, in order. The system prompt and the task do not count."""
    found: dict[str, None] = {}
    for text in _shown_texts(messages):
        for name, skill in skills.items():
            if name not in found and shows(skill, text):
                found[name] = None
    return list(found)


def shows(skill: Skill, text: str) -> bool:
    """Whether a text contains a skill's name and its body, as in the file or inside JSON."""
    if not re.search(rf"(?<![\w-]){re.escape(skill.name)}(?![\w-])", text):
        return False
    lines = _lines_of(skill_format.body(skill))
    told = text if text.lstrip()[:1] not in ("{", "[", '"') else "\n".join(_strings(text))
    return sum(line in told for line in lines) >= _SHARE * len(lines)


@lru_cache(maxsize=1024)
def _lines_of(body: str) -> tuple[str, ...]:
    return tuple(line.strip()[:_LONGEST_LINE] for line in body.splitlines() if line.strip())


def _shown_texts(messages: Sequence[Message]) -> Iterator[str]:
    replied = False
    for message in messages:
        replied |= message.role == "assistant"
        if not replied or message.role == "assistant":
            continue
        yield from (result.content for result in message.results)
        if message.role == "user" and not message.results:
            yield message.content


def _strings(text: str) -> Iterable[str]:
    """All strings in a text that is JSON; the text itself if it is not."""
    try:
        return _inside(json.loads(text))
    except (ValueError, RecursionError):
        return (text,)


def _inside(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _inside(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _inside(inner)
