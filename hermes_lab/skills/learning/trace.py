"""Traces each skill through an episode: eligible -> listed -> loaded -> followed."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from hermes_lab.skills import format as skill_format
from hermes_lab.skills.learning.loads import shown_skill
from hermes_lab.skills.learning.observe import ASIDE, Done, done, texts, words
from hermes_lab.skills.library import Library
from hermes_lab.skills.placebo import is_placebo
from hermes_lab.types import Child, Skill, SkillTrace, Task, ToolResult, Trajectory

if TYPE_CHECKING:
    import numpy as np

ELIGIBLE, UNLIKE = 0.35, 0.25
"""Thresholds of the cosine similarity between a skill's name and description and the most similar sentence of the
prompt. From `ELIGIBLE` on the skill may be relevant to the task; below `UNLIKE` it is not."""
OWN, NOT_OWN = 0.2, 0.1
"""The same for the centered vector of a skill, i.e. minus the mean over the library. Skills of one kind are all similar
to every task of that kind; centering tells them apart. From `OWN` on the skill is relevant; below `NOT_OWN` it is not,
unless its similarity is at least `VERY_LIKE`; in between it is unknown. All thresholds were chosen on worlds 100-103 of
five families; `docs/learning.md` has precision and recall on others."""
VERY_LIKE = 0.5
_MIN_SKILLS = 3
"""With fewer skills the mean says nothing, so only `VERY_LIKE` and `UNLIKE` are used."""
_MAX_UNKNOWN = 20
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
    shows: Callable[[Skill, ToolResult], bool] = lambda skill, result: shown_skill(result) == skill.name,
) -> tuple[SkillTrace, ...]:
    """Returns the traces of an episode, by name; `SkillUse` says which skills are included.

    `learnt_from` gives the triggers of the tasks in which a skill was written (`SkillWrite.triggers`). If it has the
    skill, eligibility means that the task shares a trigger. Otherwise eligibility is estimated from text similarity,
    except for placebo skills, whose text has no content. This is cheap if no skill is unknown or loaded. `shows` says
    whether a result contains a skill's own text.
    """
    comparable = [
        skill for name, skill in library.skills.items() if not learnt_from.get(name) and not is_placebo(skill)
    ]
    likeness = dict(zip((skill.name for skill in comparable), _likeness(comparable, task.prompt), strict=True))
    eligible = {name: _eligible(learnt_from.get(name), likeness.get(name), task) for name in {*library.skills, *loaded}}
    unknown = [name for name in sorted(listed) if eligible[name][0] is None and name not in loaded]
    nearest = sorted(unknown, key=lambda name: -(likeness.get(name) or _NO_LIKENESS).whole)[:_MAX_UNKNOWN]
    conversations = list(_conversations(trajectory, children)) if loaded else []
    rows = []
    for name in sorted({*loaded, *nearest, *(name for name, found in eligible.items() if found[0])}):
        followed = share = None
        if name in loaded and name in library.skills:  # a skill written in this episode is not in the library
            share = _followed(library.skills[name], conversations, shows)
            followed = None if share is None else share > 0
        rows.append(SkillTrace(name, *eligible[name], name in listed, name in loaded, followed, share))
    return tuple(rows)


def _conversations(trajectory: Trajectory, children: Sequence[Child]) -> Iterator[list[Done]]:
    """Yields the calls of the episode's agent, then those of each child agent."""
    yield list(done(trajectory.messages))
    for child in children:
        if child.trajectory:
            yield from _conversations(child.trajectory, child.children)


def _followed(
    skill: Skill, conversations: Sequence[Sequence[Done]], shows: Callable[[Skill, ToolResult], bool]
) -> float | None:
    """Returns the share of a loaded skill's code lines that were run; None if it has no code.

    A call of a compiled skill's tool counts as 1.
    """
    tool = skill_format.compiled(skill)
    if tool and any(each.call.name == tool and each.result.executed for calls in conversations for each in calls):
        return 1.0
    after = [_after_loading(skill, calls, shows) for calls in conversations]
    if all(calls is None for calls in after):  # the user loaded it
        after = list(conversations[:1])
    share = adherence(skill_format.body(skill), [each for calls in after for each in calls or ()])
    return 0.0 if share is None and tool else share


def adherence(body: str, calls: Sequence[Done]) -> float | None:
    """Returns the share of a skill's code lines that `calls` ran; None if it has none.

    A call ran a line if its arguments contain all words of the line, ignoring placeholders (`<x>`, `{x}`, `$X`) and
    comments.
    """
    lines = code_lines(body)
    if not lines:
        return None
    done_words = [frozenset(words(texts(each.call.arguments))) for each in calls if each.call.name not in ASIDE]
    return sum(any(line <= call_words for call_words in done_words) for line in lines) / len(lines)


@lru_cache(maxsize=256)
def code_lines(body: str) -> tuple[frozenset[str], ...]:
    """Returns the words of each code line of a skill.

    Code lines are text after `Run:`, lines of fenced blocks, lines that start with a program's path (`./tool`), and
    inline code. Only `Run:` lines may have a single word, since elsewhere that is as often a name as a command.
    """
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


def _after_loading(
    skill: Skill, calls: Sequence[Done], shows: Callable[[Skill, ToolResult], bool]
) -> Sequence[Done] | None:
    """Returns the calls after the turn that first loaded the skill; None if none did."""
    turns = (each.turn for each in calls if shows(skill, each.result))
    first = next(turns, None)
    return None if first is None else [each for each in calls if each.turn > first]


class _Likeness(NamedTuple):
    """Similarity of a skill to a task: `whole`, and `own` with the library's mean removed (None with few skills)."""

    whole: float
    own: float | None


_NO_LIKENESS = _Likeness(0.0, None)


def _eligible(
    triggers: tuple[str, ...] | None, likeness: _Likeness | None, task: Task
) -> tuple[bool | None, Literal["", "trigger", "similarity"]]:
    if triggers:
        return not set(triggers).isdisjoint(task.triggers), "trigger"
    about = _is_relevant(likeness) if likeness else None
    return about, "" if about is None else "similarity"


def _is_relevant(likeness: _Likeness) -> bool | None:
    whole, own = likeness
    if whole < UNLIKE:
        return False
    if own is None:
        return True if whole >= VERY_LIKE else None
    if whole >= ELIGIBLE and own >= OWN:
        return True
    return False if own < NOT_OWN and whole < VERY_LIKE else None


def _likeness(skills: Sequence[Skill], prompt: str) -> Sequence[_Likeness | None]:
    """Returns the similarity of each skill to the most similar sentence of the prompt; None for an empty prompt."""
    sentences = [part for part in _SENTENCE_END.split(prompt) if part.strip()][:_SENTENCES]
    if not skills or not sentences:
        return [None] * len(skills)
    from hermes_lab.memory.embed import embed

    whole, own = _vectors(tuple(f"{skill.name.replace('-', ' ')}: {skill.description}" for skill in skills))
    asked = embed(sentences).T
    alike = (whole @ asked).max(axis=1).tolist()
    apart = [None] * len(skills) if own is None else (own @ asked).max(axis=1).tolist()
    return list(map(_Likeness, alike, apart))


@lru_cache(maxsize=8)  # all episodes of a round share the same library
def _vectors(descriptions: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray | None]:
    """Returns unit vectors of the texts, and the same after subtracting their mean (None with few texts)."""
    import numpy as np

    from hermes_lab.memory.embed import embed

    whole = embed(descriptions)
    if len(descriptions) < _MIN_SKILLS:
        return whole, None
    own = whole - whole.mean(axis=0)
    lengths = np.linalg.norm(own, axis=1, keepdims=True)
    return whole, own / np.where(lengths > 0, lengths, 1)
