"""How far each skill came in an episode: eligible -> listed -> loaded -> followed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from hermes_lab.skills import format as skill_format
from hermes_lab.skills.learning.loads import shown_skill
from hermes_lab.skills.learning.observe import ASIDE, Done, done, texts, words
from hermes_lab.skills.library import Library
from hermes_lab.skills.placebo import is_placebo
from hermes_lab.types import Child, Skill, SkillTrace, Task, Trajectory

if TYPE_CHECKING:
    import numpy as np

ELIGIBLE, UNLIKE = 0.35, 0.25
"""Cosine of a skill's name and description to the sentence of the prompt that is most like them: from the first on the
skill may be about the task, under the second it is not."""
OWN, NOT_OWN = 0.2, 0.1
"""The same of what a skill has of its own: its vector less the mean of the library's. Skills of one kind are all alike
to every task of that kind, and these tell them apart. From the first on the skill is about the task; under the second
it is not, unless it is `VERY_LIKE` it; in between the texts do not tell. All were chosen on worlds 100-103 of five
families; `docs/learning.md` has precision and recall on others."""
VERY_LIKE = 0.5
_FEW = 3
"""Under so many skills nothing is of a skill's own: there `VERY_LIKE` tells, and nothing in between."""
_MOST_UNKNOWN = 20
_SENTENCES = 50
_SENTENCE_END = re.compile(r"(?<=[.;:!?])\s+|\n+")
_FENCED = re.compile(r"^(```+|~~~+)[^\n]*\n(?P<code>.*?)^\1", re.DOTALL | re.MULTILINE)
_RUN = re.compile(r"^\W*run:(?P<code>.+)$", re.MULTILINE | re.IGNORECASE)
_CALL = re.compile(r"^[ \t]*(?P<code>\./\S.*)$", re.MULTILINE)
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
    children: Sequence[Child] = (),
) -> tuple[SkillTrace, ...]:
    """The rows of an episode, by name: which there are says `SkillUse`.

    `learnt_from` gives the triggers of the tasks that a skill was written in (`SkillWrite.triggers`). Where it knows
    the skill, it decides: a task that shares none of them, or has none, is not what the skill is about. Elsewhere the
    texts do, as far as they can; but those of a placebo were made to say nothing, so they tell nothing. An episode
    without an unknown or loaded skill costs next to nothing.
    """
    told = [skill for name, skill in library.skills.items() if not learnt_from.get(name) and not is_placebo(skill)]
    likeness = dict(zip((skill.name for skill in told), _likeness(told, task.prompt), strict=True))
    eligible = {name: _eligible(learnt_from.get(name), likeness.get(name), task) for name in {*library.skills, *loaded}}
    unknown = [name for name in sorted(listed) if eligible[name][0] is None and name not in loaded]
    nearest = sorted(unknown, key=lambda name: -(likeness.get(name) or _NONE).whole)[:_MOST_UNKNOWN]
    conversations = list(_conversations(trajectory, children)) if loaded else []
    rows = []
    for name in sorted({*loaded, *nearest, *(name for name, (is_so, _) in eligible.items() if is_so)}):
        followed = share = None
        if name in loaded and name in library.skills:  # one that this very episode wrote is not in the library
            share = _followed(library.skills[name], conversations)
            followed = None if share is None else share > 0
        rows.append(SkillTrace(name, *eligible[name], name in listed, name in loaded, followed, share))
    return tuple(rows)


def _conversations(trajectory: Trajectory, children: Sequence[Child]) -> Iterator[list[Done]]:
    """The calls of the episode's agent, then those of each child agent."""
    yield list(done(trajectory.messages))
    for child in children:
        if child.trajectory:
            yield from _conversations(child.trajectory, child.children)


def _followed(skill: Skill, conversations: Sequence[Sequence[Done]]) -> float | None:
    """The share of a loaded skill that was done, None where it says nothing that could be: a call of the tool that it
    was compiled to is all of it."""
    tool = skill_format.compiled(skill)
    if tool and any(each.call.name == tool and each.result.executed for calls in conversations for each in calls):
        return 1.0
    after = [_after_loading(skill.name, calls) for calls in conversations]
    if all(calls is None for calls in after):  # a person loaded it
        after = list(conversations[:1])
    share = adherence(skill_format.body(skill), [each for calls in after for each in calls or ()])
    return 0.0 if share is None and tool else share


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
    """The words of each line of code in a skill: what follows `Run:`, the lines of fenced blocks, those that begin with
    a program's path (`./tool`), and code within a sentence. Only `Run:` may give a single word, since elsewhere that is
    a name as often as a command."""
    fenced = [line for match in _FENCED.finditer(body) for line in match["code"].splitlines()]
    prose = _FENCED.sub("", body)
    run = [match["code"] for match in _RUN.finditer(prose)]
    prose = _RUN.sub("", prose)
    calls = [match["code"] for match in _CALL.finditer(prose)]
    inline = [match["code"] for match in _INLINE.finditer(_CALL.sub("", prose))]
    found = [(_distinctive(line), 1) for line in run] + [(_distinctive(line), 2) for line in (*fenced, *calls, *inline)]
    return tuple(dict.fromkeys(line for line, least in found if len(line) >= least))


def _distinctive(line: str) -> frozenset[str]:
    bare = _PLACEHOLDER.sub(" ", _COMMENT.sub("", line))
    return frozenset(word for word in words(bare) if len(word) > 1 and any(map(str.isalnum, word)))


def _after_loading(name: str, calls: Sequence[Done]) -> Sequence[Done] | None:
    """The calls of the turns after the one that first loaded the skill; None where none did."""
    turns = (each.turn for each in calls if shown_skill(each.result) == name)
    first = next(turns, None)
    return None if first is None else [each for each in calls if each.turn > first]


class _Likeness(NamedTuple):
    """Of a skill to a task: as a whole, and in what it has of its own (None among few)."""

    whole: float
    own: float | None


_NONE = _Likeness(0.0, None)


def _eligible(
    triggers: tuple[str, ...] | None, likeness: _Likeness | None, task: Task
) -> tuple[bool | None, Literal["", "trigger", "similarity"]]:
    if triggers:
        return not set(triggers).isdisjoint(task.triggers), "trigger"
    about = _about(likeness) if likeness else None
    return about, "" if about is None else "similarity"


def _about(likeness: _Likeness) -> bool | None:
    whole, own = likeness
    if whole < UNLIKE:
        return False
    if own is None:
        return True if whole >= VERY_LIKE else None
    if whole >= ELIGIBLE and own >= OWN:
        return True
    return False if own < NOT_OWN and whole < VERY_LIKE else None


def _likeness(skills: Sequence[Skill], prompt: str) -> Sequence[_Likeness | None]:
    """Of each skill to the sentence of the prompt that is most like it; None where there is nothing to compare."""
    sentences = [part for part in _SENTENCE_END.split(prompt) if part.strip()][:_SENTENCES]
    if not skills or not sentences:
        return [None] * len(skills)
    from hermes_lab.memory.embed import embed

    whole, own = _vectors(tuple(f"{skill.name.replace('-', ' ')}: {skill.description}" for skill in skills))
    asked = embed(sentences).T
    alike = (whole @ asked).max(axis=1).tolist()
    apart = [None] * len(skills) if own is None else (own @ asked).max(axis=1).tolist()
    return list(map(_Likeness, alike, apart))


@lru_cache(maxsize=8)  # all episodes of a round meet the same library
def _vectors(told: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray | None]:
    """Of each text its vector, and that less the mean of all; both of length 1."""
    import numpy as np

    from hermes_lab.memory.embed import embed

    whole = embed(told)
    if len(told) < _FEW:
        return whole, None
    own = whole - whole.mean(axis=0)
    lengths = np.linalg.norm(own, axis=1, keepdims=True)
    return whole, own / np.where(lengths > 0, lengths, 1)
