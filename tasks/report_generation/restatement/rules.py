"""Which figures stand for a board, and how it reads them: in the harness, in a script and in words."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import NamedTuple

from hermes_lab.tasks.conventions import Convention, Literals, one_of, variants_of

WITHDRAWN = "-"
ROMAN = ("I", "II", "III", "IV")


@dataclass(frozen=True)
class SiteConfig:
    """What lasts at a board. Every board has all of it, so that none betrays a rule."""

    lines: tuple[str, ...]
    reasons: tuple[str, ...]
    """Four, each of which some restatement of every scene has."""
    line: str
    quarter: str
    first: str
    standing: str
    change: str
    reason: str
    heading: str
    restated: str
    currency: str
    withdrawn: tuple[str, ...]


class Entry(NamedTuple):
    """What a filing says of a figure. An amount of None is a dash."""

    amount: int | None
    reason: str
    age: int
    """Quarters between the figure's own filing and this one."""


class Figure(NamedTuple):
    """A figure: its line, its quarter (2024-Q3), and what the filings say, its own first."""

    line: str
    quarter: str
    entries: tuple[Entry, ...]

    @property
    def first(self) -> int:
        """As it was filed first."""
        return self.entries[0].amount or 0


def _latest(first: int, amounts: Sequence[int]) -> int:
    return amounts[-1] if amounts else first


def _percent(decimals: str) -> Callable[[int, int], str]:
    def change(first: int, standing: int) -> str:
        share = Decimal(100 * (standing - first)) / first
        return f"{share.quantize(Decimal(decimals), ROUND_HALF_UP):+}%"

    return change


def _points(first: int, standing: int) -> str:
    share = Decimal(10_000 * (standing - first)) / first
    return f"{share.quantize(Decimal(1), ROUND_HALF_UP):+} bp"


@dataclass(frozen=True)
class Custom:
    """How figures are restated. The defaults are those of the sheet."""

    counts: Callable[[int, Entry], bool] = lambda first, entry: True
    """Whether a restatement of a figure is taken at all."""
    pick: Callable[[int, Sequence[int]], int] = _latest
    """Which amount stands, from the first and the restated ones that count."""
    withdrawn: str = ""
    """What is written where the last word of the filings is a dash; empty: nothing special."""
    amount: Callable[[int], str] = str
    """How a number of thousands is written."""
    signed: Callable[[int], str] = lambda change: f"{change:+d}"
    change: Callable[[int, int], str] | None = None
    """From the first and the standing figure; otherwise their difference, by `signed`."""
    mark: str = "{}"
    """Over a standing figure that is not the first."""
    still: str = "0"
    """The change of the others."""
    quarter: Callable[[str, int], str] = lambda year, number: f"{year}-Q{number}"
    order: Callable[[int, int], tuple[int, int]] = lambda quarter, line: (quarter, line)
    """Sorts by the numbers of quarter and line."""
    listed: int = 0
    """Changes of fewer percent are not listed."""


_PICKS: Mapping[str, tuple[Callable[[int, Sequence[int]], int], str]] = {
    "the first restatement": (lambda first, amounts: amounts[0] if amounts else first, "amounts[:2][-1]"),
    "the largest of all its amounts": (lambda first, amounts: max((first, *amounts)), "max(amounts)"),
    "the smallest of all its amounts": (lambda first, amounts: min((first, *amounts)), "min(amounts)"),
}
_UNITS: Mapping[str, tuple[Callable[[int], str], Callable[[int], str], str, str]] = {
    "millions with three decimals": (
        lambda n: f"{Decimal(n) / 1000:.3f}",
        lambda n: f"{Decimal(n) / 1000:+.3f}",
        'f"{value / 1000:.3f}"',
        'f"{(standing - first) / 1000:+.3f}"',
    ),
    "whole units, with no thousands left off": (
        lambda n: str(n * 1000),
        lambda n: f"{n * 1000:+d}",
        "str(value * 1000)",
        'f"{(standing - first) * 1000:+d}"',
    ),
    "hundreds, without decimals": (
        lambda n: str(n * 10),
        lambda n: f"{n * 10:+d}",
        "str(value * 10)",
        'f"{(standing - first) * 10:+d}"',
    ),
}
_EXAMPLES = {
    "millions with three decimals": "1.234",
    "whole units, with no thousands left off": "1234000",
    "hundreds, without decimals": "12340",
}
_QUARTERS: Mapping[str, tuple[Callable[[str, int], str], str]] = {
    "Q3 2024": (lambda y, q: f"Q{q} {y}", 'f"Q{number} {year}"'),
    "3Q24": (lambda y, q: f"{q}Q{y[2:]}", 'f"{number}Q{year[2:]}"'),
    "2024/3": (lambda y, q: f"{y}/{q}", 'f"{year}/{number}"'),
    "III/2024": (lambda y, q: f"{ROMAN[q - 1]}/{y}", '["I", "II", "III", "IV"][int(number) - 1] + "/" + year'),
    "20243": (lambda y, q: f"{y}{q}", "year + number"),
}
_ORDERS: Mapping[str, tuple[Callable[[int, int], tuple[int, int]], str]] = {
    "newest quarter first, the lines of a quarter as ever": (
        lambda quarter, line: (-quarter, line),
        "[(quarter, name) for quarter in reversed(quarters) for name in lines]",
    ),
    "line by line, each with its quarters from the oldest": (
        lambda quarter, line: (line, quarter),
        "[(quarter, name) for name in lines for quarter in quarters]",
    ),
    "line by line, each with its quarters from the newest": (
        lambda quarter, line: (line, -quarter),
        "[(quarter, name) for name in lines for quarter in reversed(quarters)]",
    ),
}
_CHANGES: Mapping[str, tuple[Callable[[int, int], str], str]] = {
    "percent of the first figure with one decimal": (_percent("0.1"), "+2.5%"),
    "percent of the first figure with two decimals": (_percent("0.01"), "+2.50%"),
    "whole basis points of the first figure": (_points, "+250 bp"),
}
_SHARE = "f\"{(Decimal(%s * (standing - first)) / first).quantize(Decimal('%s'), ROUND_HALF_UP):+}%s\""
_CHANGE_CODE = {
    "percent of the first figure with one decimal": _SHARE % ("100", "0.1", "%"),
    "percent of the first figure with two decimals": _SHARE % ("100", "0.01", "%"),
    "whole basis points of the first figure": _SHARE % ("10000", "1", " bp"),
}


def _names(site_config: SiteConfig) -> Literals:
    return {
        "standing": site_config.standing,
        "change": site_config.change,
        "quarter": site_config.quarter,
        "first": site_config.first,
    }


CONVENTIONS: Mapping[str, Convention[SiteConfig, Custom]] = {
    "threshold": Convention(
        (
            "a restatement that is less than {limit} away from the first figure does not stand",
            "small restatements, under {limit}, are ignored",
            "only a restatement by {limit} or more counts",
        ),
        "ignore every restated amount that differs from the first figure by less than {limit}",
        one_of("limit", 5, 10, 15, 20),
        lambda rule: Custom(counts=lambda first, entry: abs((entry.amount or 0) - first) >= rule["limit"]),
        {"skip": 'amount == "-" or abs(int(amount) - first) < %(limit)d'},
    ),
    "reason": Convention(
        (
            "restatements for the {column} {word} do not stand",
            "what was restated for {word} is not recognised",
            "{word} is no {column} to restate anything",
        ),
        "ignore every restated amount with the {column} {word}",
        lambda site_config: [{"column": site_config.reason, "word": word} for word in site_config.reasons],
        lambda rule: Custom(counts=lambda first, entry: entry.reason != rule["word"]),
        {"skip": 'amount == "-" or reason == %(word)r'},
    ),
    "age": Convention(
        (
            "a figure is closed {words} after its own",
            "restatements come too late if filed more than {words} after the figure's own",
            "only filings up to {words} after its own can restate a figure",
        ),
        "ignore every restated amount from a filing more than {words} after the figure's own quarter",
        variants_of("quarters words", (1, "one quarter"), (2, "two quarters"), (3, "three quarters")),
        lambda rule: Custom(counts=lambda first, entry: entry.age <= rule["quarters"]),
        {"skip": 'amount == "-" or age > %(quarters)d'},
    ),
    "pick": Convention(
        ("{words} stands", "of a figure's amounts it is {words} that stands", "they hold to {words} of a figure"),
        "let {words} stand for each figure, not the latest",
        lambda _: [{"words": words, "code": code} for words, (_, code) in _PICKS.items()],
        lambda rule: Custom(pick=_PICKS[rule["words"]][0]),
        {"pick": "return %(code)s"},
    ),
    "mark": Convention(
        (
            "a restated figure carries a mark, as in {example}",
            "they tell restated figures by their mark, {example}",
            "{example} is how a restated figure looks",
        ),
        "write a {standing} figure of 1234 as {example} in both files where it is not the first one",
        lambda site_config: [
            {**_names(site_config), "form": form, "example": form.format("1234")}
            for form in ("{}r", "R{}", "{}*", "[{}]", "{} (rev)")
        ],
        lambda rule: Custom(mark=rule["form"]),
        {"standing": "%(form)r.format(figure(standing)) if standing != first else figure(standing)"},
    ),
    "share": Convention(
        (
            "a change is given in {words}",
            "they read changes in {words}",
            "the column {change} holds {words}",
        ),
        "write each {change} in {words}, rounded half up, like {example}, but leave 0 as 0",
        lambda site_config: [
            {**_names(site_config), "words": words, "example": example, "code": _CHANGE_CODE[words]}
            for words, (_, example) in _CHANGES.items()
        ],
        lambda rule: Custom(change=_CHANGES[rule["words"]][0]),
        {"change": "return %(code)s"},
    ),
    "reverse": Convention(
        (
            "the {change} is {words}",
            "{change} means {words}",
            "they reckon the {change} as {words}",
        ),
        "write as {change}, in both files, {words}",
        lambda site_config: [
            {**_names(site_config), "words": words.format(**_names(site_config)), "code": code}
            for words, code in (
                ("{first} less {standing} (with its sign)", 'f"{first - standing:+d}"'),
                ("the difference without a sign", "str(abs(standing - first))"),
            )
        ],
        lambda rule: Custom(signed=(lambda n: f"{-n:+d}") if "+d" in rule["code"] else (lambda n: str(abs(n)))),
        {"change": "return %(code)s"},
    ),
    "still": Convention(
        (
            'an unchanged figure has "{text}" in place of 0',
            'where nothing has changed they want "{text}"',
            'they do not like to read 0 for a change, but "{text}"',
        ),
        'write "{text}" in place of 0 in the column {change}',
        lambda site_config: [{**_names(site_config), "text": text} for text in ("", "none", "n/c", "=", "as filed")],
        lambda rule: Custom(still=rule["text"]),
        {"still": "%(text)s"},
    ),
    "quarter": Convention(
        ("quarters are written like {example}", "a quarter looks like {example}", "they read {example} for a quarter"),
        "write the {quarter} 2024-Q3 as {example} in both files",
        lambda site_config: [
            {**_names(site_config), "example": example, "code": code} for example, (_, code) in _QUARTERS.items()
        ],
        lambda rule: Custom(quarter=_QUARTERS[rule["example"]][0]),
        {"quarter": 'year, number = quarter.split("-Q")\n    return %(code)s'},
    ),
    "order": Convention(
        ("figures go {words}", "both files are sorted {words}", "they read {words}"),
        "sort both files {words}",
        lambda _: [{"words": words, "code": code} for words, (_, code) in _ORDERS.items()],
        lambda rule: Custom(order=_ORDERS[rule["words"]][0]),
        {"order": "%(code)s"},
    ),
    "unit": Convention(
        (
            "amounts are in {words}",
            "they think in {words}",
            "the unit of an amount is not the thousand: they want {words}",
        ),
        "write all amounts, the {change} too, in {words}: 1234 thousand as {example} (a {change} of 0 stays 0)",
        lambda site_config: [
            {**_names(site_config), "words": words, "example": _EXAMPLES[words], "value": value, "signed": signed}
            for words, (_, _, value, signed) in _UNITS.items()
        ],
        lambda rule: Custom(amount=_UNITS[rule["words"]][0], signed=_UNITS[rule["words"]][1]),
        {"figure": "return %(value)s", "change": "return %(signed)s"},
        unseen=True,
    ),
    "withdrawn": Convention(
        (
            "a dash in the latest filing that names a figure withdraws it, and it is shown as {word}",
            "a dash is the end of a figure, which is {word} then",
            "figures that end in a dash are {word}",
        ),
        "where the last filing that names a figure has a dash, write {word} as its {standing} and as its {change} in "
        "both files, and list and count it as restated",
        lambda site_config: [{**_names(site_config), "word": word} for word in site_config.withdrawn],
        lambda rule: Custom(withdrawn=rule["word"]),
        {"special": 'if entries[-1][0] == "-":\n        row[3:], restated = [%(word)r, %(word)r], True'},
        unseen=True,
    ),
    "listed": Convention(
        (
            "the list holds no change under {percent} percent",
            "changes below {percent} percent of the first figure are not worth listing",
            "only a change of {percent} percent or more is listed",
        ),
        "list and count in changes.md only changes of at least {percent} percent of the first figure",
        one_of("percent", 1, 2, 5),
        lambda rule: Custom(listed=rule["percent"]),
        {"special": "restated = restated and abs(standing - first) * 100 >= %(percent)d * first"},
        unseen=True,
    ),
}
