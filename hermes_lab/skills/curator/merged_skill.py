"""Reversible merging of duplicates into one skill.

An absorbed skill stays in the library, archived, with a pointer to the merged skill (`hermes-absorbed-into`). Its text
becomes a reference of the merged skill, its files go into subfolders with its name, and its triggers are added to the
merged skill's description. That description, and the list at the end of the body, are regenerated from the absorbed
skills, so that restoring one undoes its merge completely.
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
_MIN_TRIGGER = 40
"""Minimum length of a shortened trigger in characters; a shorter one says nothing."""


def absorb(library: Library, merged_skill: str, names: Sequence[str]) -> Library:
    """Archives the skills `names` and adds them to `merged_skill`. Raises `ToolError` if that exceeds a limit."""
    for name in names:
        head, member = library.skills[merged_skill], library.skills[name]
        head = msgspec.structs.replace(head, files=_without(head, member))
        folder = _free_folder(head, name)
        files = {**head.files, **_added_files(head, member, folder)}
        if len(files) > MAX_FILES:
            raise ToolError(f"{merged_skill!r} would have {len(files)} files, more than {MAX_FILES}")
        for path in files:
            skill_format.check_path(path)
        away = {"state": "archived", "absorbed-into": merged_skill, "absorbed-as": folder}
        library = library.with_skill(skill_format.marked(member, **away))
        library = library.with_skill(msgspec.structs.replace(head, files=files))
    return library.with_skill(_with_list(library.skills[merged_skill], members(library, merged_skill)))


def restore(library: Library, name: str) -> Library:
    """Reactivates an archived skill and removes it from the skill that absorbed it. The two are not merged again, since
    the user decided that they differ."""
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
    """Returns the skills that `merged_skill` absorbed directly, by name."""
    return [
        skill for skill in library.skills.values() if merged_skill in skill.text and _absorbed_by(skill) == merged_skill
    ]


def merged_groups(library: Library) -> dict[str, list[Skill]]:
    """Returns the directly absorbed skills by merged skill."""
    found: dict[str, list[Skill]] = {}
    for skill in library.skills.values():
        if head := _absorbed_by(skill):
            found.setdefault(head, []).append(skill)
    return found


def apart_from(skill: Skill) -> frozenset[str]:
    """Returns the skills that the user wants to keep separate from this one."""
    return frozenset(skill_format.mark(skill, "apart-from").split())


def own(skill: Skill, absorbed: Sequence[Skill]) -> Content:
    """Returns a skill's own content, without absorbed skills."""
    folders = [skill_format.mark(member, "absorbed-as") for member in absorbed]
    scripts = {
        path: data
        for path, data in skill.files.items()
        if path.startswith("scripts/") and not any(_is_from(folder, path) for folder in folders)
    }
    return Content(skill.name, _own_description(skill), _own_body(skill), scripts)


def _absorbed_by(skill: Skill) -> str:
    """Returns the merged skill that absorbed a skill, or "" if there is none or the skill was rewritten since."""
    return skill_format.mark(skill, "absorbed-into") if skill_format.state(skill) == "archived" else ""


def _added_files(head: Skill, member: Skill, folder: str) -> dict[str, bytes]:
    """Returns the files that a skill adds: its text as a reference with adapted paths, and its own files."""
    moved = {path: path if head.files.get(path) == data else _path(folder, path) for path, data in member.files.items()}
    text = f"# {member.name}\n\n{member.description}\n\n{skill_format.body(member)}\n"
    for old in sorted(moved, key=len, reverse=True):
        text = re.sub(rf"(?<![\w-])(?<![\w-]/){re.escape(old)}(?![\w/-])", moved[old].replace("\\", r"\\"), text)
    files = {moved[path]: data for path, data in member.files.items()}
    return {**files, f"references/{folder}.md": text.encode()}


def _without(head: Skill, member: Skill) -> dict[str, bytes]:
    """Returns the merged skill's files without those of `member`."""
    folder = skill_format.mark(member, "absorbed-as") if skill_format.mark(member, "absorbed-into") == head.name else ""
    return {path: data for path, data in head.files.items() if not (folder and _is_from(folder, path))}


def _path(folder: str, path: str) -> str:
    top, _, rest = path.rpartition("/") if path.count("/") == 0 else path.partition("/")
    return f"{top or 'references'}/{folder}/{rest}"


def _is_from(folder: str, path: str) -> bool:
    """Whether a file of a merged skill came from the skill absorbed as `folder`."""
    return path == f"references/{folder}.md" or path.split("/")[1:2] == [folder]


def _free_folder(head: Skill, name: str) -> str:
    number, folder = 1, name
    while any(_is_from(folder, path) for path in head.files):
        number += 1
        folder = f"{name}-{number}"
    return folder


def _with_list(head: Skill, absorbed: Sequence[Skill]) -> Skill:
    """Returns the merged skill with its description and list regenerated from the absorbed skills."""
    description, body = _own_description(head), _own_body(head)
    lines = [
        f"- Read `references/{skill_format.mark(skill, 'absorbed-as')}.md` for: {skill.description}"
        for skill in absorbed
    ]
    shown = _with_triggers(description, absorbed) if absorbed else description
    text = "\n".join([body, *(["", _LIST, "", *lines] if lines else [])])
    skill = skill_format.rewritten(head, shown, text)
    return skill_format.marked(skill, **{"own-description": description if absorbed else ""})


def _with_triggers(description: str, absorbed: Sequence[Skill]) -> str:
    """Returns the description with the triggers of absorbed skills added, within the length limit."""
    text = _with_period(description)
    for skill in absorbed:
        room = skill_format.MAX_DESCRIPTION - len(text) - len(" Also: .")
        trigger = _trigger(skill.description).rstrip(".")
        if len(trigger) > room:
            trigger = f"{trigger[: max(room - 1, 0)].rsplit(' ', 1)[0]}…"
            if len(trigger) < _MIN_TRIGGER:
                break
        if trigger.lower() not in text.lower():
            text = f"{text} Also: {trigger}."
    return text if len(text) <= skill_format.MAX_DESCRIPTION else description


def _trigger(description: str) -> str:
    """Returns the sentences that say when to use a skill, or else the first sentence."""
    sentences = _SENTENCE.split(description)
    return " ".join(s for s in sentences if s.lower().startswith(("use ", "when "))) or sentences[0]


def _own_description(skill: Skill) -> str:
    """Returns the description without merged triggers, i.e. before the first merge or as rewritten since."""
    before = skill_format.mark(skill, "own-description")
    ended = _with_period(before)
    generated = skill.description in (before, ended) or skill.description.startswith(f"{ended} Also: ")
    return before if before and generated else skill.description


def _with_period(description: str) -> str:
    return description if description.endswith((".", "!", "?")) else f"{description}."


def _own_body(skill: Skill) -> str:
    return _SECTION.sub("", skill_format.body(skill)).strip()
