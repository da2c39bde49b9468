"""Writes to an agent's notes, and the notes as an episode met them."""

from typing import Literal

from msgspec import Struct

from hermes_lab.types.skill import Origin

Target = Literal["memory", "user"]
"""MEMORY.md, the agent's own notes, or USER.md, what it knows of the person."""


class MemoryWrite(Struct, frozen=True, omit_defaults=True):
    """One accepted change to the notes, with its provenance.

    `old` is the whole entry that was replaced or removed, `text` the whole entry that stands there now. `before` and
    `after` are digests of the notes as the writer saw them.
    """

    action: Literal["add", "replace", "remove"]
    target: Target
    origin: Origin
    episode: str
    model: str
    before: str
    after: str
    text: str = ""
    old: str = ""


class MemoryUse(Struct, frozen=True, omit_defaults=True):
    """The notes as an episode met them: the digest of the frozen snapshot that its prompt held, empty
    where there were none; and what it wrote."""

    snapshot: str = ""
    writes: tuple[MemoryWrite, ...] = ()
