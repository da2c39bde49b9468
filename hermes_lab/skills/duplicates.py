"""Which skills say the same thing: alike as a whole, and at odds in nothing.

The cosine of two embeddings alone tells what skills are about, not what they say: `fleet-totals` with `--drop
status=held` and the same with `status=void` have 0.96 of it. So skills are duplicates only where their words also agree,
and where neither has an exact thing (an option, a number, a negation, the subject in its name) against the other's.
`docs/curator.md` has the measurements.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
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

    members = [sorted(group) for group in groups]
    weakest = [1.0] * len(members)
    links = np.array([[likeness[np.ix_(a, b)].min() for b in members] for a in members]).reshape(len(members), -1)
    np.fill_diagonal(links, -1.0)
    joined = set()
    while links.size and links.max() >= max(at_least, 1e-9):
        one, other = (int(place) for place in np.unravel_index(links.argmax(), links.shape))
        weakest[one] = min(weakest[one], weakest[other], float(links.max()))
        members[one] += members[other]
        links[one] = links[:, one] = np.minimum(links[one], links[other])
        links[other] = links[:, other] = links[one, one] = -1.0
        joined = (joined - {other}) | {one}
    return [Cluster(members[place], weakest[place]) for place in sorted(joined)]


def _at_odds(one: _Facts, other: _Facts) -> bool:
    """Whether each of two skills says something that the other does not, where words cannot be two names of a thing."""
    if one.options != other.options or (one.scripts and other.scripts and one.scripts != other.scripts):
        return True
    if one.exact - other.exact and other.exact - one.exact:
        return True
    if one.subject - other.words and other.subject - one.words:
        return True
    fewer = min(len(one.words), len(other.words))
    return len(one.words & other.words) < SHARED_WORDS * fewer


_TOKEN = re.compile(r"\d+(?:\.\d+)?|[a-z]+(?:'t)?")
_ITEM_NUMBER = re.compile(r"^\s*\d+[.)]\s", re.MULTILINE)
_OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*(?:[= ](?!-)[^\s`\"']+)?", re.IGNORECASE)
_QUOTED = re.compile(r"(?<!\w)([\"'])(?P<text>[^\"'{}\n]{1,60}?)\1")

_EMPTY = frozenset(
    """a all also an and any any are as ask asked at be by do does each else every for from has have here how i if in
    into is it its must need of on one or per s so than that the their them then there these they this those to use
    used using was what when which with you""".split()
)
_NEGATIONS = frozenset("cannot neither never no nobody none nor not nothing without".split())
_SIDES = frozenset(
    "above after before below down even false less max maximum min minimum more odd ours over theirs true under up".split()
)
_NUMBERS = {
    word: str(number)
    for number, words in enumerate(
        "zero/once/two twice/three third/four fourth/five fifth/six sixth/seven seventh/eight eighth/nine ninth/"
        "ten tenth".split("/")
    )
    for word in words.split()
} | {"half": "1/2", "fifty": "50", "hundred": "100", "thousand": "1000"}
_ENDINGS = ("ations", "ation", "ions", "ings", "ion", "ing", "als", "ers", "al", "er", "ed", "es", "s", "e")


def _facts(content: Content) -> _Facts:
    body = _ITEM_NUMBER.sub(" ", content.body)
    name = content.name.replace("-", " ")
    exact = {fact for token in _tokens(body) if (fact := _exact(token))}
    return _Facts(
        subject=_words(name),
        words=_words(f"{name} {content.description} {body}"),
        exact=frozenset(exact | {match["text"] for match in _QUOTED.finditer(body)}),
        options=frozenset(" ".join(match[0].split()) for match in _OPTION.finditer(body)),
        scripts=content.scripts,
    )


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
