"""How far each skill came in an episode: eligible -> listed -> loaded -> followed."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import msgspec

from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library
from hermes_lab.skills.observe import ASIDE, Done, done, texts, words
from hermes_lab.types import Skill, SkillTrace, Task, Trajectory

if TYPE_CHECKING:
    import numpy as np

ELIGIBLE = 0.35
UNLIKE = 0.25
"""Cosine of a skill's name and description to the sentence of the prompt that is most like them: from `ELIGIBLE` on the
skill is about the task, under `UNLIKE` it is not, and in between the texts do not tell. Chosen on worlds 0-7
of both suites; `docs/learning.md` has precision and recall on others."""
_SENTENCES = 50
_SENTENCE_END = re.compile(r"(?<=[.;:!?])\s+|\n+")
_FENCED = re.compile(r"^(```+|~~~+)[^\n]*\n(?P<code>.*?)^\1", re.DOTALL | re.MULTILINE)
_RUN = re.compile(r"^\W*run:(?P<code>.+)$", re.MULTILINE | re.IGNORECASE)
_INLINE = re.compile(r"`(?P<code>[^`\n]+)`")
_PLACEHOLDER = re.compile(r"<[^<>\n]*>|\{[^{}\n]*\}|\$\w+")
_COMMENT = re.compile(r"(^|\s)(#|//)\s.*$")


def traces(
    library: Library,
    listed: Collection[str],
    loaded: Collection[str],
    task: Task,
    trajectory: Trajectory,
    learnt_from: Mapping[str, tuple[str, ...]],
) -> tuple[SkillTrace, ...]:
    """A row for every skill that was eligible or loaded, by name.

    `learnt_from` gives the triggers of the tasks that a skill was written in (`SkillWrite.triggers`). Where it knows
    the skill, it decides: a task that shares none of them, or has none, is not what the skill is about. Elsewhere the
    texts do, as far as they can. An episode without an unknown or loaded skill costs next to nothing.
    """
    unknown = [skill for name, skill in library.skills.items() if not learnt_from.get(name)]
    likeness = dict(zip((skill.name for skill in unknown), _likeness(unknown, task.prompt), strict=True))
    calls = list(done(trajectory.messages)) if loaded else []
    rows = []
    for name in sorted({*library.skills, *loaded}):
        eligible, by = _eligible(learnt_from.get(name), likeness.get(name), task)
        if not eligible and name not in loaded:
            continue
        followed = share = None
        if name in loaded and name in library.skills:  # one that this very episode wrote is not in the library
            share = adherence(skill_format.body(library.skills[name]), _after_loading(name, calls))
            followed = None if share is None else share > 0
        rows.append(SkillTrace(name, eligible, by, name in listed, name in loaded, followed, share))
    return tuple(rows)


def adherence(body: str, calls: Sequence[Done]) -> float | None:
    """The share of a skill's lines of code that `calls` did; None where it has none.

    A call did a line when its arguments hold all words of it. Placeholders (`<x>`, `{x}`, `$X`) and comments are no
    words of a line, so they may be anything.
    """
    lines = code_lines(body)
    if not lines:
        return None
    said = [frozenset(words(texts(each.call.arguments))) for each in calls if each.call.name not in ASIDE]
    return sum(any(line <= heard for heard in said) for line in lines) / len(lines)


@lru_cache(maxsize=256)
def code_lines(body: str) -> tuple[frozenset[str], ...]:
    """The words of each line of code in a skill: what follows `Run:`, the lines of fenced blocks, and code within a
    sentence. Only `Run:` may give a single word, since elsewhere that is a name as often as a command."""
    fenced = [line for match in _FENCED.finditer(body) for line in match["code"].splitlines()]
    prose = _FENCED.sub("", body)
    run = [match["code"] for match in _RUN.finditer(prose)]
    inline = [match["code"] for match in _INLINE.finditer(_RUN.sub("", prose))]
    found = [(_distinctive(line), 1) for line in run] + [(_distinctive(line), 2) for line in (*fenced, *inline)]
    return tuple(dict.fromkeys(line for line, least in found if len(line) >= least))


def _distinctive(line: str) -> frozenset[str]:
    bare = _PLACEHOLDER.sub(" ", _COMMENT.sub("", line))
    return frozenset(word for word in words(bare) if len(word) > 1 and any(map(str.isalnum, word)))


def _after_loading(name: str, calls: Sequence[Done]) -> list[Done]:
    """The calls of the turns after the one that first loaded the skill; all of them where a person had loaded it."""
    turns = (each.turn for each in calls if each.call.name == "skill_view" and each.result.ok and _names(each, name))
    first = next(turns, -1)
    return [each for each in calls if each.turn > first]


class _Viewed(msgspec.Struct):
    name: str = ""


def _names(view: Done, name: str) -> bool:
    """Whether it was this skill that was shown: a near miss of a name is resolved, so the answer tells."""
    try:
        return msgspec.json.decode(view.result.content.encode(), type=_Viewed).name == name
    except (msgspec.DecodeError, UnicodeEncodeError):
        return False


def _eligible(
    triggers: tuple[str, ...] | None, likeness: float | None, task: Task
) -> tuple[bool | None, Literal["", "trigger", "similarity"]]:
    if triggers:
        return not set(triggers).isdisjoint(task.triggers), "trigger"
    if likeness is None or UNLIKE <= likeness < ELIGIBLE:
        return None, ""
    return likeness >= ELIGIBLE, "similarity"


def _likeness(skills: Sequence[Skill], prompt: str) -> Sequence[float | None]:
    """Of each skill to the sentence of the prompt that is most like it; None where there is nothing to compare."""
    sentences = [part for part in _SENTENCE_END.split(prompt) if part.strip()][:_SENTENCES]
    if not skills or not sentences:
        return [None] * len(skills)
    from hermes_lab.memory.embed import embed

    told = tuple(f"{skill.name.replace('-', ' ')}: {skill.description}" for skill in skills)
    likeness: list[float | None] = (_vectors(told) @ embed(sentences).T).max(axis=1).tolist()
    return likeness


@lru_cache(maxsize=8)  # all episodes of a round meet the same library
def _vectors(told: tuple[str, ...]) -> np.ndarray:
    from hermes_lab.memory.embed import embed

    return embed(told)
