"""Whether two splits share a way of asking, whatever names, numbers and words of their own they put into it."""

import re
from collections.abc import Iterable, Mapping

from hermes_lab.tasks.subtasks import subtasks_of
from hermes_lab.types import Task

SHARED_WORDS = 4
"""Words that two sentences must have in common at least, to be one template; fewer are an accident of English."""
SHARED_PART = 0.6
"""And that must be this part of the sentence at least."""
_SENTENCE = re.compile(r"(?<=[.!?:;])\s+|\n+")
_TOKEN = re.compile(r"\S+")
_WORD = re.compile(r"[a-z]+(?:['-][a-z]+)*")
_GAP = "~"


def sentences(task: Task) -> set[tuple[str, ...]]:
    """The sentences of a prompt as words in small letters; a gap stands for what the words of a place, a file, a form
    or a number are."""
    asked = task.prompt.lower()
    for subtask in subtasks_of(task.truth):
        entity = subtask.site.entity
        asked = re.sub(rf"\b(?:{re.escape(entity.about.lower())}|{re.escape(entity.name.lower())})\b", _GAP, asked)
    return {_words(sentence) for sentence in _SENTENCE.split(asked) if sentence.strip()}


def shared_templates(prompts: Mapping[str, Iterable[Task]]) -> list[str]:
    """Sentences that two splits ask by, in words: empty where the wording of all splits is apart.

    What only one of two splits ever says is a gap too, so a template is found under other names, columns and values.
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
    """How many different sentences, names and numbers apart."""
    return len(set().union(*map(sentences, tasks)))


def _words(sentence: str) -> tuple[str, ...]:
    bare = (token.strip("\"'`*_()[]{}<>,;:.!?") for token in _TOKEN.findall(sentence))
    return _closed(word if _WORD.fullmatch(word) else _GAP for word in bare)


def _closed(words: Iterable[str]) -> tuple[str, ...]:
    """Gaps that follow one another are one."""
    closed: list[str] = []
    for word in words:
        if word != _GAP or closed[-1:] != [_GAP]:
            closed.append(word)
    return tuple(closed)


def _vocabulary(asked: set[tuple[str, ...]]) -> set[str]:
    return {word for sentence in asked for word in sentence} - {_GAP}


def _skeletons(asked: set[tuple[str, ...]], common: set[str]) -> set[tuple[str, ...]]:
    return {_closed(word if word in common else _GAP for word in sentence) for sentence in asked}


def _is_template(skeleton: tuple[str, ...]) -> bool:
    kept = sum(word != _GAP for word in skeleton)
    return kept >= SHARED_WORDS and kept >= SHARED_PART * len(skeleton)
