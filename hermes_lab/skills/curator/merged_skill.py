"""Reversible merging of duplicates into one skill.

An absorbed skill stays in the library, archived, with a pointer to the merged skill (`hermes-absorbed-into`). Its text
becomes a reference of the merged skill, its files go into subfolders with its name, and its triggers are added to the
merged skill's description. That description, and the list at the end of the body, are regenerated from the absorbed
skills, so that restoring one leaves no trace.
"""

import re
from collections.abc import Sequence

import msgspec

from hermes_lab.errors import ToolError
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.curator.duplicates import Content
from hermes_lab.skills.library import Library
from hermes_lab.types import Skill

MAX_FILES = 100
_LIST = "## Merged skills"
_SECTION = re.compile(rf"\n*{_LIST}\n\n(?:- Read `references/[^\n]*(?:\n|\Z))+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_LEAST_TRIGGER = 40
"""Fewest characters of a shortened trigger; less is meaningless."""


def absorb(library: Library, merged_skill: str, names: Sequence[str]) -> Library:
    """Archives the skills `names` and adds them to `merged_skill`. Raises `ToolError` if that exceeds a limit."""
    for name in names:
        head, member = library.skills[merged_skill], library.skills[name]
        head = msgspec.structs.replace(head, files=_without(head, member))
        place = _free_place(head, name)
        files = {**head.files, **_carried(head, member, place)}
        if len(files) > MAX_FILES:
            raise ToolError(f"{merged_skill!r} would have {len(files)} files, more than {MAX_FILES}")
        for path in files:
            skill_format.check_path(path)
        away = {"state": "archived", "absorbed-into": merged_skill, "absorbed-as": place}
        library = library.with_skill(skill_format.marked(member, **away))
        library = library.with_skill(msgspec.structs.replace(head, files=files))
    return library.with_skill(_with_list(library.skills[merged_skill], members(library, merged_skill)))


def restore(library: Library, name: str) -> Library:
    """Reactivates an archived skill and removes it from the skill that absorbed it. The two are not merged again, since
    a person has decided that they differ."""
    skill = library.skills[name]
    into = skill_format.mark(skill, "absorbed-into")
    apart = " ".join(sorted({*apart_from(skill), into} - {""}))
    back = {"state": "", "absorbed-into": "", "absorbed-as": "", "apart-from": apart}
    library = library.with_skill(skill_format.marked(skill, **back))
    head = library.skills.get(into)
    if head is None:
        return library
    head = msgspec.structs.replace(head, files=_without(head, skill))
    return library.with_skill(_with_list(head, members(library, into)))


def members(library: Library, merged_skill: str) -> list[Skill]:
    """The skills that `merged_skill` absorbed directly, by name."""
    return [skill for skill in library.skills.values() if merged_skill in skill.text and _home(skill) == merged_skill]


def merged_groups(library: Library) -> dict[str, list[Skill]]:
    """Directly absorbed skills, by merged skill."""
    found: dict[str, list[Skill]] = {}
    for skill in library.skills.values():
        if home := _home(skill):
            found.setdefault(home, []).append(skill)
    return found


def apart_from(skill: Skill) -> frozenset[str]:
    """The skills that a person wants kept separate from this one."""
    return frozenset(skill_format.mark(skill, "apart-from").split())


def own(skill: Skill, absorbed: Sequence[Skill]) -> Content:
    """A skill's own content, without absorbed skills."""
    places = [skill_format.mark(member, "absorbed-as") for member in absorbed]
    scripts = {
        path: data
        for path, data in skill.files.items()
        if path.startswith("scripts/") and not any(_is_of(place, path) for place in places)
    }
    return Content(skill.name, _own_description(skill), _own_body(skill), scripts)


def _home(skill: Skill) -> str:
    """The merged skill that absorbed a skill, or "" (also if it was rewritten since)."""
    return skill_format.mark(skill, "absorbed-into") if skill_format.state(skill) == "archived" else ""


def _carried(head: Skill, member: Skill, place: str) -> dict[str, bytes]:
    """The files that a skill contributes: its text as a reference with adapted paths, and its files."""
    moved = {path: path if head.files.get(path) == data else _path(place, path) for path, data in member.files.items()}
    text = f"# {member.name}\n\n{member.description}\n\n{skill_format.body(member)}\n"
    for old in sorted(moved, key=len, reverse=True):
        text = re.sub(rf"(?<![\w-])(?<![\w-]/){re.escape(old)}(?![\w/-])", moved[old].replace("\\", r"\\"), text)
    files = {moved[path]: data for path, data in member.files.items()}
    return {**files, f"references/{place}.md": text.encode()}


def _without(head: Skill, member: Skill) -> dict[str, bytes]:
    """The merged skill's files without those of `member`."""
    place = skill_format.mark(member, "absorbed-as") if skill_format.mark(member, "absorbed-into") == head.name else ""
    return {path: data for path, data in head.files.items() if not (place and _is_of(place, path))}


def _path(place: str, path: str) -> str:
    folder, _, rest = path.rpartition("/") if path.count("/") == 0 else path.partition("/")
    return f"{folder or 'references'}/{place}/{rest}"


def _is_of(place: str, path: str) -> bool:
    """Whether a file of a merged skill came from the skill absorbed as `place`."""
    return path == f"references/{place}.md" or path.split("/")[1:2] == [place]


def _free_place(head: Skill, name: str) -> str:
    number, place = 1, name
    while any(_is_of(place, path) for path in head.files):
        number += 1
        place = f"{name}-{number}"
    return place


def _with_list(head: Skill, absorbed: Sequence[Skill]) -> Skill:
    """The merged skill with its description and list regenerated from the absorbed skills."""
    description, body = _own_description(head), _own_body(head)
    lines = [
        f"- Read `references/{skill_format.mark(skill, 'absorbed-as')}.md` for: {skill.description}"
        for skill in absorbed
    ]
    told = _with_triggers(description, absorbed) if absorbed else description
    text = "\n".join([body, *(["", _LIST, "", *lines] if lines else [])])
    skill = skill_format.rewritten(head, told, text)
    return skill_format.marked(skill, **{"own-description": description if absorbed else ""})


def _with_triggers(description: str, absorbed: Sequence[Skill]) -> str:
    """The description with the triggers of absorbed skills, within the length limit."""
    text = _ended(description)
    for skill in absorbed:
        room = skill_format.MAX_DESCRIPTION - len(text) - len(" Also: .")
        trigger = _trigger(skill.description).rstrip(".")
        if len(trigger) > room:
            trigger = f"{trigger[: max(room - 1, 0)].rsplit(' ', 1)[0]}…"
            if len(trigger) < _LEAST_TRIGGER:
                break
        if trigger.lower() not in text.lower():
            text = f"{text} Also: {trigger}."
    return text if len(text) <= skill_format.MAX_DESCRIPTION else description


def _trigger(description: str) -> str:
    """The sentences on when to use a skill, or else the first sentence."""
    sentences = _SENTENCE.split(description)
    return " ".join(s for s in sentences if s.lower().startswith(("use ", "when "))) or sentences[0]


def _own_description(skill: Skill) -> str:
    """The description before the first merge, unless rewritten since."""
    before = skill_format.mark(skill, "own-description")
    ended = _ended(before)
    told = skill.description in (before, ended) or skill.description.startswith(f"{ended} Also: ")
    return before if before and told else skill.description


def _ended(description: str) -> str:
    return description if description.endswith((".", "!", "?")) else f"{description}."


def _own_body(skill: Skill) -> str:
    return _SECTION.sub("", skill_format.body(skill)).strip()
