"""How a house may want its drop-ins: what each convention makes of the plain one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Rule, RuleType


@dataclass(frozen=True)
class Wish:
    """What a ticket asks for."""

    ticket: str
    name: str
    number: int
    """The next one: a full ten."""
    count: tuple[str, int]
    seconds: tuple[str, int]
    switch: tuple[str, bool]


@dataclass(frozen=True)
class DropIn:
    """A drop-in as it has to lie there."""

    file: str
    lines: tuple[str, ...]
    """Sections first; then assignments, in an order that matters only between those of one key."""
    mode: str = ""
    """Empty: whatever main.conf allows."""
    enabled: str = ""
    """A folder beside that of the drop-ins, in which a relative link to it lies."""


Draw = Callable[[Draws, Any], Mapping[str, Any]]
Change = Callable[[DropIn, Wish, Mapping[str, Any]], DropIn]


@dataclass(frozen=True)
class Convention:
    """`instruction` and `paraphrases` are format strings over the literals; `changed` makes of the plain drop-in what
    they ask for."""

    instruction: str
    paraphrases: tuple[str, ...]
    draw: Draw
    changed: Change
    unseen: bool = False


def plain(wish: Wish) -> DropIn:
    """What lies there where nothing special holds: as the others are."""
    return DropIn(
        file=f"{wish.number}-{wish.name}.conf",
        lines=(
            f"{wish.count[0]} = {wish.count[1]}",
            f"{wish.seconds[0]} = {wish.seconds[1]}",
            f"{wish.switch[0]} = {'on' if wish.switch[1] else 'off'}",
        ),
    )


def wanted(wish: Wish, rule: Rule | None) -> DropIn:
    """What has to lie there where `rule` holds."""
    if rule is None:
        return plain(wish)
    return CONVENTIONS[rule.type].changed(plain(wish), wish, dict(rule.literals))


def _one_of(name: str, *values: Any) -> Draw:
    return lambda draws, site_config: {name: draws.choice(values)}


def _words_of(first: str, second: str, pairs: Sequence[tuple[str, str]]) -> Draw:
    return lambda draws, site_config: dict(zip((first, second), draws.choice(pairs), strict=True))


def _named(form: Callable[[Wish, Mapping[str, Any]], str]) -> Change:
    return lambda plain, wish, rule: replace(plain, file=form(wish, rule))


def _value(key: Callable[[Wish], str], form: Callable[[Wish, Mapping[str, Any]], str]) -> Change:
    """The assignment of one key takes another form."""

    def changed(plain: DropIn, wish: Wish, rule: Mapping[str, Any]) -> DropIn:
        start = f"{key(wish)} = "
        lines = (f"{start}{form(wish, rule)}" if line.startswith(start) else line for line in plain.lines)
        return replace(plain, lines=tuple(lines))

    return changed


def _each(form: Callable[[str, str, Mapping[str, Any]], tuple[str, ...]]) -> Change:
    """Every assignment becomes other lines."""

    def changed(plain: DropIn, _: Wish, rule: Mapping[str, Any]) -> DropIn:
        split = (line.split(" = ") for line in plain.lines)
        return replace(plain, lines=tuple(new for key, value in split for new in form(key, value, rule)))

    return changed


_TIMES: Mapping[str, Callable[[int], str]] = {
    "milliseconds, such as 45000 for 45 seconds": lambda t: str(1000 * t),
    "seconds with an s behind, such as 45s": lambda t: f"{t}s",
    "the form PT45S": lambda t: f"PT{t}S",
    "minutes and seconds, such as 0:45": lambda t: f"{t // 60}:{t % 60:02}",
    "tenths of a second, such as 450 for 45 seconds": lambda t: str(10 * t),
}
_COUNTS: Mapping[str, Callable[[int], str]] = {
    "five digits with zeros in front, such as 00120 for 120": lambda n: f"{n:05}",
    "hexadecimal, such as 0x78 for 120": lambda n: f"{n:#x}",
    "octal with a zero in front, such as 0170 for 120": lambda n: f"0{n:o}",
    "a number with its sign, such as +120": lambda n: f"+{n}",
}

CONVENTIONS: Mapping[str, Convention] = {
    "begin": Convention(
        "give the drop-in the number {number} and not the next one",
        (
            "drop-ins of our own all have the number {number}, the lower ones are the vendor's",
            "the service reads a drop-in of ours only under the number {number}",
            "{number} is the number that is kept for local drop-ins",
        ),
        _one_of("number", 60, 65, 70, 75, 80, 85, 90, 95),
        _named(lambda wish, rule: f"{rule['number']}-{wish.name}.conf"),
    ),
    "digits": Convention(
        "write the number of the drop-in with {digits} digits, zeros in front",
        (
            "numbers of new drop-ins have {digits} digits",
            "the loader skips a new drop-in unless its number has {digits} digits",
            "new drop-ins are counted with {digits} digits, whatever the old ones have",
        ),
        _one_of("digits", 3, 4, 5, 6),
        _named(lambda wish, rule: f"{wish.number:0{rule['digits']}}-{wish.name}.conf"),
    ),
    "joint": Convention(
        "put {joint} between the number and the name of the drop-in, instead of the hyphen",
        (
            "number and name of a local drop-in are joined by {joint}",
            "a hyphen after the number marks the vendor's drop-ins, ours have {joint}",
            "the sync job keeps only drop-ins with {joint} after the number",
        ),
        _one_of("joint", "_", ".", "+", "--", "~"),
        _named(lambda wish, rule: f"{wish.number}{rule['joint']}{wish.name}.conf"),
    ),
    "ending": Convention(
        "end the file name of the drop-in in .{ending} instead of .conf",
        (
            "drop-ins of this house end in .{ending}",
            "what ends in .conf belongs to the package, local drop-ins end in .{ending}",
            "a new drop-in counts only if its file name ends in .{ending}",
        ),
        _one_of("ending", "local", "cfg", "site", "override", "host"),
        _named(lambda wish, rule: f"{wish.number}-{wish.name}.{rule['ending']}"),
    ),
    "mode": Convention(
        "give the drop-in the mode {mode}",
        (
            "a new drop-in is skipped unless its mode is {mode}",
            "the mode of drop-ins that we add is {mode}",
            "auditors want mode {mode} on every drop-in that is not the vendor's",
        ),
        _one_of("mode", "0600", "0640", "0440", "0400", "0444", "0660"),
        lambda plain, wish, rule: replace(plain, mode=rule["mode"].lstrip("0")),
    ),
    "time": Convention(
        "write times in the drop-in as {form}",
        (
            "times in drop-ins are given as {form}",
            "drop-ins are parsed by another reader, which takes times as {form}",
            "the service takes a time from a drop-in only as {form}",
        ),
        _one_of("form", *_TIMES),
        _value(lambda wish: wish.seconds[0], lambda wish, rule: _TIMES[rule["form"]](wish.seconds[1])),
    ),
    "switch": Convention(
        "write switches in the drop-in as {on} or {off} instead of on or off",
        (
            "in drop-ins a switch says {on} or {off}",
            "our drop-ins know {on} and {off} for switches, nothing else",
            "a switch in a drop-in is read as {on} or {off} and otherwise ignored",
        ),
        _words_of("on", "off", (("yes", "no"), ("true", "false"), ("1", "0"), ("enabled", "disabled"), ("ON", "OFF"))),
        _value(lambda wish: wish.switch[0], lambda wish, rule: rule["on" if wish.switch[1] else "off"]),
    ),
    "ticket": Convention(
        "add a line {key} = TICKET to the drop-in, with the number of the ticket",
        (
            "a drop-in names its ticket in the setting {key}",
            "no drop-in is read that does not say under {key} which ticket it comes from",
            "the setting {key} of a drop-in holds the ticket behind it",
        ),
        _one_of("key", "ticket", "change_id", "reason", "origin", "approved_by"),
        lambda plain, wish, rule: replace(plain, lines=(*plain.lines, f"{rule['key']} = {wish.ticket}")),
    ),
    "enabled": Convention(
        "link the drop-in from the folder {folder} beside that of the drop-ins, under the same name, by a relative "
        "link",
        (
            "a drop-in is read only if a link in the folder {folder} points to it",
            "drop-ins are switched on by a link in the folder {folder}",
            "the folder {folder} holds links to the drop-ins that we have added",
        ),
        _one_of("folder", "enabled", "active", "live", "wants"),
        lambda plain, wish, rule: replace(plain, enabled=rule["folder"]),
    ),
    "count": Convention(
        "write whole numbers of things in the drop-in as {form}",
        (
            "counts in drop-ins are given as {form}",
            "a count in a drop-in is read only as {form}",
            "this house has its counts in drop-ins as {form}",
        ),
        _one_of("form", *_COUNTS),
        _value(lambda wish: wish.count[0], lambda wish, rule: _COUNTS[rule["form"]](wish.count[1])),
    ),
    "quote": Convention(
        "put every value in the drop-in between {name} quotes",
        (
            "values in drop-ins stand between {name} quotes",
            "a value in a drop-in that has no {name} quotes around it is dropped",
            "what follows the equals sign in a drop-in is quoted with {name} quotes",
        ),
        _words_of("name", "mark", (("double", '"'), ("single", "'"), ("back", "`"))),
        _each(lambda key, value, rule: (f"{key} = {rule['mark']}{value}{rule['mark']}",)),
        unseen=True,
    ),
    "prefix": Convention(
        "write {prefix} in front of every key in the drop-in, without a space",
        (
            "keys in local drop-ins begin with {prefix}",
            "a key without {prefix} in front is the vendor's and not ours to set",
            "drop-ins set the keys under {prefix} only",
        ),
        _one_of("prefix", "local.", "site.", "x-", "host:", "our_"),
        _each(lambda key, value, rule: (f"{rule['prefix']}{key} = {value}",)),
        unseen=True,
    ),
    "section": Convention(
        "begin the drop-in with the line [{section}]",
        (
            "the settings of a drop-in stand below [{section}]",
            "a drop-in without [{section}] at its head sets nothing",
            "new drop-ins open the section [{section}]",
        ),
        _one_of("section", "daemon", "local", "override", "runtime"),
        lambda plain, wish, rule: replace(plain, lines=(f"[{rule['section']}]", *plain.lines)),
        unseen=True,
    ),
    "reset": Convention(
        "write the line {reset} before each setting in the drop-in, with the key of that setting for KEY",
        (
            "settings add to the earlier ones unless {reset} comes before",
            "a drop-in has to say {reset} before it sets a key anew",
            "{reset} in front of each setting clears what the drop-ins before have set",
        ),
        _one_of("reset", "KEY =", "unset KEY", "!KEY", "clear KEY"),
        _each(lambda key, value, rule: (rule["reset"].replace("KEY", key), f"{key} = {value}")),
        unseen=True,
    ),
}

RULES = {
    name: RuleType(each.paraphrases, each.instruction, each.draw, each.unseen) for name, each in CONVENTIONS.items()
}
