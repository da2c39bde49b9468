"""A program's home: made from what the lane has learned before an episode, and read again after it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

import msgspec

from hermes_lab.errors import ToolError
from hermes_lab.harness.program import Program, Start
from hermes_lab.knowledge import Knowledge
from hermes_lab.memory.notes import Notes, parse_file, render_file
from hermes_lab.protocols import Home
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library
from hermes_lab.skills.storage.folder import SKILL
from hermes_lab.types import MemoryWrite, Skill, SkillWrite
from hermes_lab.types.memory import Target
from hermes_lab.types.skill import BY_AGENTS, Action, Origin

OriginOf = Callable[[str], Origin]
_NOTES_BYTES = 1 << 20


class Writer(NamedTuple):
    """Who wrote: the episode's key, and the model's name."""

    episode: str
    model: str


@dataclass
class Harvest:
    """The knowledge in a program's home after an episode, and the writes that led to it from what it was made from.

    `unread` names what cannot be carried to the next episode, and why.
    """

    library: Library
    notes: Notes
    skills: list[SkillWrite] = field(default_factory=list)
    note_writes: list[MemoryWrite] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


def furnish(home: Home, program: Program, start: Start, knowledge: Knowledge) -> None:
    """Writes the program's configuration, its skills and its notes into an empty home. Blocks.

    The program sees skills without the lab's own fields. Skills that prompts do not list are left out.
    """
    for path, text in program.files(start).items():
        home.write(path, text.encode())
    if program.skills:
        for name, skill in knowledge.library.listed.items():
            home.write(f"{program.skills}/{name}/{SKILL}", skill_format.shown(skill).encode())
            for path, data in skill.files.items():
                home.write(f"{program.skills}/{name}/{path}", data)
    for target, path in program.notes.items():
        if entries := knowledge.notes.of(target):
            home.write(path, render_file(entries).encode())


def harvest(home: Home, program: Program, library: Library, notes: Notes, by: Writer, origin_of: OriginOf) -> Harvest:
    """Compares the home with what it was made from, or with an earlier harvest. Blocks.

    `origin_of` says by a skill's name, or a note's text, who wrote it. A folder `category/name` is the skill `name`; a
    name or description that is not valid here is made so.
    """
    found = Harvest(library, notes)
    if program.skills:
        _harvest_skills(found, home, program.skills, by, origin_of)
    for target, path in program.notes.items():
        _harvest_notes(found, home, target, path, by, origin_of)
    return found


def _harvest_skills(found: Harvest, home: Home, root: str, by: Writer, origin_of: OriginOf) -> None:
    before = found.library.listed
    after = _skills_in(found, home, root, before)
    names = {*before, *after}
    # What was written at work comes first, as in records: each write says which library it was made to.
    for name in sorted(names, key=lambda name: (origin_of(name) != "foreground", name)):
        origin, old = origin_of(name), found.library.skills.get(name)
        changes = list(_changes(found, name, old, after.get(name), origin))
        if changes and old is not None and (why := _refusal(old, deleted=name not in after)):
            found.unread.append(f"skills: {name}: {why}; it stays as it was")
            continue
        for action, path, text in changes:
            write = SkillWrite(action, name, text, origin, *by, found.library.snapshot, path=path)
            found.library = found.library.after(write)
            found.skills.append(msgspec.structs.replace(write, after=found.library.snapshot))


def _refusal(skill: Skill, *, deleted: bool) -> str:
    """Why an agent may not change or delete a skill, as for the lab's own loop; "" if it may."""
    if skill_format.pinned(skill):
        return "is pinned: only a person may change it"
    if deleted and skill_format.origin(skill) not in BY_AGENTS:
        return "was not written by an agent, and only a person may delete it"
    return ""


def _changes(
    found: Harvest, name: str, before: Skill | None, after: Skill | None, origin: Origin
) -> Iterator[tuple[Action, str, str]]:
    """The writes that turn a skill into another: (action, path, text). What the lab keeps in the frontmatter is put
    back.

    The program does not see a skill that prompts do not list. If it writes one of that name, it replaces the hidden
    one, which becomes active: what the program wrote would be hidden, too.
    """
    if after is before:  # kept, as it could not be read
        return
    if after is None:
        yield "delete", "", ""
        return
    revived = before is not None and skill_format.state(before) in ("deprecated", "archived")
    if before is None or revived or after.text != skill_format.shown(before):
        marks = skill_format.marks(before) if before else {"origin": origin}
        if revived:
            marks = {key: value for key, value in marks.items() if key not in ("state", "absorbed-into")}
        yield "edit" if before else "create", "", skill_format.remarked(after, marks).text
    old = before.files if before else {}
    for path in sorted({*old, *after.files}):
        if path not in after.files:
            yield "remove_file", path, ""
        elif after.files[path] != old.get(path):
            try:
                yield "write_file", path, after.files[path].decode()
            except UnicodeDecodeError:
                found.unread.append(f"skills: {name}/{path} is not text in UTF-8")


def _skills_in(found: Harvest, home: Home, root: str, before: Mapping[str, Skill]) -> dict[str, Skill]:
    """The skills below a folder, by name; those that cannot be read are as `before`. Hidden files and folders are the
    program's own."""
    try:
        paths = [path for path in home.files(root) if not any(map(skill_format.ignored, PurePosixPath(path).parts))]
    except ToolError as error:
        found.unread.append(f"skills: {error}")
        return dict(before)
    folders = sorted(str(PurePosixPath(path).parent) for path in paths if PurePosixPath(path).name == SKILL)
    skills: dict[str, Skill] = {}
    for folder in folders:
        inside = "" if folder == "." else f"{folder}/"
        others = [each for each in folders if each != folder and each.startswith(inside)]
        try:
            own = {path.removeprefix(inside): path for path in paths if path.startswith(inside)}
            data = {
                path: home.read(f"{root}/{whole}", skill_format.MAX_FILE)
                for path, whole in own.items()
                if not any(whole.startswith(f"{other}/") for other in others)
            }
            skill = _skill(folder, data)
            if skill.name in skills:
                raise ToolError(f"there is another skill {skill.name!r}")
            skills[skill.name] = skill
        except ToolError as error:
            found.unread.append(f"skills: {folder}: {error}")
            if known := before.get(PurePosixPath(folder).name):
                skills.setdefault(known.name, known)
    return skills


def _skill(folder: str, data: dict[str, bytes]) -> Skill:
    """The skill in a folder. Programs accept names and descriptions that the standard does not; these are mended."""
    files = {path: content for path, content in data.items() if path != SKILL}
    for path in files:
        skill_format.check_path(path)
    try:
        text = data[SKILL].decode()
    except UnicodeDecodeError:
        raise ToolError(f"{SKILL} is not text in UTF-8") from None
    try:
        return skill_format.parse(text, files)
    except ToolError:
        skill = skill_format.canonical(skill_format.read(text, files, folder=PurePosixPath(folder).name))
        skill_format.check_body(skill_format.body(skill))
        return skill


def _harvest_notes(found: Harvest, home: Home, target: Target, path: str, by: Writer, origin_of: OriginOf) -> None:
    try:
        text = home.read(path, _NOTES_BYTES).decode(errors="replace") if _exists(home, path) else ""
    except ToolError as error:
        found.unread.append(f"notes: {error}")
        return
    for action, new, old in _note_changes(found.notes.of(target), parse_file(text)):
        write = MemoryWrite(action, target, origin_of(new or old), *by, found.notes.snapshot, "", new, old)
        found.notes = found.notes.after(write)
        found.note_writes.append(msgspec.structs.replace(write, after=found.notes.snapshot))


def _note_changes(
    before: Sequence[str], after: Sequence[str]
) -> Iterator[tuple[Literal["add", "replace", "remove"], str, str]]:
    """The edits that turn entries into others, as (action, new text, old text). Changed entries are replaced one by
    one; a different order is not a change."""
    gone = [entry for entry in before if entry not in after]
    new = [entry for entry in after if entry not in before]
    for old, text in zip(gone, new, strict=False):
        yield "replace", text, old
    for old in gone[len(new) :]:
        yield "remove", "", old
    for text in new[len(gone) :]:
        yield "add", text, ""


def _exists(home: Home, path: str) -> bool:
    folder, _, name = path.rpartition("/")
    return name in home.files(folder)
