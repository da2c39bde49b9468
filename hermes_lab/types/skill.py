"""A skill, and a write to a library of skills."""

from typing import Literal

from msgspec import Struct

Origin = Literal["foreground", "review", "bundled", "user"]


class Skill(Struct, frozen=True):
    """One skill of a library. `text` is its whole SKILL.md, frontmatter included."""

    name: str
    description: str
    text: str


class SkillWrite(Struct, frozen=True, omit_defaults=True):
    """One accepted change to a library, with its provenance.

    `text` is the whole SKILL.md after the write, so that the changes of a round can be merged, and a library rebuilt,
    from the episode log alone.
    """

    action: Literal["create", "patch"]
    name: str
    text: str
    origin: Origin
    episode: str
    model: str
    snapshot: str
