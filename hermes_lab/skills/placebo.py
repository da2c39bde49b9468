"""Skills that say nothing: what a library does by being there, whatever stands in it."""

from itertools import cycle, islice

import msgspec

from hermes_lab.memory.notes import Notes
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library
from hermes_lab.types import Skill

PROSE = (
    "The path along the river is pleasant in every season. Tall grass moves in the wind, and small birds rest on the "
    "old stone wall. In the afternoon the light turns golden, and people walk slowly home. Some stop at the bridge to "
    "watch the water; others talk about the weather. When the evening comes, lamps are lit in the windows, and the "
    "smell of fresh bread fills the narrow street. Nothing here asks to be done, and nobody is in a hurry. "
)
"""Without a number, a name or an instruction."""


def placebo(library: Library) -> Library:
    """The library with the same names, and prose of the same length in place of all that its skills say.

    Descriptions, bodies and files keep their number of characters, so that a prompt costs about as many tokens. A
    skill's name stays, since the agent wrote it and may come back to it. Each is marked as emptied, which the agent
    does not see, so that nobody takes its prose for what it is about (`is_placebo`).
    """
    return Library(_emptied(skill) for skill in library.skills.values())


def placebo_notes(notes: Notes) -> Notes:
    """As many notes of the same length, which say nothing. Each begins at another place of the prose, since no two
    notes are the same."""
    return Notes(
        *(
            tuple(dict.fromkeys(_prose(len(entry), 41 * place).strip() or "." for place, entry in enumerate(entries)))
            for entries in (notes.memory, notes.user)
        )
    )


def is_placebo(skill: Skill) -> bool:
    """Whether the skill was emptied."""
    return skill_format.mark(skill, "placebo") == "true"


def _emptied(skill: Skill) -> Skill:
    description = _prose(len(skill.description))
    body = _prose(len(skill_format.body(skill)))
    origin, state = skill_format.origin(skill), skill_format.state(skill)
    text = skill_format.render(
        skill.name,
        description,
        body,
        origin="" if origin == "user" else origin,
        state="" if state == "active" else state,
        placebo="true",
    )
    return msgspec.structs.replace(
        skill_format.parse(text), files={path: _prose(len(data)).encode() for path, data in skill.files.items()}
    )


def _prose(length: int, start: int = 0) -> str:
    """So many characters of prose, without a blank at the end, which a file would lose."""
    text = "".join(islice(cycle(PROSE), start, start + length))
    return f"{text[:-1]}." if text.endswith(" ") else text
