"""Answer leaks: literals that appear in a skill and in a held-out task's answer, but not in the task or its rule.

A skill may describe how to do the work, but not the result of a held-out task. Answers come from the suite
(`hermes_lab.runners.experiments.ground_truth`); this module compares texts.
"""

import re
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from functools import cache

from msgspec import Struct

from hermes_lab.types import Skill

LEAST_DIGITS = 4
"""Fewest significant digits of a number literal; shorter ones match by chance."""
LEAST_CHARACTERS = 6
"""Fewest characters of an id or a quoted string."""
LEAST_LINE = 60
"""Fewest characters of a whole line as a literal."""
LEAST_WORDS = 8
"""Fewest words of a whole line as a literal."""

_PLAIN = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")
_NUMBER = re.compile(rf"(?<![\w.-]){_PLAIN.pattern}(?![\w-])")
_ID = re.compile(r"\w(?:[\w./:@#+-]*\w)?")
_BETWEEN = r"., '\u2019_"
"""Thousands separators; non-breaking and thin spaces are normalised to spaces."""
_QUOTED = re.compile(r"\"([^\"\n]+)\"|'([^'\n]+)'|`([^`\n]+)`")


class Answer(Struct, frozen=True, kw_only=True):
    """A held-out task: the texts of a correct `answer`, and the texts that are no leak: the task and its rule."""

    task_id: str
    answer: tuple[str, ...]
    known: tuple[str, ...]


class Leak(Struct, frozen=True, kw_only=True):
    """A skill that contains part of a task's answer."""

    skill: str
    task_id: str
    literals: tuple[str, ...]


def scan(skills: Iterable[Skill], answers: Iterable[Answer]) -> list[Leak]:
    """The leaks of `skills`, by skill and task.

    A literal counts only if it is unique to one task's answer; literals shared by answers are domain vocabulary.
    Answers that appear in the task itself, such as a name on one of its pages, cannot be detected."""
    own = secrets(answers)
    found = []
    for skill in skills:
        text = _Text(skill.text, *(data.decode(errors="ignore") for data in skill.files.values()))
        for task_id, secret in own.items():
            if told := sorted(filter(text.tells, secret)):
                found.append(Leak(skill=skill.name, task_id=task_id, literals=tuple(told)))
    return sorted(found, key=lambda leak: (leak.skill, leak.task_id))


def secrets(answers: Iterable[Answer]) -> dict[str, frozenset[str]]:
    """By task, the literals unique to its answer that appear in no known text."""
    held: dict[str, set[str]] = {}
    for each in answers:
        known = _Text(*each.known)
        held[each.task_id] = {one for one in literals(*each.answer) if not (known.holds(one) or known.tells(one))}
    times = Counter(one for secret in held.values() for one in {each.casefold() for each in secret})
    return {task: frozenset(one for one in secret if times[one.casefold()] == 1) for task, secret in held.items()}


def literals(*texts: str) -> set[str]:
    """Numbers in one form (1,234.50 is 1234.5), ids (words of letters and digits), quoted strings, and whole lines."""
    found: set[str] = set()
    for text in texts:
        found.update(number for match in _NUMBER.finditer(text) if (number := _number(match[0])))
        found.update(word for word in _ID.findall(text) if _is_id(word))
        for match in _QUOTED.finditer(text):
            quoted = " ".join(next(part for part in match.groups() if part).split())
            if len(quoted) >= LEAST_CHARACTERS and _number(quoted) is None:
                found.add(quoted)
        for line in map(str.split, text.splitlines()):
            if len(whole := " ".join(line)) >= LEAST_LINE and len(line) >= LEAST_WORDS:
                found.add(whole)
    return found


def _number(text: str) -> str | None:
    """The number without sign, commas and redundant zeros; "" if it has too few digits, None if it is no number."""
    if not _PLAIN.fullmatch(text):
        return None
    plain = f"{abs(Decimal(text.replace(',', ''))).normalize():f}"
    return plain if len(plain.replace(".", "").strip("0")) >= LEAST_DIGITS else ""


def _is_id(word: str) -> bool:
    return (
        len(word) >= LEAST_CHARACTERS
        and any(map(str.isdigit, word))
        and any(map(str.isalpha, word))
        and _number(word) is None
    )


class _Text:
    """Text to search for literals, ignoring case, whitespace and line breaks."""

    def __init__(self, *texts: str) -> None:
        self._flat = _flat("\n".join(texts)).casefold()
        self._digits = re.sub(r"\D", "", self._flat)

    def holds(self, literal: str) -> bool:
        """Whether the text contains the literal, even within a word."""
        return literal.casefold() in self._flat

    def tells(self, literal: str) -> bool:
        """Whether the text contains the literal as a token: numbers in any notation, others verbatim, with or without
        their quotes."""
        if _number(literal) is not None:
            return re.sub(r"\D", "", literal) in self._digits and bool(_any_notation(literal).search(self._flat))
        return self.holds(literal) and bool(re.search(rf"(?<!\w){re.escape(literal.casefold())}(?!\w)", self._flat))


@cache
def _any_notation(number: str) -> re.Pattern[str]:
    """Matches the number with or without thousands separators, with a decimal point or comma, redundant zeros, sign,
    currency code or unit, and `_emphasis_`. Not with an exponent, and not within a longer number."""
    whole, _, fraction = number.partition(".")
    groups = f"{int(whole):,}".split(",")
    if len(groups) > 1:
        rest = "".join(rf"(?P=by){group}" for group in groups[2:])
        grouped = rf"(?<!\d[{_BETWEEN}]){groups[0]}(?P<by>[{_BETWEEN}]){groups[1]}{rest}(?!(?P=by)\d{{3}})"
        whole = rf"(?:{whole}|{grouped})"
    decimals = rf"[.,]{fraction}0*" if fraction else r"(?:[.,]0+)?"
    before, after = r"(?<!\w)(?<!\w-)(?<!\d\.)_*(?:[a-z]{3})?", r"(?:[a-z]{1,3}|_+)?(?!\w|-\w|\.\d)"
    return re.compile(f"{before}{whole}{decimals}{after}")


def _flat(text: str) -> str:
    return " ".join(text.split())
