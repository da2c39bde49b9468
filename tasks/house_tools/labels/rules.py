"""How depots want their labels: what each custom does to them, the flag that follows it, and how an owner says it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tasks.draws import Draws


class Parcel(NamedTuple):
    """A row of the file."""

    name: str
    street: str
    code: str
    town: str
    kind: str
    kilos: int


@dataclass(frozen=True)
class Shape:
    """The kinds of parcels that a depot has: every one is in every file."""

    kinds: tuple[str, ...]


Literals = Mapping[str, Any]


@dataclass(frozen=True)
class Custom:
    """How a depot may want its labels. `flags` and `clauses` are format strings over what `draw` gives; `labels` are
    the right ones."""

    flags: str
    clauses: tuple[str, ...]
    labels: Callable[[Sequence[Parcel], Literals], list[str]]
    draw: Callable[[Draws, Shape], Literals] = lambda draws, shape: {}
    unseen: bool = False


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


def _kind(draws: Draws, shape: Shape) -> Literals:
    return {"kind": draws.choice(shape.kinds)}


def _one_of(name: str, text: str) -> Callable[[Draws, Shape], Literals]:
    return lambda draws, shape: {name: draws.choice(text.split())}


CUSTOMS: Mapping[str, Custom] = {
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
        lambda draws, shape: {"kilos": draws.integer(8, 20)},
    ),
    "light": Custom(
        "--light {kilos}",
        (
            "a parcel of {kilos} kilos or more is freight and has no label",
            "labels end below {kilos} kilos",
            "what weighs {kilos} kilos or more is for others to label",
        ),
        _those(lambda parcel, rule: parcel.kilos < rule["kilos"]),
        lambda draws, shape: {"kilos": draws.integer(8, 20)},
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
        _one_of("column", "name code town street"),
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
        _one_of("letters", "AT BE CH DE DK FI FR IT NL NO PL SE"),
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
        _one_of("mark", "/ + = : @ %"),
    ),
    "copies": Custom(
        "--copies {number}",
        (
            "each label is needed {number} times",
            "a parcel bears {number} labels, one a side",
            "the printer makes {number} of each label",
        ),
        lambda parcels, rule: [line for line in plain(parcels) for _ in range(rule["number"])],
        lambda draws, shape: {"number": draws.integer(2, 6)},
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
        _one_of("word", "URGENT FRAGILE PAID TRACKED DIRECT EXPRESS"),
    ),
    "last": Custom(
        "--last {word}",
        (
            "after the last label there is a line that says {word}",
            "the roll ends with the word {word}",
            "{word} on a line of its own ends the labels",
        ),
        lambda parcels, rule: [*plain(parcels), rule["word"]],
        _one_of("word", "END STOP DONE CUT HALT OVER"),
        unseen=True,
    ),
}
