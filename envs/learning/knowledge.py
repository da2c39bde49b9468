"""What a review adds to the knowledge of a lane, and how much of it."""

import re
from collections.abc import Iterable
from dataclasses import replace
from difflib import SequenceMatcher
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


_WORD = re.compile(rb"\s*\S+|\s+$")
_COMPARED = 4_000_000
"""Pairs of words of two texts that are compared, at most: where texts repeat a word the time grows with the pairs, and
nothing else happens meanwhile."""


class Added(NamedTuple):
    """Tokens that one library has and another has not: in every prompt, and in texts that are read when loaded."""

    listed: float
    body: float


def digest_of(knowledge: Knowledge) -> str:
    """Identifies the skills and notes: the library's snapshot, and that of the notes if there are any."""
    return "+".join(filter(None, (knowledge.library.snapshot, knowledge.notes_snapshot)))


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
    """The tokens of `after` that are not in `before`, for each skill and file of notes by itself.

    What was removed counts as 0: otherwise a review could earn by deleting skills that the follow-up tasks do not need.
    A text that replaces another one counts with all that is new in it, however long the old one was. The path of a new
    file counts as text: the agent sees it when it loads the skill.
    """
    listed = body = 0
    for name, skill in after.library.skills.items():
        listed += _new(_listing(before.library, name), _listing(after.library, name))
        old = before.library.skills.get(name)
        texts = skill.files | {"": skill_format.shown(skill).encode()}
        old_texts = old.files | {"": skill_format.shown(old).encode()} if old else {}
        body += sum(_new(old_texts.get(path, b""), data) for path, data in texts.items())
        body += sum(len(path.encode()) for path in texts.keys() - old_texts.keys())
    for target in FILES:
        old_notes, notes = ("".join(f"{entry}\n" for entry in each.notes.of(target)) for each in (before, after))
        listed += _new(old_notes.encode(), notes.encode())
    return Added(listed / TOKEN_BYTES, body / TOKEN_BYTES)


def _new(old: bytes, text: bytes) -> int:
    """Bytes of the words of `text`, each with the white space before it, that are not in `old` in this order.

    If more than `_COMPARED` pairs of words lie between the first and the last change, all words of `text` there count.
    """
    if not old or old == text:
        return len(text) if not old else 0
    before, after = _changed(_WORD.findall(old), _WORD.findall(text))
    if len(before) * len(after) > _COMPARED:
        return sum(map(len, after))
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    kept = {place for block in matcher.get_matching_blocks() for place in range(block.b, block.b + block.size)}
    return sum(len(word) for place, word in enumerate(after) if place not in kept)


def _changed(before: list[bytes], after: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Both without the words at their beginnings and at their ends that are the same."""
    first = _common(before, after)
    before, after = before[first:], after[first:]
    last = _common(before[::-1], after[::-1])
    return before[: len(before) - last], after[: len(after) - last]


def _common(before: list[bytes], after: list[bytes]) -> int:
    """How many words they have in common at the beginning."""
    pairs = zip(before, after, strict=False)
    return next((place for place, (one, other) in enumerate(pairs) if one != other), min(len(before), len(after)))


def _listing(library: Library, name: str) -> bytes:
    """A skill's line in the prompt."""
    skill = library.listed.get(name)
    return f"{index([skill])}\n".encode() if skill else b""
