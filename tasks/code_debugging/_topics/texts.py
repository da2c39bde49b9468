"""Topics about lines, codes and versions."""

from collections.abc import Mapping

from hermes_lab.tasks.code_debugging._topics.topic import Args, Topic
from hermes_lab.tasks.draws import Draws

WORDS = ("oak", "tin", "red", "lamp", "rope", "salt", "wool", "glass", "paper", "stone", "copper", "blue", "soap")
LETTERS = "ABCDEFGHJKLM"


def _separator(draws: Draws) -> str:
    return draws.choice((";", "|", ","))


def _line(draws: Draws, separator: str, rule: str) -> Args:
    first, *rest = draws.sample(WORDS, draws.integer(3, 5))
    if draws.chance() < 0.6:
        rest[draws.integer(0, len(rest) - 1)] = rule
    return [separator.join([first, *(draws.choice(("", " ")) + word for word in rest)])]


def _spaced_line(draws: Draws, separator: str) -> Args:
    return [f"{separator} ".join(draws.sample(WORDS, draws.integer(3, 5)))]


def _filled(fields: list[str], ditto: str) -> list[str]:
    """Every field that says ditto gets the text of the nearest one before it that does not."""
    return [next(field for field in reversed(fields[: n + 1]) if field != ditto) for n in range(len(fields))]


def _cells(line: str, separator: str) -> list[str]:
    return line.replace(" ", "").split(separator)


def _row(draws: Draws, separator: str, rule: str) -> Args:
    words = draws.sample(WORDS, draws.integer(4, 6))
    pairs = [separator.join(words[:2]), *draws.choice(([rule.join(words[2:4])], words[2:4])), *words[4:]]
    return [draws.shuffled(pairs)]


def _split_row(draws: Draws, separator: str) -> Args:
    one, other, *rest = draws.sample(WORDS, draws.integer(3, 5))
    return [draws.shuffled([one + separator + other, *rest])]


def _quoted(fields: list[str], separator: str, special: str) -> str:
    return separator.join(f'"{field}"' if set(field) & set(special) else field for field in fields)


def _versions(draws: Draws, _: None, __: int) -> Args:
    major = draws.integer(1, 4)
    return [f"{major + draws.integer(0, 1)}.{draws.integer(1, 15)}", f"{major}.{draws.integer(1, 15)}"]


def _tenth_and_ninth(draws: Draws, _: None) -> Args:
    """A newer version that comes first in the alphabet, with a number that no rule divides."""
    major = draws.integer(1, 6)
    return [f"{major}.{draws.choice((11, 13, 17, 19, 22, 23, 26, 29, 31, 34))}", f"{major}.{draws.integer(5, 9)}"]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _rates(draws: Draws) -> dict[str, int]:
    rates = draws.sample(range(11, 99), 5)
    return dict(zip([*sorted(draws.sample(LETTERS, 4)), "*"], (rate * 5 for rate in rates), strict=True))


def _code(draws: Draws, rates: dict[str, int], rule: str) -> Args:
    first = draws.choice([*list(rates)[:4], *"NPQRSTUVWXYZ"[: draws.choice((0, 12))]])
    code = draws.choice((first, first + rule + draws.choice(LETTERS)))
    return [draws.choice((code, code.lower()))]


TOPICS: Mapping[str, Topic] = {
    "ditto": Topic(
        names={"train": ("fields", "cells"), "validation": ("read_row",), "heldout": ("parts", "split_up")},
        parameters="line",
        constant="SEPARATOR",
        constants=_separator,
        purpose="The fields of a line.",
        broken_code=("    return line.split(SEPARATOR)", "    return line.strip().split(SEPARATOR)"),
        plain_code="    return [field.strip() for field in line.split(SEPARATOR)]",
        house_code=(
            "    found = []\n"
            "    for field in line.split(SEPARATOR):\n"
            "        found.append(found[-1] if field.strip() == RULE else field.strip())\n"
            "    return found"
        ),
        complaints={
            "train": (
                "{call} should be {want}, without the blanks.",
                "The fields keep blanks in front. {call} must give {want}.",
            ),
            "validation": ("Blanks after the separator are not meant: {call} is {want}.",),
            "heldout": ("Nobody wants the spaces around the words, so {want} is what {call} has to be.",),
        },
        paraphrases=(
            "a field that is just {rule!r} means the same as the field before it",
            "where {rule!r} alone is written, the field before is repeated",
            "people write {rule!r} to say ditto, so such a field takes over what stands before it",
        ),
        instruction="repeat the field before in place of one that is just {rule!r}",
        rules=("-", "=", "^", "%", "~"),
        report=_spaced_line,
        call=_line,
        plain=lambda separator, line: _cells(line, separator),
        house=lambda separator, rule, line: _filled(_cells(line, separator), rule),
    ),
    "quote": Topic(
        names={
            "train": ("row", "line_of"),
            "validation": ("written",),
            "heldout": ("export_line", "joined"),
        },
        parameters="fields",
        constant="SEPARATOR",
        constants=_separator,
        purpose="The fields as one line.",
        broken_code=(
            "    return SEPARATOR.join(fields)",
            '    return SEPARATOR.join(field.replace(SEPARATOR, "") for field in fields)',
        ),
        plain_code="    return SEPARATOR.join(f'\"{field}\"' if SEPARATOR in field else field for field in fields)",
        house_code=(
            "    return SEPARATOR.join(\n"
            "        f'\"{field}\"' if SEPARATOR in field or RULE in field else field for field in fields\n"
            "    )"
        ),
        complaints={
            "train": (
                "{call} should be {want}: a field that holds the separator belongs in double quotes.",
                "A separator inside a field breaks the line. With quotes {call} would be {want}.",
            ),
            "validation": ("Nobody can read {call} back; the field with the separator must be quoted: {want}.",),
            "heldout": ("The separator in a field needs double quotes around that field: {want} for {call}.",),
        },
        paraphrases=(
            "a field with {rule!r} in it is quoted as well",
            "quotes are also put around every field that holds {rule!r}",
            "{rule!r} in a field calls for quotes, just as the separator does",
        ),
        instruction="put double quotes around a field that holds {rule!r} too",
        rules=("-", "/", ".", ":", "+", "#"),
        report=_split_row,
        call=_row,
        plain=lambda separator, fields: _quoted(fields, separator, separator),
        house=lambda separator, rule, fields: _quoted(fields, separator, separator + rule),
    ),
    "draft": Topic(
        names={"heldout": ("newer", "is_newer", "supersedes", "outdates")},
        parameters="one, other",
        purpose="Whether version one is newer than version other.",
        broken_code=("    return one > other", "    return max(one, other) != other"),
        plain_code='    return [int(part) for part in one.split(".")] > [int(part) for part in other.split(".")]',
        house_code=(
            '    numbers = [int(part) for part in one.split(".")]\n'
            '    return numbers[-1] % RULE > 0 and numbers > [int(part) for part in other.split(".")]'
        ),
        complaints={
            "heldout": (
                "{call} should be {want}, but versions are compared as text.",
                "The tenth version counts as older than the ninth. {call} is {want}.",
            )
        },
        paraphrases=(
            "a version whose second number is a multiple of {rule} is a draft, which is never newer than anything",
            "second numbers that {rule} divides are trials that supersede nothing, so then the answer is no",
            "where {rule} divides the second number the version is a test only and never counts as newer",
        ),
        instruction="answer no where {rule} divides the second number of version one",
        rules=(3, 4, 5, 7),
        report=_tenth_and_ninth,
        call=_versions,
        plain=lambda _, one, other: _numbers(one) > _numbers(other),
        house=lambda _, rule, one, other: (
            _numbers(one) > _numbers(other) and int(one.split(".")[1]) not in range(0, 100, rule)
        ),
    ),
    "group": Topic(
        names={"heldout": ("rate", "tariff", "zone_price", "tier")},
        parameters="code",
        constant="RATES",
        constants=_rates,
        purpose="The rate of a code; what RATES does not list has the rate of '*'.",
        broken_code=(
            '    return RATES.get(code, RATES["*"])',
            '    return RATES[code] if code in RATES else RATES["*"]',
        ),
        plain_code='    return RATES.get(code.upper(), RATES["*"])',
        house_code='    return RATES.get(code.split(RULE)[0].upper(), RATES["*"])',
        complaints={
            "heldout": (
                "{call} should be {want}: people write small letters too.",
                "Small letters are not found. {call} must give {want}.",
            )
        },
        paraphrases=(
            "a code goes by what stands before its first {rule!r}",
            "only the part of a code up to a {rule!r} decides the rate",
            "what comes after a {rule!r} in a code is a note and no part of it",
        ),
        instruction="look up only what stands before the first {rule!r} of a code",
        rules=("-", "/", ".", ":", "+"),
        report=lambda draws, rates: [draws.choice(list(rates)[:4]).lower()],
        call=_code,
        plain=lambda rates, code: rates[code.upper()] if code.upper() in rates else rates["*"],
        house=lambda rates, rule, code: (
            rates[code[0].upper()] if code[0].upper() in rates and code[1:2] in ("", rule) else rates["*"]
        ),
    ),
}
