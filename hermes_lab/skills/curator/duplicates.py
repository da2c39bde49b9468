"""Finds duplicate skills: similar text without contradictions.

Cosine similarity of embeddings captures the topic, not the content: "a reading over 120 is a fault" and "a reading
over 150 is a fault" have a similarity of 0.93. So duplicates must also share most words and have no conflicting fact:
an option, a number, a negation, the subject in the name, or a different word in the same position of a sentence. A
missed duplicate costs one line of a prompt; a wrong merge may lose a rule. `docs/curator.md` has the measurements.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np

SHARED_WORDS = 0.75
"""Share of the shorter skill's words that the other one must contain."""


class Content(NamedTuple):
    """The content of a skill. `scripts` are its script files by path."""

    name: str
    description: str
    body: str
    scripts: dict[str, bytes]


class Cluster(NamedTuple):
    """Indices of mutually similar items; `likeness` is the lowest pairwise similarity."""

    members: list[int]
    likeness: float


class _Facts(NamedTuple):
    subject: frozenset[str]
    words: frozenset[str]
    exact: frozenset[str]
    options: frozenset[str]
    contexts: dict[tuple[str, ...], str]
    has_code: bool
    scripts: dict[str, bytes]


def likeness(contents: Sequence[Content], at_least: float) -> np.ndarray:
    """Returns the cosine similarities of the skills' texts, shape (n, n); 0 if below `at_least` or if two conflict.

    They are rounded, so that the result for a pair does not depend on the embedding batch.
    """
    import numpy as np

    from hermes_lab.memory.embed import embed

    rows = embed([f"{content.name}: {content.description}\n{content.body}" for content in contents])
    cosines = np.round(rows @ rows.T, 4)
    cosines[cosines < at_least] = 0.0
    facts = {int(index): _facts(contents[index]) for index in np.flatnonzero((cosines > 0).sum(axis=1) > 1)}
    for one, other in np.argwhere(np.triu(cosines, 1) > 0):
        if _conflict(facts[int(one)], facts[int(other)]):
            cosines[one, other] = cosines[other, one] = 0.0
    return cosines


def cluster(likeness: np.ndarray, groups: Sequence[Collection[int]], at_least: float) -> list[Cluster]:
    """Complete-linkage clustering (Sorensen 1948) of `groups`, most similar first; ties go to the earlier group.

    Dissimilar items are never chained, and clustering the result again changes nothing. Returns only merged clusters.
    """
    import numpy as np

    if not groups:
        return []
    members = [sorted(group) for group in groups]
    weakest = [1.0] * len(members)
    order = [index for group in members for index in group]
    starts = list(accumulate((len(group) for group in members[:-1]), initial=0))
    links = likeness[np.ix_(order, order)]
    for axis in (0, 1):
        links = np.minimum.reduceat(links, starts, axis=axis)
    np.fill_diagonal(links, -1.0)
    joined: set[int] = set()
    while links.max() >= max(at_least, 1e-9):
        one, other = (int(index) for index in np.unravel_index(links.argmax(), links.shape))
        weakest[one] = min(weakest[one], weakest[other], float(links.max()))
        members[one] += members[other]
        links[one] = links[:, one] = np.minimum(links[one], links[other])
        links[other] = links[:, other] = links[one, one] = -1.0
        joined = (joined - {other}) | {one}
    return [Cluster(members[index], weakest[index]) for index in sorted(joined)]


def _conflict(one: _Facts, other: _Facts) -> bool:
    """Whether the wording of two skills conflicts. Additional content is not a conflict."""
    if one.options != other.options or (one.scripts and other.scripts and one.scripts != other.scripts):
        return True
    if one.exact - other.exact and other.exact - one.exact:
        return True
    if one.subject - other.words and other.subject - one.words:
        return True
    if any(  # a different word in the same position
        one.contexts[context] not in other.words and other.contexts[context] not in one.words
        for context in one.contexts.keys() & other.contexts.keys()
    ):
        return True
    # Without code as an anchor, any differing word may be a contradiction: one text must contain the other.
    share = SHARED_WORDS if one.has_code and other.has_code else 1.0
    return len(one.words & other.words) < share * min(len(one.words), len(other.words))


_TOKEN = re.compile(r"\d+(?:\.\d+)?|[a-z]+(?:'t)?")
_ITEM_NUMBER = re.compile(r"^\s*\d+[.)]\s", re.MULTILINE)
_OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*(?:[= ](?!-)[^\s`\"']+)?", re.IGNORECASE)
_QUOTED = re.compile(r"(?<!\w)([\"'])(?P<text>[^\"'{}\n]{1,60}?)\1")
_METHOD = re.compile(r"\.(\w+)\(")
_CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_STOP_WORDS = _set(
    """a all also an and any are as ask asked at be by do does each else every for from has have here how i if in into
    is it its must need of on one or per s so than that the their them then there these they this those to use used
    using was what when which with you"""
)
_NEGATIONS = _set("cannot neither never no nobody none nor not nothing without")
_COMPARISONS = _set(
    """above after before below down even false less max maximum min minimum more odd ours over theirs true under up"""
)
_NUMBERS = {
    "zero": "0", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8",
    "nine": "9", "ten": "10", "fifty": "50", "hundred": "100", "thousand": "1000", "half": "1/2", "once": "1",
    "twice": "2", "third": "3", "fourth": "4", "fifth": "5", "sixth": "6", "seventh": "7", "eighth": "8",
    "ninth": "9", "tenth": "10",
}  # fmt: skip
_SUFFIXES = ("ations", "ation", "ions", "ings", "ion", "ing", "als", "ers", "al", "er", "ed", "es", "s", "e")


def _facts(content: Content) -> _Facts:
    body = _ITEM_NUMBER.sub(" ", content.body)
    name = content.name.replace("-", " ")
    exact = {fact for token in _tokens(body) if (fact := _exact(token))}
    options = frozenset(" ".join(match[0].split()) for match in _OPTION.finditer(body))
    return _Facts(
        subject=_words(name),
        words=_words(f"{name} {content.description} {body}"),
        exact=frozenset(exact | {match["text"] for match in _QUOTED.finditer(body)} | {*_METHOD.findall(body)}),
        options=options,
        contexts=_contexts(_CODE.sub(" ", body)),
        has_code=bool(options) or bool(_CODE.search(body)),
        scripts=content.scripts,
    )


def _contexts(prose: str) -> dict[tuple[str, ...], str]:
    """Returns words by their context: two words before and one after, or one before and two after."""
    tokens = _tokens(prose)
    found = {}
    for at in range(1, len(tokens) - 1):
        for first, last in ((at - 2, at + 1), (at - 1, at + 2)):
            if first >= 0 and last < len(tokens) and (word := _words(tokens[at])):
                found[(str(at - first), *tokens[first:at], *tokens[at + 1 : last + 1])] = next(iter(word))
    return found


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text.lower())


def _exact(token: str) -> str:
    """Normalizes a number, a negation or a comparison word; returns "" for any other word."""
    if token[0].isdigit():
        return token.lstrip("0") or "0"
    if token in _NEGATIONS or token.endswith("n't"):
        return "not"
    return token if token in _COMPARISONS else _NUMBERS.get(token, "")


def _words(text: str) -> frozenset[str]:
    """Returns the stems of content words."""
    return frozenset(_stem(token) for token in _tokens(text) if token not in _STOP_WORDS and not _exact(token))


def _stem(word: str) -> str:
    """Stems a word: `retries` = `retry`, `parsing` = `parse`, `renewal` = `renew`."""
    if word.endswith("ies") and len(word) > 5:
        return f"{word[:-3]}y"
    ending = next((end for end in _SUFFIXES if word.endswith(end) and len(word) - len(end) >= 3), "")
    if ending and not word.endswith("ss"):
        word = word.removesuffix(ending)
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word
