"""Topics about lines, codes and versions."""

from hermes_lab.tasks.code_debugging._topics.topic import Args, Behaviour, topics_of
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


TOPICS = topics_of(
    __file__,
    {
        "ditto": Behaviour(
            constants=_separator,
            report=_spaced_line,
            call=_line,
            plain=lambda separator, line: _cells(line, separator),
            house=lambda separator, rule, line: _filled(_cells(line, separator), rule),
        ),
        "quote": Behaviour(
            constants=_separator,
            report=_split_row,
            call=_row,
            plain=lambda separator, fields: _quoted(fields, separator, separator),
            house=lambda separator, rule, fields: _quoted(fields, separator, separator + rule),
        ),
        "draft": Behaviour(
            report=_tenth_and_ninth,
            call=_versions,
            plain=lambda _, one, other: _numbers(one) > _numbers(other),
            house=lambda _, rule, one, other: (
                _numbers(one) > _numbers(other) and int(one.split(".")[1]) not in range(0, 100, rule)
            ),
        ),
        "group": Behaviour(
            constants=_rates,
            report=lambda draws, rates: [draws.choice(list(rates)[:4]).lower()],
            call=_code,
            plain=lambda rates, code: rates[code.upper()] if code.upper() in rates else rates["*"],
            house=lambda rates, rule, code: (
                rates[code[0].upper()] if code[0].upper() in rates and code[1:2] in ("", rule) else rates["*"]
            ),
        ),
    },
)
