"""How a house may want its drop-ins: what each convention makes of the plain one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hermes_lab.tasks.family import Rule
from hermes_lab.tasks.rules import Behavior, Literals, load_conventions, rule_types


@dataclass(frozen=True)
class Wish:
    """What a ticket asks for."""

    ticket: str
    name: str
    number: int
    """The next one: a multiple of ten."""
    count: tuple[str, int]
    seconds: tuple[str, int]
    switch: tuple[str, bool]


@dataclass(frozen=True)
class DropIn:
    """The drop-in that has to be added."""

    file: str
    lines: tuple[str, ...]
    """Sections first; then assignments, whose order matters only among those of one key."""
    mode: str = ""
    """Empty: whatever main.conf allows."""
    enabled: str = ""
    """A folder next to that of the drop-ins, with a relative link to the drop-in."""


Apply = Callable[[DropIn, Wish, Literals], DropIn]


def wanted(wish: Wish, rule: Rule | None) -> DropIn:
    """The right drop-in under `rule`; without one, it is like the others."""
    plain = DropIn(
        file=f"{wish.number}-{wish.name}.conf",
        lines=(
            f"{wish.count[0]} = {wish.count[1]}",
            f"{wish.seconds[0]} = {wish.seconds[1]}",
            f"{wish.switch[0]} = {'on' if wish.switch[1] else 'off'}",
        ),
    )
    return CONVENTIONS[rule.type].apply(plain, wish, dict(rule.literals)) if rule else plain


def _named(form: str) -> Apply:
    """The file name, as a format string over `wish` and `rule`."""
    return lambda plain, wish, rule: replace(plain, file=form.format(wish=wish, rule=rule))


def _value(key: Callable[[Wish], str], form: Callable[[Wish, Literals], str]) -> Apply:
    """The assignment of one key takes another form."""

    def changed(plain: DropIn, wish: Wish, rule: Literals) -> DropIn:
        start = f"{key(wish)} = "
        lines = (f"{start}{form(wish, rule)}" if line.startswith(start) else line for line in plain.lines)
        return replace(plain, lines=tuple(lines))

    return changed


def _each(form: Callable[[str, str, Literals], tuple[str, ...]]) -> Apply:
    """Every assignment becomes other lines."""

    def changed(plain: DropIn, _: Wish, rule: Literals) -> DropIn:
        split = (line.split(" = ") for line in plain.lines)
        return replace(plain, lines=tuple(new for key, value in split for new in form(key, value, rule)))

    return changed


def _time(wish: Wish, rule: Literals) -> str:
    t = wish.seconds[1]
    return str(rule["written"]).format(t=t, milliseconds=1000 * t, minutes=t // 60, rest=t % 60, tenths=10 * t)


_BEHAVIORS: Mapping[str, Behavior[Any, Apply]] = {
    "begin": Behavior(_named("{rule[number]}-{wish.name}.conf")),
    "digits": Behavior(_named("{wish.number:0{rule[digits]}}-{wish.name}.conf")),
    "joint": Behavior(_named("{wish.number}{rule[joint]}{wish.name}.conf")),
    "ending": Behavior(_named("{wish.number}-{wish.name}.{rule[ending]}")),
    "mode": Behavior(lambda plain, wish, rule: replace(plain, mode=rule["mode"].lstrip("0"))),
    "time": Behavior(_value(lambda wish: wish.seconds[0], _time)),
    "switch": Behavior(
        _value(lambda wish: wish.switch[0], lambda wish, rule: rule["on" if wish.switch[1] else "off"]),
    ),
    "ticket": Behavior(
        lambda plain, wish, rule: replace(plain, lines=(*plain.lines, f"{rule['key']} = {wish.ticket}"))
    ),
    "enabled": Behavior(lambda plain, wish, rule: replace(plain, enabled=rule["folder"])),
    "count": Behavior(
        _value(lambda wish: wish.count[0], lambda wish, rule: rule["written"].format(n=wish.count[1])),
    ),
    "quote": Behavior(_each(lambda key, value, rule: (f"{key} = {rule['mark']}{value}{rule['mark']}",))),
    "prefix": Behavior(_each(lambda key, value, rule: (f"{rule['prefix']}{key} = {value}",))),
    "section": Behavior(lambda plain, wish, rule: replace(plain, lines=(f"[{rule['section']}]", *plain.lines))),
    "reset": Behavior(
        _each(lambda key, value, rule: (rule["reset"].replace("KEY", key), f"{key} = {value}")),
    ),
}
CONVENTIONS = load_conventions(__file__, _BEHAVIORS)
RULES = rule_types(CONVENTIONS)
