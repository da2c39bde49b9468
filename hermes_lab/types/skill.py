"""A skill, what is asked of a library of skills, and a write to it."""

from typing import Literal

from msgspec import Struct

Origin = Literal["foreground", "review", "curator", "user", "bundled", "installed"]
"""Who wrote: the agent at work, the agent's review, the curator, a person, this package, or whoever a skill was
installed from."""
BY_AGENTS: frozenset[Origin] = frozenset({"foreground", "review", "curator"})
Action = Literal["create", "edit", "patch", "delete", "write_file", "remove_file"]


class Skill(Struct, frozen=True):
    """One skill of a library. `text` is its whole SKILL.md, frontmatter included; `files` are its other files by their
    path below the skill's folder, such as `scripts/report.py`."""

    name: str
    description: str
    text: str
    files: dict[str, bytes] = {}


class SkillEdit(Struct, frozen=True, omit_defaults=True):
    """A change that is asked for; which fields count depends on the action.

    create: description and content · edit: content (and description) · patch: old_string, new_string, and `path` for
    another file than SKILL.md · delete: absorbed_into, the skill that holds its content now · write_file: path, content
    · remove_file: path. `compiled`, with create, is the harness's alone to give: the function that it has tested.
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

    `text` is the whole file after the write (SKILL.md, or the one at `path`), empty where it was removed, so that the
    changes of a round can be merged, and a library rebuilt, from the episode log alone. `snapshot` is the library
    before and `after` the one after it, as the writer saw them. `triggers` are the hidden rules of the task it was
    learnt from, for analysis only.
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
