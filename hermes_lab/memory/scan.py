"""Scans text for attacks on the agent that reads it: notes, context files and third-party skills.

Patterns find common phrasings only; a new wording in plain prose passes. It is one defence among others: the sandbox is
what keeps a manipulated agent from doing harm.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from hermes_lab.memory.hidden import hidden, mixed_words
from hermes_lab.memory.patterns import HIDDEN_ORDER, Kind, patterns
from hermes_lab.memory.views import plain, views

_EXCERPT = 80
_BEFORE = 200
_FEW_MIXED = 2
_NEGATED = re.compile(
    r"\b(?:(?:never|not|cannot|can't|don't|doesn't|won't|avoid|refuses? to)\W+(?!hesitate|forget|fail)(?:\w+\W+){0,2}"
    r"|only\W+)$"
)
_QUOTING = re.compile(
    r"\b(?:such as|like|e\.g|for example|phrases?|patterns?|strings?|texts?|contains?|containing|says?|"
    r"attacks?|attackers?|jailbreaks?|injections?|detects?|refuses?|blocks?|flags?|rejects?|shaped like|named|called|"
    r"(?:try|tries|trying|attempts?|attempting) to|untrusted|malicious|suspicious)\b"
)
_QUOTES = ('"', "`", "“")
_ENDS = {'"': '"', "`": "`", "“": "”"}
_HIDING = (
    ("<!--", "-->"),
    ("[//]: # (", ")\n"),
    ("[comment]: <> (", ")\n"),
    ("[comment]: # (", ")\n"),
)
_HIDDEN_ELEMENT = re.compile(
    r"<\w{1,12}\s(?:[^<>]{0,200}?\s)?(?:hidden\b|[^<>]{0,200}?"
    r"(?:display ?: ?none|visibility ?: ?hidden|font-size ?: ?0|opacity ?: ?0(?![.\d])|"
    r"color ?: ?(?:#fff(?:fff)?|white|transparent)))[^<>]{0,200}>"
)


class Finding(NamedTuple):
    """The `kind` of attack, `where` it is (`line 3`, or `line 3, base64` if disguised), and an excerpt."""

    kind: Kind
    where: str
    excerpt: str

    def __str__(self) -> str:
        return f"{self.kind} in {self.where}: {self.excerpt}"


def scan(text: str) -> list[Finding]:
    """All findings, at most one per kind and line, in the plainest reading; empty for a clean text. Takes time linear
    in the text."""
    return list(_findings(text))


def refusal(findings: list[Finding]) -> str:
    """One line saying why a text was refused, without the excerpt, as a model may read it."""
    return "; ".join(dict.fromkeys(f"{finding.kind} in {finding.where}" for finding in findings[:3]))


@lru_cache(maxsize=256)  # a run's episodes share their notes
def _findings(text: str) -> tuple[Finding, ...]:
    found: dict[tuple[Kind, str], Finding] = {}
    for finding in (*_unseen(text), *_said(text)):
        found.setdefault((finding.kind, finding.where.partition(",")[0]), finding)
    return tuple(found.values())


def _unseen(text: str) -> Iterator[Finding]:
    for start, characters in hidden(text):
        yield Finding("hidden", f"line {_line(text, start)}", characters)
    mixed = mixed_words(text)
    if len(mixed) >= _FEW_MIXED:  # a single one may be a typo or an example
        yield Finding("hidden", f"line {_line(text, mixed[0].start())}", f"letters of two scripts in {mixed[0][0]}")
    low = plain(text)
    for start, part in _hidden_parts(low):
        if HIDDEN_ORDER.search(part):
            yield Finding("injection", f"line {_line(low, start)}, hidden part", _excerpt(part))


def _said(text: str) -> Iterator[Finding]:
    for view in views(text):
        for pattern in patterns():
            for match in pattern.regex.finditer(view.text):
                if pattern.instructs and _only_spoken_of(view.text, match.start()):
                    continue
                line = view.line + view.text.count("\n", 0, match.start())
                where = f"line {line}, {view.by}" if view.by else f"line {line}"
                yield Finding(pattern.kind, where, _excerpt(match[0]))
                break


def _only_spoken_of(text: str, start: int) -> bool:
    """Whether the sentence forbids the attack or quotes it as an example; a sentence may be wrapped over lines."""
    earliest = max(0, start - _BEFORE)
    line = text[max(earliest, text.rfind("\n", earliest, start) + 1) : start]
    if _NEGATED.search(line[-60:]):
        return True
    before = text[max(earliest, _sentence_start(text, start)) : start]
    quoted = any(
        before.rfind(quote) > before.rfind(_ENDS[quote]) if quote != _ENDS[quote] else before.count(quote) % 2
        for quote in _QUOTES
    )
    return quoted and _QUOTING.search(before) is not None


def _sentence_start(text: str, at: int) -> int:
    """Where the lines begin over which the sentence at this position is wrapped; 0 if that is not near."""
    earliest = max(0, at - _BEFORE)
    start = text.rfind("\n", earliest, at) + 1
    while start > max(1, earliest) and text[start - 2] not in ".!?\n":
        start = text.rfind("\n", earliest, start - 1) + 1
    return start


def _hidden_parts(text: str) -> Iterator[tuple[int, str]]:
    """The parts that a rendered document does not show: comments, and text after the tag of a hidden element."""
    for opening, closing in _HIDING:
        at = text.find(opening)
        while at >= 0:
            end = text.find(closing, at)
            end = len(text) if end < 0 else end
            yield at, text[at + len(opening) : min(end, at + 4_000)]
            at = text.find(opening, end)
    for element in _HIDDEN_ELEMENT.finditer(text):
        yield element.start(), text[element.end() : element.end() + 400].partition("</")[0]


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _excerpt(text: str) -> str:
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= _EXCERPT else text[:_EXCERPT] + "…"
