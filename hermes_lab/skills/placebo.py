"""Placebo libraries: skills without content, as a control for the mere presence of a library."""

from collections.abc import Iterator
from itertools import cycle, islice

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
"""Filler text without numbers, names or instructions."""
_LETTERS = "-" + "-".join(PROSE.lower().translate(str.maketrans("", "", ".,;")).split())
_MAX_PART = 255
_KEPT = ("platforms", "chats", "disable-model-invocation", "metadata")
"""The fields that decide where a skill is listed, so that a placebo is listed where the skill is."""


def placebo(library: Library) -> Library:
    """Returns the library with the content of every skill replaced by filler text of the same length.

    Descriptions, bodies, files and their paths keep their number of characters, so prompts cost about the same number
    of tokens. Names of skills are kept, since the agent wrote them and may refer to them. Each skill gets a mark that
    the agent does not see (`is_placebo`), so that its text is not compared with tasks. Where a skill is listed, and
    whether an agent may change it, stays the same.
    """
    return Library(_to_placebo(skill) for skill in library.skills.values())


def placebo_notes(notes: Notes) -> Notes:
    """Returns the same number of notes of the same length, without content. Each starts at a different offset of the
    filler text, since notes must be unique."""
    return Notes(
        *(
            tuple(dict.fromkeys(_prose(len(entry), 41 * index).strip() or "." for index, entry in enumerate(entries)))
            for entries in (notes.memory, notes.user)
        )
    )


def is_placebo(skill: Skill) -> bool:
    """Whether the skill is a placebo."""
    return skill_format.mark(skill, "placebo") == "true"


def _to_placebo(skill: Skill) -> Skill:
    description = " ".join(_prose(len(skill.description)).split())
    fields, origin, state = skill_format.fields(skill), skill_format.origin(skill), skill_format.state(skill)
    kept = {key: fields[key] for key in _KEPT if key in fields}
    ours = {
        "origin": "" if origin == "user" else origin,
        "state": "" if state == "active" else state,
        "pinned": "true" if skill_format.pinned(skill) else "",
        "placebo": "true",
    }
    head = {"name": skill.name, "description": description, **kept}
    text = skill_format.render_fields(head, _prose(len(skill_format.body(skill))), ours)
    # A published skill may be less than `parse` asks for: it may have no body.
    return skill_format.read(text, dict(_files(skill)), name=skill.name)


def _files(skill: Skill) -> Iterator[tuple[str, bytes]]:
    """The files without content, numbered in an order that they keep, so that a placebo of a placebo is the same."""
    width = len(str(len(skill.files) - 1))
    for number, path in enumerate(sorted(skill.files, key=_split)):
        folder, name = _split(path)
        yield folder + _name(f"{number:0{width}}", len(name)), _prose(len(skill.files[path])).encode()


def _split(path: str) -> tuple[str, str]:
    """The folder that a skill may have, or "", and the rest of the path."""
    folder, slash, name = path.partition("/")
    return (f"{folder}/", name) if slash and folder in skill_format.FOLDERS else ("", path)


def _name(number: str, length: int) -> str:
    """A name of about `length` characters, at least its number, with parts that file systems take."""
    text = number + "".join(islice(cycle(_LETTERS), max(0, length - len(number))))
    return "/".join(text[start : start + _MAX_PART] for start in range(0, len(text), _MAX_PART + 1))


def _prose(length: int, start: int = 0) -> str:
    """Returns `length` characters of filler text; a trailing space, which a file would lose, becomes a period."""
    text = "".join(islice(cycle(PROSE), start, start + length))
    return f"{text[:-1]}." if text.endswith(" ") else text
