"""What departments want of their figures: how a custom changes them, in the harness, in a script and in words."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hermes_lab.tasks.conventions import Convention, Literals, one_of, variants_of

MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
ROMAN = ("I", "II", "III", "IV")


class Series(NamedTuple):
    """What a figure shows; its file is `stem`.csv."""

    stem: str
    title: str
    unit: str


@dataclass(frozen=True)
class SiteConfig:
    """What lasts at a department. Every department has all of it, so that none betrays a rule."""

    title: str
    month: str
    """The label of the first column; that of the second is the unit."""
    series: tuple[Series, ...]
    """In the order of the sheet, which is none of the alphabet's."""
    classes: tuple[str, str, str, str]
    """Of the spans with the number, the caption, the source and the hash."""
    highlights: tuple[str, ...]
    gaps: tuple[str, ...]


class Table(NamedTuple):
    """The data of a figure: months, and numbers or None. `text` is the file's."""

    series: Series
    rows: tuple[tuple[str, int | None], ...]
    text: str

    @property
    def total(self) -> int:
        """Of all numbers."""
        return sum(value for _, value in self.rows if value is not None)


@dataclass(frozen=True)
class Custom:
    """How figures are made. The defaults are those of the sheet."""

    word: str = "Figure"
    numeral: Callable[[int], str] = str
    caption: str = "{title} ({unit})"
    source: str = "{stem}.csv"
    hashed: Callable[[Table], bytes] = lambda table: table.text.encode()
    algorithm: str = "sha256"
    digest: Callable[[str], str] = lambda digits: digits[:12]
    order: Callable[[Table], int | str] | None = None
    full: int = 0
    """What the full height stands for; 0: the largest number."""
    month: Callable[[str, str], str] = lambda year, month: f"{year}-{month}"
    gap: str = ""
    """The class of a bar for an empty cell; without one there is no bar."""
    carry: int = 0
    """How many rows on the number stands that is put into an empty cell; 0: none is."""
    highlight: Callable[[list[int]], int] | None = None
    """Which of the bars is set off, by its place."""
    mark: str = ""
    """The class of that bar."""


_DIGESTS: Mapping[str, tuple[Callable[[str], str], str, str]] = {
    "sha256:0123456789ab": (lambda d: f"sha256:{d[:12]}", "with sha256: in front", '"sha256:" + digits[:12]'),
    "#0123456789ab": (lambda d: f"#{d[:12]}", "with # in front", '"#" + digits[:12]'),
    "0123456789AB": (lambda d: d[:12].upper(), "in capitals", "digits[:12].upper()"),
    "0123-4567-89ab": (
        lambda d: f"{d[:4]}-{d[4:8]}-{d[8:12]}",
        "in groups of four with hyphens",
        '"-".join((digits[:4], digits[4:8], digits[8:12]))',
    ),
}
_CUTS: Mapping[str, tuple[Callable[[str], str], str]] = {
    "the last 12": (lambda d: d[-12:], "digits[-12:]"),
    "the first 8": (lambda d: d[:8], "digits[:8]"),
    "the first 20": (lambda d: d[:20], "digits[:20]"),
    "all 64": (lambda d: d, "digits"),
}
_HASHED: Mapping[str, tuple[Callable[[Table], bytes], str]] = {
    "the file without its first line": (lambda t: t.text.partition("\n")[2].encode(), 'data.partition(b"\\n")[2]'),
    "the file without any line break": (lambda t: t.text.replace("\n", "").encode(), 'data.replace(b"\\n", b"")'),
    "the file's name, a line break and then the file": (
        lambda t: f"{t.series.stem}.csv\n{t.text}".encode(),
        'path.name.encode() + b"\\n" + data',
    ),
    "the file with every comma turned into a semicolon": (
        lambda t: t.text.replace(",", ";").encode(),
        'data.replace(b",", b";")',
    ),
}
_NUMERALS: Mapping[str, tuple[Callable[[int], str], str, str]] = {
    "letters, A first": (lambda n: "ABCD"[n - 1], "A", "'ABCD'[number - 1]"),
    "small letters, a first": (lambda n: "abcd"[n - 1], "a", "'abcd'[number - 1]"),
    "Roman numerals, I first": (lambda n: ROMAN[n - 1], "I", "('I', 'II', 'III', 'IV')[number - 1]"),
    "two digits, 01 first": (lambda n: f"{n:02d}", "01", "f'{number:02d}'"),
    "whole numbers, 0 first": (lambda n: str(n - 1), "0", "number - 1"),
    "number and count, 1/4 first": (lambda n: f"{n}/4", "1/4", "f'{number}/{len(figures)}'"),
}
_ORDERS: Mapping[str, tuple[Callable[[Table], int | str], str]] = {
    "by title, A to Z": (lambda t: t.series.title, "lambda figure: figure[1]"),
    "by the total of their numbers, largest first": (lambda t: -t.total, "lambda figure: -total(figure[0])"),
    "by the total of their numbers, smallest first": (lambda t: t.total, "lambda figure: total(figure[0])"),
}
_MONTHS: Mapping[str, tuple[Callable[[str, str], str], str]] = {
    "Mar 2024": (lambda y, m: f"{MONTHS[int(m) - 1]} {y}", 'date.fromisoformat(month + "-01").strftime("%b %Y")'),
    "03/2024": (lambda y, m: f"{m}/{y}", 'month[5:] + "/" + month[:4]'),
    "03.24": (lambda y, m: f"{m}.{y[2:]}", 'month[5:] + "." + month[2:4]'),
    "2024M03": (lambda y, m: f"{y}M{m}", 'month.replace("-", "M")'),
    "202403": (lambda y, m: f"{y}{m}", 'month.replace("-", "")'),
}
_HIGHLIGHTS: Mapping[str, tuple[Callable[[list[int]], int], str]] = {
    "highest": (lambda heights: heights.index(max(heights)), "max(known)"),
    "lowest": (lambda heights: heights.index(min(heights)), "min(known)"),
    "last": (lambda heights: len(heights) - 1, "known[-1]"),
}


def _highlights(site_config: SiteConfig) -> Sequence[Literals]:
    return [
        {"which": which, "mark": mark, "code": code}
        for which, (_, code) in _HIGHLIGHTS.items()
        for mark in site_config.highlights
    ]


_BAR = (
    'bars.append(f\'<rect x="{30 * place}" y="{200 - height:.1f}" width="20" height="{height:.1f}" '
    'data-label="{label}"%(extra)s/>\')'
)
PLAIN_HEIGHT = """\
if not value:
            continue
        height = int(value) / full * 200"""
PLAIN_BAR = _BAR % {"extra": ""}

CONVENTIONS: Mapping[str, Convention[SiteConfig, Custom]] = {
    "algorithm": Convention(
        ("hashes are made with {name}", "they check files with {name}", "{name} is the hash they can verify"),
        "take the first 12 digits of the {name} hash of each file",
        variants_of("name code", ("MD5", "md5"), ("SHA-1", "sha1"), ("SHA-512", "sha512"), ("SHA3-256", "sha3_256")),
        lambda rule: Custom(algorithm=rule["code"]),
        {"hash": "digits = hashlib.%(code)s(data).hexdigest()"},
    ),
    "cut": Convention(
        ("a hash shows {which} digits", "they compare {which} digits of a hash", "{which} digits of the hash count"),
        "give {which} digits of each SHA-256 hash",
        lambda _: [{"which": which, "code": code} for which, (_, code) in _CUTS.items()],
        lambda rule: Custom(digest=_CUTS[rule["which"]][0]),
        {"digest": "return %(code)s"},
    ),
    "digest": Convention(
        ("hashes are printed {words}", "a hash stands {words}", "they read a hash {words}"),
        "write the hash 0123456789ab as {form}",
        lambda _: [{"form": form, "words": words, "code": code} for form, (_, words, code) in _DIGESTS.items()],
        lambda rule: Custom(digest=_DIGESTS[rule["form"]][0]),
        {"digest": "return %(code)s"},
    ),
    "hashed": Convention(
        ("what is hashed is {what}", "they hash {what}", "the hash is that of {what}"),
        "hash {what}",
        lambda _: [{"what": what, "code": code} for what, (_, code) in _HASHED.items()],
        lambda rule: Custom(hashed=_HASHED[rule["what"]][0]),
        {"data": "data = %(code)s"},
        unseen=True,
    ),
    "word": Convention(
        ('figures are called "{word}"', 'they say "{word}" for a figure', 'a figure goes by the word "{word}"'),
        'write "{word} 1" in place of "Figure 1", and so on',
        one_of("word", "Fig.", "Chart", "Exhibit", "Plate", "Diagram"),
        lambda rule: Custom(word=rule["word"]),
        {"word": "%(word)s"},
    ),
    "numeral": Convention(
        ("figures are numbered with {words}", "they count figures with {words}", "a figure's number is one of {words}"),
        "number the figures with {words}, so that the one at the top is Figure {first}; ids stay fig-1, fig-2 "
        "and so on",
        lambda _: [{"words": words, "first": first, "code": code} for words, (_, first, code) in _NUMERALS.items()],
        lambda rule: Custom(numeral=_NUMERALS[rule["words"]][0]),
        {"numeral": "%(code)s"},
    ),
    "source": Convention(
        ("sources are named {words}", "a source is given {words}", "they look a source up {words}"),
        "name sources {words}, that of data in stock.csv as {example}",
        variants_of(
            "words form code example",
            ("in capitals without ending", "{upper}", "stem.upper()", "STOCK"),
            ("by file name without ending", "{stem}", "stem", "stock"),
            ("with the word file in front", "file {stem}.csv", 'f"file {stem}.csv"', "file stock.csv"),
            ("in angle brackets", "<{stem}.csv>", 'f"<{stem}.csv>"', "<stock.csv>"),
            (
                "with the number of rows",
                "{stem}.csv, {rows} rows",
                'f"{stem}.csv, {len(rows)} rows"',
                "stock.csv, 9 rows (here 9 below the header)",
            ),
        ),
        lambda rule: Custom(source=rule["form"]),
        {"source": "%(code)s"},
    ),
    "unit": Convention(
        ("captions give the unit {words}", "the unit stands {words}", "they expect the unit of a caption {words}"),
        'write the caption "Stock (pieces)" as "{example}"',
        variants_of(
            "words form example",
            ("in square brackets", "{title} [{unit}]", "Stock [pieces]"),
            ("after the word in", "{title} in {unit}", "Stock in pieces"),
            ("after a comma", "{title}, {unit}", "Stock, pieces"),
            ("in front, with a colon", "{unit}: {title}", "pieces: Stock"),
            ("after a slash", "{title} / {unit}", "Stock / pieces"),
        ),
        lambda rule: Custom(caption=rule["form"]),
        {"caption": 'f"%(form)s"'},
    ),
    "order": Convention(
        ("figures are sorted {words}", "they want figures {words}", "the sheet's order gives way: figures go {words}"),
        "sort the figures {words}, then number them from the top",
        lambda _: [{"words": words, "code": code} for words, (_, code) in _ORDERS.items()],
        lambda rule: Custom(order=_ORDERS[rule["words"]][0]),
        {"order": "figures.sort(key=%(code)s)"},
    ),
    "full": Convention(
        (
            "the full height of a picture always stands for {number}",
            "all pictures have one scale, up to {number}",
            "a bar of full height would be {number}",
        ),
        "make the full height of 200 stand for {number} in every figure, not for the largest number",
        one_of("number", 1000, 1200, 1500, 2000, 2500),
        lambda rule: Custom(full=rule["number"]),
        {"full": "full = %(number)d"},
    ),
    "month": Convention(
        (
            "bars are labelled like {example}",
            "a month is written like {example}",
            "{example} is how they write a month",
        ),
        "write the month 2024-03 as {example} in data-label",
        lambda _: [{"example": example, "code": code} for example, (_, code) in _MONTHS.items()],
        lambda rule: Custom(month=_MONTHS[rule["example"]][0]),
        {"label": "label = %(code)s"},
    ),
    "gap": Convention(
        (
            "an empty month is a bar of no height with the class {gap}",
            "months without a number are there too, as {gap}",
            "{gap} is the class of a month without a number",
        ),
        'draw a month without a number as a bar of height 0.0 at y 200.0 with class="{gap}"',
        lambda site_config: [{"gap": gap} for gap in site_config.gaps],
        lambda rule: Custom(gap=rule["gap"]),
        {
            "height": 'height = int(value or 0) / full * 200\n        kind = "" if value else \' class="%(gap)s"\'',
            "bar": _BAR % {"extra": "{kind}"},
        },
    ),
    "carry": Convention(
        (
            "a month without a number gets the number {words}",
            "an empty cell counts as the number {words}",
            "for a missing number they put the one {words}",
        ),
        "draw a month without a number with the number {words}",
        variants_of("words rows", ("of the month before", -1), ("of the month after", 1)),
        lambda rule: Custom(carry=rule["rows"]),
        {"height": "height = int(value or rows[place + %(rows)d][1]) / full * 200"},
        unseen=True,
    ),
    "highlight": Convention(
        (
            "the {which} bar of a figure stands out as {mark}",
            "one bar has the class {mark}, the {which}",
            "{mark} is the class of the {which} bar",
        ),
        'give the {which} bar of every figure class="{mark}"',
        _highlights,
        lambda rule: Custom(highlight=_HIGHLIGHTS[rule["which"]][0], mark=rule["mark"]),
        {
            "height": PLAIN_HEIGHT + '\n        kind = \' class="%(mark)s"\' if int(value) == %(code)s else ""',
            "bar": _BAR % {"extra": "{kind}"},
        },
        unseen=True,
    ),
}


def digits_of(table: Table, custom: Custom) -> str:
    """The hash of a table's file, as it is printed."""
    return custom.digest(hashlib.new(custom.algorithm, custom.hashed(table)).hexdigest())
