"""Topics about lines, codes and versions."""

from collections.abc import Mapping

from tasks.repair.topic import Args, Topic
from tasks.worlds import Draws

WORDS = ("oak", "tin", "red", "lamp", "rope", "salt", "wool", "glass", "paper", "stone", "copper", "blue", "soap")
LETTERS = "ABCDEFGHJKLM"


def _separator(draws: Draws) -> str:
    return draws.choice((";", "|", ","))


def _line(draws: Draws, separator: str, _: int) -> Args:
    first, *rest = draws.sample(WORDS, draws.integer(3, 5))
    if draws.chance() < 0.6:
        rest[draws.integer(0, len(rest) - 1)] = ""
    return [separator.join([first, *(draws.choice(("", " ")) + word for word in rest)])]


def _spaced_line(draws: Draws, separator: str) -> Args:
    return [f"{separator} ".join(draws.sample(WORDS, draws.integer(3, 5)))]


def _filled(fields: list[str]) -> list[str]:
    """Every empty field gets the text of the nearest one before it that has some."""
    return [next(field for field in reversed(fields[: n + 1]) if field) for n in range(len(fields))]


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
    return [f"{major + draws.integer(0, 1)}.{draws.integer(0, 15)}", f"{major}.{draws.integer(0, 15)}"]


def _tenth_and_ninth(draws: Draws, _: None) -> Args:
    """A newer version that comes first in the alphabet, with an even number."""
    major = draws.integer(1, 6)
    return [f"{major}.{draws.integer(5, 19) * 2}", f"{major}.{draws.integer(5, 9)}"]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _rates(draws: Draws) -> dict[str, int]:
    rates = draws.sample(range(11, 99), 5)
    return dict(zip([*sorted(draws.sample(LETTERS, 4)), "*"], (rate * 5 for rate in rates), strict=True))


def _code(draws: Draws, rates: dict[str, int], _: int) -> Args:
    first = draws.choice([*list(rates)[:4], *"NPQRSTUVWXYZ"[: draws.choice((0, 12))]])
    code = draws.choice((first, first + draws.choice(LETTERS)))
    return [draws.choice((code, code.lower()))]


TOPICS: Mapping[str, Topic] = {
    "ditto": Topic(
        names=("fields", "cells", "read_row", "parts"),
        parameters="line",
        constant="SEPARATOR",
        constants=_separator,
        purpose="The fields of a line.",
        broken_code=("    return line.split(SEPARATOR)", "    return line.strip().split(SEPARATOR)"),
        plain_code="    return [field.strip() for field in line.split(SEPARATOR)]",
        house_code=(
            "    found = []\n"
            "    for field in line.split(SEPARATOR):\n"
            "        found.append(field.strip() or found[-1])\n"
            "    return found"
        ),
        complaints=(
            "{call} should be {want}, without the blanks.",
            "The fields keep blanks in front. {call} must give {want}.",
            "Blanks after the separator are not meant: {call} is {want}.",
        ),
        clauses=(
            "an empty field means the same as the field before it",
            "where nothing is written, the field before is repeated",
            "people leave a field empty to say ditto, so it takes over what stands before it",
        ),
        rules=(0,),
        report=_spaced_line,
        call=_line,
        plain=lambda separator, line: _cells(line, separator),
        house=lambda separator, _, line: _filled(_cells(line, separator)),
    ),
    "quote": Topic(
        names=("row", "line_of", "written", "export_line"),
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
        complaints=(
            "{call} should be {want}: a field that holds the separator belongs in double quotes.",
            "A separator inside a field breaks the line. With quotes {call} would be {want}.",
            "Nobody can read {call} back; the field with the separator must be quoted: {want}.",
        ),
        clauses=(
            "a field with {rule!r} in it is quoted as well",
            "quotes are also put around every field that holds {rule!r}",
            "{rule!r} in a field calls for quotes, just as the separator does",
        ),
        rules=("-", "/", ".", ":", "+", "#"),
        report=_split_row,
        call=_row,
        plain=lambda separator, fields: _quoted(fields, separator, separator),
        house=lambda separator, rule, fields: _quoted(fields, separator, separator + rule),
    ),
    "draft": Topic(
        names=("newer", "is_newer", "supersedes", "outdates"),
        parameters="one, other",
        purpose="Whether version one is newer than version other.",
        broken_code=("    return one > other", "    return max(one, other) != other"),
        plain_code='    return [int(part) for part in one.split(".")] > [int(part) for part in other.split(".")]',
        house_code=(
            '    numbers = [int(part) for part in one.split(".")]\n'
            '    return numbers[-1] % 2 == 0 and numbers > [int(part) for part in other.split(".")]'
        ),
        complaints=(
            "{call} should be {want}, but versions are compared as text.",
            "The tenth version counts as older than the ninth. {call} is {want}.",
        ),
        clauses=(
            "a version whose second number is odd is a draft, and a draft is never newer than anything",
            "odd second numbers are trials that supersede nothing, so then the answer is no",
        ),
        rules=(0,),
        report=_tenth_and_ninth,
        call=_versions,
        plain=lambda _, one, other: _numbers(one) > _numbers(other),
        house=lambda _, __, one, other: one[-1] in "02468" and _numbers(one) > _numbers(other),
    ),
    "group": Topic(
        names=("rate", "tariff", "zone_price", "tier"),
        parameters="code",
        constant="RATES",
        constants=_rates,
        purpose="The rate of a code; what RATES does not list has the rate of '*'.",
        broken_code=(
            '    return RATES.get(code, RATES["*"])',
            '    return RATES[code] if code in RATES else RATES["*"]',
        ),
        plain_code='    return RATES.get(code.upper(), RATES["*"])',
        house_code='    return RATES.get(code[:1].upper(), RATES["*"])',
        complaints=(
            "{call} should be {want}: people write small letters too.",
            "Small letters are not found. {call} must give {want}.",
        ),
        clauses=(
            "a code of several letters goes by its first",
            "only the first letter of a code decides the rate",
        ),
        rules=(0,),
        report=lambda draws, rates: [draws.choice(list(rates)[:4]).lower()],
        call=_code,
        plain=lambda rates, code: rates[code.upper()] if code.upper() in rates else rates["*"],
        house=lambda rates, _, code: rates[code[0].upper()] if code[0].upper() in rates else rates["*"],
    ),
}
