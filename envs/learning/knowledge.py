"""What a review adds to the knowledge of a lane, and how much of it."""

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from hermes_lab.config.schema import MemoryConfig
from hermes_lab.knowledge import Knowledge
from hermes_lab.memory.notes import FILES, merge_notes
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library, index, merge
from hermes_lab.skills.placebo import placebo, placebo_notes
from hermes_lab.types import Episode, MemoryWrite, Review, SkillWrite

TOKEN_BYTES = 4
"""Bytes of UTF-8 that count as a token. No tokenizer is asked, so the cost of a text does not depend on the model."""


class Added(NamedTuple):
    """Tokens that one library has more than another: in every prompt, and in texts that are read when loaded."""

    listed: float
    body: float


def digest_of(knowledge: Knowledge) -> str:
    """Identifies the skills and notes: the library's snapshot, and that of the notes if there are any."""
    return "+".join(filter(None, (knowledge.library.snapshot, knowledge.notes_snapshot)))


def short_digest(knowledge: Knowledge) -> str:
    """The same in 16 hexadecimal digits."""
    return hashlib.sha256(digest_of(knowledge).encode()).hexdigest()[:16]


def after_work(start: Knowledge, episode: Episode, config: MemoryConfig) -> Knowledge:
    """What the agent wrote while it worked. A review is not paid for that."""
    return _after(start, episode.skills.writes, episode.memory.writes, config)


def after_review(before: Knowledge, review: Review, config: MemoryConfig) -> Knowledge:
    """What a review wrote, added to the knowledge after the work."""
    return _after(before, review.writes, review.memory, config)


def emptied(knowledge: Knowledge) -> Knowledge:
    """The same amount of text without content, as in the arm `placebo`."""
    return replace(knowledge, library=placebo(knowledge.library), notes=placebo_notes(knowledge.notes))


def _after(
    before: Knowledge, writes: Iterable[SkillWrite], notes: Iterable[MemoryWrite], config: MemoryConfig
) -> Knowledge:
    writes = tuple(writes)
    return replace(
        before,
        library=merge(before.library, writes),
        notes=merge_notes(before.notes, [notes], config),
        learnt_from=before.learnt(writes),
    )


def added(before: Knowledge, after: Knowledge) -> Added:
    """The tokens that `after` has more than `before`, for each skill and file of notes by itself.

    A text that became shorter, or was removed, counts as 0: otherwise a review could earn by deleting skills that the
    follow-up tasks do not need.
    """
    listed = body = 0
    for name, skill in after.library.skills.items():
        listed += max(0, _listing(after.library, name) - _listing(before.library, name))
        old = before.library.skills.get(name)
        texts = skill.files | {"": skill_format.shown(skill).encode()}
        old_texts = old.files | {"": skill_format.shown(old).encode()} if old else {}
        body += sum(max(0, len(data) - len(old_texts.get(path, b""))) for path, data in texts.items())
    for target in FILES:
        sizes = [sum(len(f"{entry}\n".encode()) for entry in each.notes.of(target)) for each in (before, after)]
        listed += max(0, sizes[1] - sizes[0])
    return Added(listed / TOKEN_BYTES, body / TOKEN_BYTES)


def _listing(library: Library, name: str) -> int:
    """Bytes of a skill's line in the prompt."""
    skill = library.listed.get(name)
    return len(f"{index([skill])}\n".encode()) if skill else 0
