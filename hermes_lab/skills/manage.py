"""Validates and applies the edits of `skill_manage`, as pure functions from library to library."""

import difflib
from collections.abc import Collection, Iterable

import msgspec

from hermes_lab.errors import ToolError
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library
from hermes_lab.skills.storage.folder import SKILL
from hermes_lab.text.replace import replace
from hermes_lab.types import Skill, SkillEdit, SkillWrite
from hermes_lab.types.skill import Origin

_MAX_FILES = 100
_MAX_NAMED = 20


def apply(library: Library, edit: SkillEdit, *, origin: Origin, episode: str, model: str) -> tuple[Library, SkillWrite]:
    """Returns the library after `edit`, and its record. Raises `ToolError` saying how to fix the edit."""
    skill_format.check_name(edit.name)
    before = library.skills.get(edit.name)
    if before is not None and skill_format.pinned(before) and origin != "user":
        raise ToolError(f"{edit.name!r} is pinned: only a person may change it")
    path = ""
    if edit.action == "create":
        after = library.with_skill(_create(before, edit, origin))
    elif before is None:
        raise ToolError(f"no skill {edit.name!r}; available: {named(edit.name, library.skills)}")
    elif edit.action == "delete":
        after = _delete(library, edit)
    elif edit.action == "edit":
        after = library.with_skill(_edit(before, edit))
    else:
        # For a patch, both "SKILL.md" and an empty path mean the skill's own text.
        path = "" if edit.action == "patch" and edit.path == SKILL else edit.path
        after = library.with_skill(_CHANGES[edit.action](before, edit, path))
    return after, SkillWrite(
        action=edit.action,
        name=edit.name,
        text=_text_after(after.skills.get(edit.name), path),
        origin=origin,
        episode=episode,
        model=model,
        snapshot=library.snapshot,
        after=after.snapshot,
        path=path,
        absorbed_into=edit.absorbed_into if edit.action == "delete" else "",
    )


def apply_all(
    library: Library, edits: Iterable[SkillEdit], *, origin: Origin, episode: str, model: str
) -> tuple[Library, list[SkillWrite]]:
    """Applies several edits in order."""
    writes = []
    for edit in edits:
        library, write = apply(library, edit, origin=origin, episode=episode, model=model)
        writes.append(write)
    return library, writes


def named(name: str, known: Collection[str]) -> str:
    """Lists the known names for an error message; of many, those most similar to `name`."""
    if len(known) <= _MAX_NAMED:
        return ", ".join(known) or "none yet"
    near = difflib.get_close_matches(name, known, n=_MAX_NAMED, cutoff=0.3)
    return f"{', '.join(near)}{', ' if near else ''}and {len(known) - len(near)} others"


def _create(before: Skill | None, edit: SkillEdit, origin: Origin) -> Skill:
    """`content` is the body, or a whole SKILL.md with name and description in its frontmatter."""
    if before is not None:
        raise ToolError(f"a skill {edit.name!r} already exists; use action=patch to change it")
    text = skill_format.whole(edit.content) or skill_format.render(edit.name, edit.description, edit.content)
    skill = skill_format.parse(text)
    return _validated(
        skill if origin == "user" else skill_format.remarked(skill, {"origin": origin, "compiled": edit.compiled}),
        edit.name,
    )


def _edit(before: Skill, edit: SkillEdit) -> Skill:
    """`content` replaces the whole SKILL.md, or only the body."""
    if text := skill_format.whole(edit.content):
        return _restore_marks(before, skill_format.parse(text, before.files))
    return _restore_marks(before, skill_format.rewritten(before, edit.description or before.description, edit.content))


def _patch(before: Skill, edit: SkillEdit, path: str) -> Skill:
    if not path:  # SKILL.md as the agent sees it
        text = _replace_once(skill_format.shown(before), edit)
        return _restore_marks(before, skill_format.read(text, before.files, name=before.name))
    _check_exists(before, path)
    try:
        text = before.files[path].decode()
    except UnicodeDecodeError:
        raise ToolError(f"path: {path!r} is not a text file") from None
    return _with_file(before, path, _replace_once(text, edit))


def _write_file(before: Skill, edit: SkillEdit, path: str) -> Skill:
    skill_format.check_path(path)
    if path not in before.files:
        if path.partition("/")[0] not in skill_format.FOLDERS or "/" not in path:
            raise ToolError(f"path: {path!r} must be below {', '.join(f'{name}/' for name in skill_format.FOLDERS)}")
        if len(before.files) >= _MAX_FILES:
            raise ToolError(f"path: {edit.name!r} already has {_MAX_FILES} files")
        if clash := next((other for other in before.files if _overlap(path.casefold(), other.casefold())), ""):
            raise ToolError(f"path: {path!r} conflicts with {clash!r}: on some file systems it would replace it")
    return _with_file(before, path, edit.content)


def _remove_file(before: Skill, _: SkillEdit, path: str) -> Skill:
    _check_exists(before, path)
    return msgspec.structs.replace(
        before, files={other: before.files[other] for other in before.files if other != path}
    )


_CHANGES = {"patch": _patch, "write_file": _write_file, "remove_file": _remove_file}


def _delete(library: Library, edit: SkillEdit) -> Library:
    if edit.absorbed_into and (edit.absorbed_into == edit.name or edit.absorbed_into not in library.skills):
        raise ToolError(f"absorbed_into: there is no other skill {edit.absorbed_into!r}")
    return library.without(edit.name)


def _restore_marks(before: Skill, skill: Skill) -> Skill:
    """Restores Hermes Lab's own fields after a rewrite, except that the skill becomes active again."""
    ours = {key: value for key, value in skill_format.marks(before).items() if key not in ("state", "absorbed-into")}
    skill = skill_format.remarked(skill, ours)
    same = skill_format.frontmatter(skill) == skill_format.frontmatter(before)
    if not same:
        return _validated(skill, before.name)
    skill_format.check_body(skill_format.body(skill))
    return skill


def _validated(skill: Skill, name: str) -> Skill:
    """Returns the skill. Raises `ToolError` if its text is invalid by the standard or our own rules."""
    parsed = skill_format.parse(skill.text, skill.files)
    if parsed.name != name:
        raise ToolError(f"name: {name!r}, but the frontmatter says {parsed.name!r}")
    skill_format.check_standard(parsed)
    return parsed


def _with_file(before: Skill, path: str, content: str) -> Skill:
    data = skill_format.encoded(content)
    if len(data) > skill_format.MAX_FILE:
        raise ToolError(f"content: longer than {skill_format.MAX_FILE >> 20} MiB")
    return msgspec.structs.replace(before, files={**before.files, path: data})


def _replace_once(text: str, edit: SkillEdit) -> str:
    """Replaces like the `patch` tool, but `old_string` must occur exactly once."""
    if edit.old_string and (found := text.count(edit.old_string)) > 1:
        raise ToolError(f"old_string: found {found} times, must occur exactly once; quote more of the text around it")
    return replace(text, edit.old_string, edit.new_string).text


def _check_exists(skill: Skill, path: str) -> None:
    if path not in skill.files:
        raise ToolError(f"path: {skill.name!r} has no file {path!r}; it has: {', '.join(skill.files) or 'none'}")


def _overlap(one: str, other: str) -> bool:
    """Whether two paths are equal, or one is a parent folder of the other."""
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")


def _text_after(skill: Skill | None, path: str) -> str:
    """Returns the content of the written file after the write; "" if it was removed."""
    if skill is None:
        return ""
    return skill.files.get(path, b"").decode() if path else skill.text
