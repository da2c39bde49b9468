"""Which skills say the same thing: alike as a whole, and at odds in nothing.

The cosine of two embeddings tells what skills are about, and not what they say: two that call a reading over 120 and
one over 150 a fault have 0.93 of it. So duplicates must share their words too, and neither may have a fact against the
other's: an option, a number, a negation, the subject in its name, or another word in the same place of a sentence.
Duplicates that stay apart cost a line of a prompt; two rules that are merged may cost a rule. `docs/curator.md` has the
measurements.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np

SHARED_WORDS = 0.75
"""Share of the words of the skill with fewer of them that the other one must have too."""


class Content(NamedTuple):
    """What a skill says. `scripts` are its programs, by path."""

    name: str
    description: str
    body: str
    scripts: dict[str, bytes]


class Cluster(NamedTuple):
    """Places of items that are all alike; `likeness` is that of the two least alike."""

    members: list[int]
    likeness: float


class _Facts(NamedTuple):
    subject: frozenset[str]
    words: frozenset[str]
    exact: frozenset[str]
    options: frozenset[str]
    places: dict[tuple[str, ...], str]
    has_code: bool
    scripts: dict[str, bytes]


def likeness(contents: Sequence[Content], at_least: float) -> np.ndarray:
    """(n, n): the cosine of two skills' texts, and 0 where it is under `at_least` or the two are at odds.

    Rounded, so that a pair is judged alike in whatever company it is embedded.
    """
    import numpy as np

    from hermes_lab.memory.embed import embed

    rows = embed([f"{content.name}: {content.description}\n{content.body}" for content in contents])
    cosines = np.round(rows @ rows.T, 4)
    cosines[cosines < at_least] = 0.0
    facts = {int(place): _facts(contents[place]) for place in np.flatnonzero((cosines > 0).sum(axis=1) > 1)}
    for one, other in np.argwhere(np.triu(cosines, 1) > 0):
        if _at_odds(facts[int(one)], facts[int(other)]):
            cosines[one, other] = cosines[other, one] = 0.0
    return cosines


def cluster(likeness: np.ndarray, groups: Sequence[Collection[int]], at_least: float) -> list[Cluster]:
    """Joins `groups` while all members of two are alike: complete linkage, the most alike first. So nothing unlike is
    chained together, and to join the outcome once more changes nothing. Only clusters that were joined are given.

    Sorensen (1948) is the source; ties go to the earlier group.
    """
    import numpy as np

    if not groups:
        return []
    members = [sorted(group) for group in groups]
    weakest = [1.0] * len(members)
    order = [place for group in members for place in group]
    starts = list(accumulate((len(group) for group in members[:-1]), initial=0))
    links = likeness[np.ix_(order, order)]
    for axis in (0, 1):
        links = np.minimum.reduceat(links, starts, axis=axis)
    np.fill_diagonal(links, -1.0)
    joined: set[int] = set()
    while links.max() >= max(at_least, 1e-9):
        one, other = (int(place) for place in np.unravel_index(links.argmax(), links.shape))
        weakest[one] = min(weakest[one], weakest[other], float(links.max()))
        members[one] += members[other]
        links[one] = links[:, one] = np.minimum(links[one], links[other])
        links[other] = links[:, other] = links[one, one] = -1.0
        joined = (joined - {other}) | {one}
    return [Cluster(members[place], weakest[place]) for place in sorted(joined)]


def _at_odds(one: _Facts, other: _Facts) -> bool:
    """Whether the skills say two things, as far as words show it. To say more than the other is not to be at odds."""
    if one.options != other.options or (one.scripts and other.scripts and one.scripts != other.scripts):
        return True
    if one.exact - other.exact and other.exact - one.exact:
        return True
    if one.subject - other.words and other.subject - one.words:
        return True
    if any(  # another word in its place
        one.places[place] not in other.words and other.places[place] not in one.words
        for place in one.places.keys() & other.places.keys()
    ):
        return True
    # Where no code anchors what is meant, any two words may be opposites: one must say all that the other says.
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


_EMPTY = _set(
    """a all also an and any are as ask asked at be by do does each else every for from has have here how i if in into
    is it its must need of on one or per s so than that the their them then there these they this those to use used
    using was what when which with you"""
)
_NEGATIONS = _set("cannot neither never no nobody none nor not nothing without")
_SIDES = _set(
    """above after before below down even false less max maximum min minimum more odd ours over theirs true under up"""
)
_NUMBERS = {
    "zero": "0", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8",
    "nine": "9", "ten": "10", "fifty": "50", "hundred": "100", "thousand": "1000", "half": "1/2", "once": "1",
    "twice": "2", "third": "3", "fourth": "4", "fifth": "5", "sixth": "6", "seventh": "7", "eighth": "8",
    "ninth": "9", "tenth": "10",
}  # fmt: skip
_ENDINGS = ("ations", "ation", "ions", "ings", "ion", "ing", "als", "ers", "al", "er", "ed", "es", "s", "e")


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
        places=_places(_CODE.sub(" ", body)),
        has_code=bool(options) or bool(_CODE.search(body)),
        scripts=content.scripts,
    )


def _places(prose: str) -> dict[tuple[str, ...], str]:
    """The words that stand between the same neighbours: two before and one after, or one before and two after."""
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
    """A number, a negation or a side, in one spelling; empty for any other word."""
    if token[0].isdigit():
        return token.lstrip("0") or "0"
    if token in _NEGATIONS or token.endswith("n't"):
        return "not"
    return token if token in _SIDES else _NUMBERS.get(token, "")


def _words(text: str) -> frozenset[str]:
    """The stems of the words that carry a meaning of their own."""
    return frozenset(_stem(token) for token in _tokens(text) if token not in _EMPTY and not _exact(token))


def _stem(word: str) -> str:
    """`retries` and `retry`, `parsing` and `parse`, `renewal` and `renew` are one word here."""
    if word.endswith("ies") and len(word) > 5:
        return f"{word[:-3]}y"
    ending = next((end for end in _ENDINGS if word.endswith(end) and len(word) - len(end) >= 3), "")
    if ending and not word.endswith("ss"):
        word = word.removesuffix(ending)
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word
