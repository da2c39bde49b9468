"""What `skill_manage` may do to a library: every action checked, as a function from library to library."""

import msgspec

from hermes_lab.errors import ToolError
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library
from hermes_lab.types import Skill, SkillEdit, SkillWrite
from hermes_lab.types.skill import Origin

_MAX_FILES = 100


def apply(library: Library, edit: SkillEdit, *, origin: Origin, episode: str, model: str) -> tuple[Library, SkillWrite]:
    """The library after `edit`, and the record of it. Raises `ToolError` that says how to mend the edit."""
    skill_format.check_name(edit.name)
    before = library.skills.get(edit.name)
    if edit.action == "create":
        if before is not None:
            raise ToolError(f"a skill {edit.name!r} exists; use action=patch to change it")
        skill = _created(edit, origin)
    elif before is None:
        raise ToolError(f"no skill {edit.name!r}; there are: {', '.join(library.skills) or 'none yet'}")
    elif skill_format.pinned(before) and origin != "user":
        raise ToolError(f"{edit.name!r} is pinned: only a person may change it")
    elif edit.action == "delete":
        return _deleted(library, before, edit, origin, episode, model)
    else:
        skill = _CHANGES[edit.action](before, edit)
    after = library.with_skill(skill)
    # A patch may name SKILL.md, or nothing, for the skill's own text.
    path = edit.path if edit.action in ("patch", "write_file", "remove_file") and edit.path != "SKILL.md" else ""
    return after, SkillWrite(
        action=edit.action,
        name=skill.name,
        text=skill.files.get(path, b"").decode() if path else skill.text,
        origin=origin,
        episode=episode,
        model=model,
        snapshot=library.snapshot,
        after=after.snapshot,
        path=path,
    )


def _created(edit: SkillEdit, origin: Origin) -> Skill:
    """`content` is the body, or a whole SKILL.md whose frontmatter then says name and description."""
    content = edit.content
    text = content if content.startswith("---\n") else skill_format.render(edit.name, edit.description, content)
    skill = _same_name(skill_format.parse(text), edit.name)
    return skill if origin == "user" else skill_format.marked(skill, origin=origin, state="", pinned="")


def _edited(before: Skill, edit: SkillEdit) -> Skill:
    """The whole SKILL.md anew; a rewritten skill is active again."""
    content = edit.content
    if not content.startswith("---\n"):
        content = skill_format.render(edit.name, edit.description or before.description, content)
    skill = _same_name(skill_format.parse(content, before.files), edit.name)
    pinned = "true" if skill_format.pinned(before) else ""
    origin = skill_format.origin(before)
    return skill_format.marked(skill, origin="" if origin == "user" else origin, pinned=pinned, state="")


def _patched(before: Skill, edit: SkillEdit) -> Skill:
    path = "" if edit.path == "SKILL.md" else edit.path
    if not path:
        skill = _same_name(skill_format.parse(_replaced(before.text, edit, edit.name), before.files), edit.name)
        return skill if skill_format.state(skill) == "active" else skill_format.marked(skill, state="")
    if path not in before.files:
        raise ToolError(f"path: {edit.name!r} has no file {path!r}; it has: {', '.join(before.files) or 'none'}")
    try:
        text = before.files[path].decode()
    except UnicodeDecodeError:
        raise ToolError(f"path: {path!r} is no text") from None
    return _with_file(before, path, _replaced(text, edit, path))


def _written(before: Skill, edit: SkillEdit) -> Skill:
    skill_format.check_path(edit.path)
    if edit.path not in before.files and len(before.files) >= _MAX_FILES:
        raise ToolError(f"path: {edit.name!r} has {_MAX_FILES} files already")
    return _with_file(before, edit.path, edit.content)


def _removed(before: Skill, edit: SkillEdit) -> Skill:
    if edit.path not in before.files:
        raise ToolError(f"path: {edit.name!r} has no file {edit.path!r}; it has: {', '.join(before.files) or 'none'}")
    files = {path: data for path, data in before.files.items() if path != edit.path}
    return msgspec.structs.replace(before, files=files)


_CHANGES = {"edit": _edited, "patch": _patched, "write_file": _written, "remove_file": _removed}


def _deleted(
    library: Library, before: Skill, edit: SkillEdit, origin: Origin, episode: str, model: str
) -> tuple[Library, SkillWrite]:
    into = edit.absorbed_into
    if into and (into == before.name or into not in library.skills):
        raise ToolError(f"absorbed_into: no other skill {into!r}")
    after = library.without(before.name)
    write = SkillWrite(
        action="delete",
        name=before.name,
        text="",
        origin=origin,
        episode=episode,
        model=model,
        snapshot=library.snapshot,
        after=after.snapshot,
        absorbed_into=into,
    )
    return after, write


def _replaced(text: str, edit: SkillEdit, where: str) -> str:
    found = text.count(edit.old_string) if edit.old_string else 0
    if found != 1:
        raise ToolError(f"old_string: found {found} times in {where!r}, must be there exactly once")
    return text.replace(edit.old_string, edit.new_string)


def _with_file(before: Skill, path: str, content: str) -> Skill:
    try:
        data = content.encode()
    except UnicodeEncodeError:
        raise ToolError("content: holds half a character, which cannot be written") from None
    if len(data) > skill_format.MAX_FILE:
        raise ToolError(f"content: longer than {skill_format.MAX_FILE >> 20} MiB")
    if any(other.startswith(f"{path}/") or path.startswith(f"{other}/") for other in before.files):
        raise ToolError(f"path: {path!r} would be both a file and a folder")
    return msgspec.structs.replace(before, files={**before.files, path: data})


def _same_name(skill: Skill, name: str) -> Skill:
    if skill.name != name:
        raise ToolError(f"name: {name!r}, but the frontmatter says {skill.name!r}")
    return skill
