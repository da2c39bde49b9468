"""How depots want their labels: what each custom does to them, the flag that follows it, and how an owner says it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.house_tools._lines import Custom, Literals, between, one_of


class Parcel(NamedTuple):
    """A row of the file."""

    name: str
    street: str
    code: str
    town: str
    kind: str
    kilos: int


@dataclass(frozen=True)
class SiteConfig:
    """The kinds of parcels that a depot has: every one is in every file."""

    kinds: tuple[str, ...]


def plain(parcels: Sequence[Parcel]) -> list[str]:
    """The labels where no custom holds."""
    return [label(parcel) for parcel in parcels]


def label(parcel: Parcel, join: str = ", ") -> str:
    """One label."""
    return join.join((parcel.name, parcel.street, f"{parcel.code} {parcel.town}"))


def _those(which: Callable[[Parcel, Literals], bool]) -> Callable[[Sequence[Parcel], Literals], list[str]]:
    return lambda parcels, rule: plain([parcel for parcel in parcels if which(parcel, rule)])


def _each(change: Callable[[Parcel, Literals], str]) -> Callable[[Sequence[Parcel], Literals], list[str]]:
    return lambda parcels, rule: [change(parcel, rule) for parcel in parcels]


def _kind(draws: Draws, site_config: SiteConfig) -> Literals:
    return {"kind": draws.choice(site_config.kinds)}


CUSTOMS: Mapping[str, Custom[Parcel]] = {
    "only": Custom(
        "--only {kind}",
        (
            "labels are for {kind} parcels alone",
            "only {kind} parcels get a label",
            "the printer is there for {kind} parcels and no others",
        ),
        _those(lambda parcel, rule: parcel.kind == rule["kind"]),
        _kind,
    ),
    "skip": Custom(
        "--skip {kind}",
        (
            "{kind} parcels go without a label",
            "a parcel of the kind {kind} has its label already",
            "{kind} parcels are left out",
        ),
        _those(lambda parcel, rule: parcel.kind != rule["kind"]),
        _kind,
    ),
    "heavy": Custom(
        "--heavy {kilos}",
        (
            "a parcel below {kilos} kilos is a letter and has no label",
            "labels begin at {kilos} kilos",
            "what weighs less than {kilos} kilos goes without",
        ),
        _those(lambda parcel, rule: parcel.kilos >= rule["kilos"]),
        between("kilos", 8, 20),
    ),
    "light": Custom(
        "--light {kilos}",
        (
            "a parcel of {kilos} kilos or more is freight and has no label",
            "labels end below {kilos} kilos",
            "what weighs {kilos} kilos or more is for others to label",
        ),
        _those(lambda parcel, rule: parcel.kilos < rule["kilos"]),
        between("kilos", 8, 20),
        unseen=True,
    ),
    "sort": Custom(
        "--sort {column}",
        (
            "the van is loaded by {column}, and labels are in that order",
            "labels are sorted by {column}",
            "labels come in the order of the {column} column",
        ),
        lambda parcels, rule: plain(sorted(parcels, key=lambda parcel: str(getattr(parcel, rule["column"])))),
        one_of("column", "name code town street"),
    ),
    "reverse": Custom(
        "--reverse",
        (
            "labels are stuck on from the last parcel to the first",
            "the last parcel's label comes first",
            "the roll is printed backwards",
        ),
        lambda parcels, rule: plain(parcels)[::-1],
    ),
    "caps": Custom(
        "--caps",
        (
            "names on labels are in capitals",
            "a name is read by machine, in capitals alone",
            "small letters in a name are not read",
        ),
        _each(lambda parcel, rule: label(parcel._replace(name=parcel.name.upper()))),
    ),
    "country": Custom(
        "--country {letters}",
        (
            "codes begin with {letters} and a hyphen",
            "the letters {letters} stand before a code",
            "a code without {letters} in front comes back",
        ),
        _each(lambda parcel, rule: label(parcel._replace(code=f"{rule['letters']}-{parcel.code}"))),
        one_of("letters", "AT BE CH DE DK FI FR IT NL NO PL SE"),
    ),
    "weight": Custom(
        "--weight",
        (
            "the weight stands at the end of a label",
            "carriers want the kilos on the label",
            "a label without its weight is refused",
        ),
        _each(lambda parcel, rule: f"{label(parcel)}, {parcel.kilos} kg"),
        unseen=True,
    ),
    "join": Custom(
        "--join {mark}",
        (
            "the parts of a label are held together by {mark} alone",
            "{mark} stands between the parts of a label",
            "a scanner parts a label at {mark}",
        ),
        _each(lambda parcel, rule: label(parcel, rule["mark"])),
        one_of("mark", "/ + = : @ %"),
    ),
    "copies": Custom(
        "--copies {number}",
        (
            "each label is needed {number} times",
            "a parcel bears {number} labels, one a side",
            "the printer makes {number} of each label",
        ),
        lambda parcels, rule: [line for line in plain(parcels) for _ in range(rule["number"])],
        between("number", 2, 6),
    ),
    "number": Custom(
        "--number",
        (
            "labels are numbered",
            "a label begins with its number",
            "the driver calls parcels by their numbers",
        ),
        lambda parcels, rule: [f"{n}. {line}" for n, line in enumerate(plain(parcels), 1)],
    ),
    "mark": Custom(
        "--mark {word}",
        (
            "each label begins with the word {word}",
            "{word} stands at the front of each label",
            "carriers look for {word} before the name",
        ),
        _each(lambda parcel, rule: f"{rule['word']} {label(parcel)}"),
        one_of("word", "URGENT FRAGILE PAID TRACKED DIRECT EXPRESS"),
    ),
    "last": Custom(
        "--last {word}",
        (
            "after the last label there is a line that says {word}",
            "the roll ends with the word {word}",
            "{word} on a line of its own ends the labels",
        ),
        lambda parcels, rule: [*plain(parcels), rule["word"]],
        one_of("word", "END STOP DONE CUT HALT OVER"),
        unseen=True,
    ),
}
