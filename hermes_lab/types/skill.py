"""Skills, and edits to a skill library."""

from typing import Literal

from msgspec import Struct

Origin = Literal["foreground", "review", "curator", "user", "bundled", "installed"]
"""Who wrote: the agent at work, its review, the curator, the user, this package, or the source a skill was installed
from."""
BY_AGENTS: frozenset[Origin] = frozenset({"foreground", "review", "curator"})
Action = Literal["create", "edit", "patch", "delete", "write_file", "remove_file"]


class Skill(Struct, frozen=True):
    """A skill. `text` is the whole SKILL.md including frontmatter; `files` are its other files by their path below the
    skill's folder, such as `scripts/report.py`."""

    name: str
    description: str
    text: str
    files: dict[str, bytes] = {}


class SkillEdit(Struct, frozen=True, omit_defaults=True):
    """A requested change; the relevant fields depend on the action.

    create: description and content · edit: content (and description) · patch: old_string, new_string, and `path` for a
    file other than SKILL.md · delete: absorbed_into, the skill that now has its content · write_file: path, content ·
    remove_file: path. `compiled`, with create, is the name of a tested function; only the harness may set it.
    """

    action: Action
    name: str
    description: str = ""
    content: str = ""
    old_string: str = ""
    new_string: str = ""
    path: str = ""
    absorbed_into: str = ""
    compiled: str = ""


class SkillWrite(Struct, frozen=True, omit_defaults=True):
    """One accepted change to a library, with its provenance.

    `text` is the whole file after the write (SKILL.md, or the file at `path`), or empty if it was removed. The changes
    of a round can thus be merged, and a library rebuilt, from the episode log alone. `snapshot` is the library before
    and `after` the one after the write, as seen by the writer. `triggers` are the hidden rules of the task it was
    learned from, for analysis only.
    """

    action: Action
    name: str
    text: str
    origin: Origin
    episode: str
    model: str
    snapshot: str
    after: str = ""
    path: str = ""
    absorbed_into: str = ""
    triggers: tuple[str, ...] = ()
