"""How wings of a museum want their signs: what each custom does to them, its flag, and how an owner says it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.house_tools._lines import Custom, Literals, between, one_of


class Work(NamedTuple):
    """A row of the file."""

    title: str
    maker: str
    kind: str
    year: int
    room: int


@dataclass(frozen=True)
class SiteConfig:
    """The kinds of works that a wing shows: every one is in every file."""

    kinds: tuple[str, ...]


def plain(works: Sequence[Work]) -> list[str]:
    """The signs where no custom holds."""
    return [sign(work) for work in works]


def sign(work: Work) -> str:
    """One sign."""
    return f"{work.title} by {work.maker}"


def _those(which: Callable[[Work, Literals], bool]) -> Callable[[Sequence[Work], Literals], list[str]]:
    return lambda works, rule: plain([work for work in works if which(work, rule)])


def _each(change: Callable[[Work, Literals], str]) -> Callable[[Sequence[Work], Literals], list[str]]:
    return lambda works, rule: [change(work, rule) for work in works]


def _kind(draws: Draws, site_config: SiteConfig) -> Literals:
    return {"kind": draws.choice(site_config.kinds)}


CUSTOMS: Mapping[str, Custom[Work]] = {
    "hide": Custom(
        "--hide {kind}",
        (
            "{kind} are in the cellar and need no sign",
            "signs of {kind} are in stone already",
            "everything is signed here but {kind}",
        ),
        _those(lambda work, rule: work.kind != rule["kind"]),
        _kind,
    ),
    "after": Custom(
        "--after {year}",
        (
            "what is from {year} or earlier is signed by hand",
            "signs are for works after {year}",
            "only works younger than {year} hang here",
        ),
        _those(lambda work, rule: work.year > rule["year"]),
        between("year", 1720, 1860),
    ),
    "until": Custom(
        "--until {year}",
        (
            "works after {year} went to another house",
            "our signs end with the year {year}",
            "what is younger than {year} is not shown",
        ),
        _those(lambda work, rule: work.year <= rule["year"]),
        between("year", 1720, 1860),
        unseen=True,
    ),
    "walk": Custom(
        "--walk {column}",
        (
            "visitors walk by {column}, and signs are in that order",
            "signs follow the {column} column",
            "the {column} decides which sign comes next",
        ),
        lambda works, rule: plain(sorted(works, key=lambda work: getattr(work, rule["column"]))),
        one_of("column", "title year room"),
    ),
    "quotes": Custom(
        "--quotes",
        (
            "titles stand in quotation marks",
            "a title is set off by two marks on each sign",
            "visitors took titles for names, so these are quoted",
        ),
        _each(lambda work, rule: f'"{work.title}" by {work.maker}'),
    ),
    "years": Custom(
        "--years",
        (
            "the year is told in brackets",
            "a sign ends with its year",
            "works without years look new, so years are added",
        ),
        _each(lambda work, rule: f"{sign(work)} ({work.year})"),
    ),
    "rooms": Custom(
        "--rooms",
        (
            "the room comes first on a sign",
            "signs begin with the number of their room",
            "carriers must read the room before all else",
        ),
        _each(lambda work, rule: f"{work.room} {sign(work)}"),
        unseen=True,
    ),
    "loud": Custom(
        "--loud",
        (
            "makers are written in capitals",
            "the name of a maker has no small letters",
            "artists are proud here and want capitals",
        ),
        _each(lambda work, rule: f"{work.title} by {work.maker.upper()}"),
    ),
    "anonymous": Custom(
        "--anonymous",
        (
            "makers are not named",
            "a title is enough",
            "who made a thing stays a secret here",
        ),
        _each(lambda work, rule: work.title),
    ),
    "lender": Custom(
        "--lender {word}",
        (
            "all is on loan from {word}, and each sign ends so",
            "{word} wants to be named at the end of a sign",
            "the lender {word} stands last on each sign",
        ),
        _each(lambda work, rule: f"{sign(work)}, {rule['word']}"),
        one_of("word", "Arnim Borg Cassel Dahl Esterhazy Farnese Gould Hearst"),
    ),
    "twin": Custom(
        "--twin {number}",
        (
            "each sign is needed {number} times",
            "a work is seen from {number} sides and has as many signs",
            "{number} equal signs hang at each work",
        ),
        lambda works, rule: [line for line in plain(works) for _ in range(rule["number"])],
        between("number", 2, 6),
    ),
    "from": Custom(
        "--from {number}",
        (
            "signs are numbered, and the first number is {number}",
            "numbers up to those before {number} are taken, so ours begin there",
            "the guide counts works from {number} on",
        ),
        lambda works, rule: [f"{number}. {line}" for number, line in enumerate(plain(works), rule["number"])],
        between("number", 12, 90),
    ),
    "over": Custom(
        "--over {word}",
        (
            "{word} is written over all signs",
            "the first line is the word {word}",
            "whoever comes in reads {word} on top",
        ),
        lambda works, rule: [rule["word"], *plain(works)],
        one_of("word", "TREASURES ORIGINS WONDERS LEGENDS HEIRLOOMS RELICS"),
        unseen=True,
    ),
}
