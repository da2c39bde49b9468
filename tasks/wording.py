"""Detects prompt templates that two splits share, regardless of the names, numbers and words filled in."""

import re
from collections.abc import Iterable, Mapping

from hermes_lab.tasks.subtasks import subtasks_of
from hermes_lab.types import Task

SHARED_WORDS = 4
"""Minimum number of words that two sentences of one template share. Shorter matches happen by chance."""
SHARED_PART = 0.6
"""Minimum share of the sentence that these words must be."""
_SENTENCE = re.compile(r"(?<=[.!?:;])\s+|\n+")
_TOKEN = re.compile(r"\S+")
_WORD = re.compile(r"[a-z]+(?:['-][a-z]+)*")
_GAP = "~"


def sentences(task: Task) -> set[tuple[str, ...]]:
    """The sentences of a prompt as lower-case words; site names, paths, formats and numbers are replaced by a gap."""
    asked = task.prompt.lower()
    for subtask in subtasks_of(task.truth):
        entity = subtask.site.entity
        asked = re.sub(rf"\b(?:{re.escape(entity.about.lower())}|{re.escape(entity.name.lower())})\b", _GAP, asked)
    return {_words(sentence) for sentence in _SENTENCE.split(asked) if sentence.strip()}


def shared_templates(prompts: Mapping[str, Iterable[Task]]) -> list[str]:
    """Sentence templates that two splits share, as messages; empty if all splits have their own wording.

    Words that only one of two splits uses also count as gaps, so that a template is found despite other names, columns
    and values.
    """
    asked = {split: set().union(*map(sentences, tasks)) for split, tasks in prompts.items()}
    found = []
    splits = list(asked)
    for n, one in enumerate(splits):
        for other in splits[n + 1 :]:
            common = _vocabulary(asked[one]) & _vocabulary(asked[other])
            both = _skeletons(asked[one], common) & _skeletons(asked[other], common)
            found += [f"{one} and {other} both ask {' '.join(each)!r}" for each in sorted(both) if _is_template(each)]
    return found


def templates(tasks: Iterable[Task]) -> int:
    """The number of distinct sentences, ignoring names and numbers."""
    return len(set().union(*map(sentences, tasks)))


def _words(sentence: str) -> tuple[str, ...]:
    bare = (token.strip("\"'`*_()[]{}<>,;:.!?") for token in _TOKEN.findall(sentence))
    return _merge_gaps(word if _WORD.fullmatch(word) else _GAP for word in bare)


def _merge_gaps(words: Iterable[str]) -> tuple[str, ...]:
    """Merges adjacent gaps."""
    merged: list[str] = []
    for word in words:
        if word != _GAP or merged[-1:] != [_GAP]:
            merged.append(word)
    return tuple(merged)


def _vocabulary(asked: set[tuple[str, ...]]) -> set[str]:
    return {word for sentence in asked for word in sentence} - {_GAP}


def _skeletons(asked: set[tuple[str, ...]], common: set[str]) -> set[tuple[str, ...]]:
    return {_merge_gaps(word if word in common else _GAP for word in sentence) for sentence in asked}


def _is_template(skeleton: tuple[str, ...]) -> bool:
    kept = sum(word != _GAP for word in skeleton)
    return kept >= SHARED_WORDS and kept >= SHARED_PART * len(skeleton)
