"""Where a skill is listed: its state, the operating system, and the chat that it was written for."""

import sys
from typing import NamedTuple

from hermes_lab.skills import format as skill_format
from hermes_lab.types import Skill

_SYSTEMS = {"linux": "linux", "macos": "macos", "darwin": "macos", "mac": "macos", "osx": "macos"}
_SYSTEMS |= {"windows": "windows", "win32": "windows"}
_HERE = _SYSTEMS.get(sys.platform, sys.platform)
_CHATS = {"direct": "dm", "private": "dm", "dms": "dm", "groups": "group", "channels": "channel", "threads": "thread"}


class Place(NamedTuple):
    """Where a chat takes place: the `platform` (`cli`, `discord`, `telegram`, ...), and the kind of `chat` (`dm`,
    `group`, `channel`, `thread`)."""

    platform: str
    chat: str


TERMINAL = Place("cli", "dm")


def fits(skill: Skill, place: Place | None) -> bool:
    """Whether a skill is for this machine and this place; None is a batch, which is no chat.

    `platforms` has operating systems, chat platforms or both: one of each kind that is given has to fit. `chats` has
    kinds of chats. Both stand in the frontmatter or in its `metadata`, as a list or as text.
    """
    if "platforms" not in skill.text and "chats" not in skill.text:
        return True
    platforms, chats = _named(skill, "platforms"), [_CHATS.get(chat, chat) for chat in _named(skill, "chats")]
    systems = {_SYSTEMS[name] for name in platforms if name in _SYSTEMS}
    places = [name for name in platforms if name not in _SYSTEMS]
    if systems and _HERE not in systems:
        return False
    if place is None:
        return not places and not chats
    return (not places or place.platform in places) and (not chats or place.chat in chats)


def for_request_only(skill: Skill) -> bool:
    """Whether a skill is for people to load, and not for the agent: `disable-model-invocation: true`."""
    key = "disable-model-invocation"
    return key in skill.text and skill_format.words(skill_format.fields(skill).get(key)) == ("true",)


def listed(skill: Skill, place: Place | None = None) -> bool:
    """Whether prompts list the skill in this place; None is a batch."""
    return skill_format.state(skill) in ("active", "stale") and fits(skill, place) and not for_request_only(skill)


def why_not_listed(skill: Skill, place: Place | None) -> str:
    """Returns in a word or two why a skill is not listed."""
    if not fits(skill, place):
        return "for another platform"
    return "only on request" if for_request_only(skill) else skill_format.state(skill)


def _named(skill: Skill, field: str) -> tuple[str, ...]:
    fields = skill_format.fields(skill)
    metadata = fields.get("metadata")
    return skill_format.words(fields.get(field) or (metadata.get(field) if isinstance(metadata, dict) else None))
