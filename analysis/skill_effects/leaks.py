"""Leaked answers: literals that stand in a skill and in the answer of a held-out task, and that neither the task nor
its rule tells.

A skill may tell how work is done; what comes out of one held-out task is no skill. Answers come from the suite
(`hermes_lab.runners.experiments.ground_truth`); here texts are compared.
"""

import re
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from functools import cache

from msgspec import Struct

from hermes_lab.types import Skill

LEAST_DIGITS = 4
"""Significant digits of a number that is a literal: fewer are met by chance."""
LEAST_CHARACTERS = 6
"""Of an id or a quoted string."""
LEAST_LINE = 60
"""Characters of a line that is a literal as a whole,"""
LEAST_WORDS = 8
"""and its words."""

_PLAIN = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")
_NUMBER = re.compile(rf"(?<![\w.-]){_PLAIN.pattern}(?![\w-])")
_ID = re.compile(r"\w(?:[\w./:@#+-]*\w)?")
_BETWEEN = r"., '\u2019_"
"""What stands between groups of three digits; hard and thin spaces are spaces here."""
_QUOTED = re.compile(r"\"([^\"\n]+)\"|'([^'\n]+)'|`([^`\n]+)`")


class Answer(Struct, frozen=True, kw_only=True):
    """A held-out task: the texts of a right `answer`, and all that is no leak where a skill tells it: what the task
    shows, and its rule."""

    task_id: str
    answer: tuple[str, ...]
    known: tuple[str, ...]


class Leak(Struct, frozen=True, kw_only=True):
    """A skill that tells a part of a task's answer."""

    skill: str
    task_id: str
    literals: tuple[str, ...]


def scan(skills: Iterable[Skill], answers: Iterable[Answer]) -> list[Leak]:
    """The leaks of `skills`, by skill and task.

    A literal counts for a task where it stands in the answer of that task alone: what several answers share is a word
    of the trade. An answer that the task itself shows, such as a name that is to be found in its pages, cannot be told
    from what may be said, and is not found.
    """
    own = secrets(answers)
    found = []
    for skill in skills:
        text = _Text(skill.text, *(data.decode(errors="ignore") for data in skill.files.values()))
        for task_id, secret in own.items():
            if told := sorted(filter(text.tells, secret)):
                found.append(Leak(skill=skill.name, task_id=task_id, literals=tuple(told)))
    return sorted(found, key=lambda leak: (leak.skill, leak.task_id))


def secrets(answers: Iterable[Answer]) -> dict[str, frozenset[str]]:
    """By task, the literals that its answer alone holds and that nothing known tells."""
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
    """The number without sign, commas and needless zeros; "" where its digits are too few, None for no number."""
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
    """What a literal is looked for in, without regard to case and to how its spaces and lines are broken."""

    def __init__(self, *texts: str) -> None:
        self._flat = _flat("\n".join(texts)).casefold()
        self._digits = re.sub(r"\D", "", self._flat)

    def holds(self, literal: str) -> bool:
        """Whether the literal is a part of the text, be it a part of a word."""
        return literal.casefold() in self._flat

    def tells(self, literal: str) -> bool:
        """Whether the literal stands there by itself: a number in any notation, all else as it is, also without the
        quotes that it had."""
        if _number(literal) is not None:
            return re.sub(r"\D", "", literal) in self._digits and bool(_any_notation(literal).search(self._flat))
        return self.holds(literal) and bool(re.search(rf"(?<!\w){re.escape(literal.casefold())}(?!\w)", self._flat))


@cache
def _any_notation(number: str) -> re.Pattern[str]:
    """The number with thousands in groups or not, a point or a comma, needless zeros, a sign, three letters of a
    currency or a unit, in `_emphasis_`. An exponent is no such notation, and a part of a longer number is none."""
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
