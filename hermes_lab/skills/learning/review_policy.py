"""Enforces what a review may not record, and turns a near-duplicate skill into an edit of the existing one."""

from pathlib import PurePosixPath

from hermes_lab.config.schema import SkillsConfig
from hermes_lab.errors import ToolError
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.learning.write_policy import objection
from hermes_lab.skills.library import Library
from hermes_lab.skills.session import Gate
from hermes_lab.types import Skill, SkillEdit
from hermes_lab.types.skill import BY_AGENTS

_SCRIPTS = frozenset(
    (".awk", ".bash", ".c", ".go", ".jq", ".js", ".lua", ".pl", ".ps1", ".py", ".r", ".rb", ".rs", ".sh", ".sql", ".ts")
)


def review_gate(config: SkillsConfig) -> Gate:
    """Returns the gate of a review's skill session.

    It refuses writes that record a temporary condition or a one-off event, quoting the sentence, and deletions of
    skills that the user wrote or installed. A new skill whose similarity to an existing one is at least
    `update_similarity` becomes an edit of that one, unless it is pinned or archived.
    """

    def gate(library: Library, edit: SkillEdit) -> SkillEdit:
        existing = library.skills.get(edit.name)
        if edit.action == "delete" and existing and skill_format.origin(existing) not in BY_AGENTS:
            raise ToolError(f"{edit.name!r} was not written by an agent: patch it or keep it as it is")
        text = "" if _is_script(edit) else "\n".join((edit.description, edit.content, edit.new_string))
        if found := objection(text) or objection(_new_path(edit)):
            raise ToolError(
                f"not saved: it records {found.kind}: {found.sentence[:200]!r}. "
                "Save what later tasks should do, or nothing."
            )
        return _merge_near_duplicate(library, edit, config.update_similarity) if edit.action == "create" else edit

    return gate


def _is_script(edit: SkillEdit) -> bool:
    """Whether the edit writes a script file. All other text is checked."""
    return PurePosixPath(edit.path).suffix.lower() in _SCRIPTS


def _new_path(edit: SkillEdit) -> str:
    """The path of a file that the edit writes, as it is and as words: a file name can say as much as a text."""
    words = edit.path.translate(str.maketrans("/-_", "\n  "))
    return f"{edit.path}\n{words}" if edit.action == "write_file" else ""


def _merge_near_duplicate(library: Library, edit: SkillEdit, threshold: float) -> SkillEdit:
    new = _requested_skill(edit)
    others = [skill for skill in library.skills.values() if not _is_protected(skill)]
    if new is None or edit.name in library.skills or not others:
        return edit
    from hermes_lab.memory.embed import embed

    rows = embed([_text(skill) for skill in (new, *others)])
    likeness = rows[1:] @ rows[0]
    nearest = int(likeness.argmax())
    if likeness[nearest] < threshold:
        return edit
    return SkillEdit("edit", others[nearest].name, new.description, skill_format.body(new))


def _requested_skill(edit: SkillEdit) -> Skill | None:
    """Returns the skill that would be created; None if it is invalid, which `manage` will report."""
    try:
        text = skill_format.whole(edit.content) or skill_format.render(edit.name, edit.description, edit.content)
        return skill_format.parse(text)
    except ToolError:
        return None


def _is_protected(skill: Skill) -> bool:
    return skill_format.pinned(skill) or skill_format.state(skill) == "archived"


def _text(skill: Skill) -> str:
    return f"{skill.name.replace('-', ' ')}: {skill.description}\n{skill_format.body(skill)}"
