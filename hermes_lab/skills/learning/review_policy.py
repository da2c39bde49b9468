"""What a review may not record, and when its new skill is a change to an old one: rules that hold, not requests."""

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
    """The gate of a review's skill session.

    A write that records what passes or is no rule is refused, with the sentence. A new skill that is at least
    `update_similarity` like an old one becomes an edit of that one; pinned and archived skills are let be. What a
    person wrote or installed is not deleted.
    """

    def gate(library: Library, edit: SkillEdit) -> SkillEdit:
        there = library.skills.get(edit.name)
        if edit.action == "delete" and there and skill_format.origin(there) not in BY_AGENTS:
            raise ToolError(f"{edit.name!r} was not written by an agent: patch it, or leave it to the person")
        said = "" if _is_script(edit) else "\n".join((edit.description, edit.content, edit.new_string))
        if found := objection(said):
            raise ToolError(
                f"not saved, since it records {found.kind}: {found.sentence[:200]!r}. "
                "Write what later tasks should do, or nothing."
            )
        return _instead_of_a_twin(library, edit, config.update_similarity) if edit.action == "create" else edit

    return gate


def _is_script(edit: SkillEdit) -> bool:
    """Whether what is written is code alone. Notes are judged, whatever their file is called."""
    return PurePosixPath(edit.path).suffix.lower() in _SCRIPTS


def _instead_of_a_twin(library: Library, edit: SkillEdit, least: float) -> SkillEdit:
    new = _asked(edit)
    others = [skill for skill in library.skills.values() if not _left_alone(skill)]
    if new is None or edit.name in library.skills or not others:
        return edit
    from hermes_lab.memory.embed import embed

    rows = embed([_whole(skill) for skill in (new, *others)])
    likeness = rows[1:] @ rows[0]
    nearest = int(likeness.argmax())
    if likeness[nearest] < least:
        return edit
    return SkillEdit("edit", others[nearest].name, new.description, skill_format.body(new))


def _asked(edit: SkillEdit) -> Skill | None:
    """The skill that would be created; None where it is none, which `manage` will say."""
    content = edit.content
    try:
        if content.startswith("---\n"):
            return skill_format.parse(content)
        return skill_format.parse(skill_format.render(edit.name, edit.description, content))
    except ToolError:
        return None


def _left_alone(skill: Skill) -> bool:
    return skill_format.pinned(skill) or skill_format.state(skill) == "archived"


def _whole(skill: Skill) -> str:
    return f"{skill.name.replace('-', ' ')}: {skill.description}\n{skill_format.body(skill)}"
