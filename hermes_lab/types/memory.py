"""Writes to an agent's notes, and the notes of an episode."""

from typing import Literal

from msgspec import Struct

from hermes_lab.types.skill import Origin

Target = Literal["memory", "user"]
"""MEMORY.md (the agent's own notes) or USER.md (what it knows about the user)."""


class MemoryWrite(Struct, frozen=True, omit_defaults=True):
    """One accepted change to the notes, with its provenance.

    `old` is the whole entry that was replaced or removed, `text` the whole new entry. `before` and `after` are digests
    of the notes as seen by the writer.
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
    """The notes of an episode: the digest of the frozen snapshot in its prompt ("" without notes), and its writes."""

    snapshot: str = ""
    writes: tuple[MemoryWrite, ...] = ()
