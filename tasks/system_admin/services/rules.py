"""The conventions by which a site may want its units changed: the change that each requires."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from hermes_lab.tasks.family import Rule
from hermes_lab.tasks.rules import Behavior, Literals, load_conventions, rule_types


@dataclass(frozen=True)
class SiteConfig:
    """The units of a service and their settings."""

    unit: str
    helpers: tuple[str, ...]
    """The other units of the service."""
    numbers: tuple[str, ...]
    texts: tuple[str, ...]
    """Assignments: `LANG=en_GB`."""
    serial: str
    tickets: str

    @property
    def units(self) -> tuple[str, ...]:
        """All of them."""
        return (self.unit, *self.helpers)


class Step(NamedTuple):
    """One call of the controller within a change."""

    verb: str
    unit: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Wish:
    """What a ticket asks for."""

    ticket: str
    unit: str
    key: str
    value: int
    serial: tuple[str, int]
    """The key that counts the versions of the settings, and its present value."""


@dataclass(frozen=True)
class Change:
    """The change that has to be made."""

    lines: tuple[str, str]
    """The assignments of the key and of the serial in the settings file."""
    steps: tuple[Step, ...]
    """What is done to units, in this order."""
    by: str = ""
    result: str = "done"


Apply = Callable[[Change, Wish, Literals], Change]
Steps = Callable[[Wish, Literals], Sequence[Step]]


def planned(wish: Wish, rule: Rule | None) -> Change:
    """The right change under `rule`."""
    serial, number = wish.serial
    plain = Change((f"{wish.key}={wish.value}", f"{serial}={number}"), (Step("reload", wish.unit),))
    return CONVENTIONS[rule.type].apply(plain, wish, dict(rule.literals)) if rule else plain


def _option(name: str, value: Callable[[Wish, Literals], str]) -> Apply:
    """The reload takes an option."""
    return lambda plain, wish, rule: replace(plain, steps=(Step("reload", wish.unit, ((name, value(wish, rule)),)),))


def _around(before: Steps | None = None, after: Steps | None = None) -> Apply:
    """Steps before and after the reload."""

    def change(plain: Change, wish: Wish, rule: Literals) -> Change:
        first, last = (steps(wish, rule) if steps else () for steps in (before, after))
        return replace(plain, steps=(*first, *plain.steps, *last))

    return change


def _line(form: Callable[[Wish, Literals], str]) -> Apply:
    """The setting is written in another form."""
    return lambda plain, wish, rule: replace(plain, lines=(form(wish, rule), plain.lines[1]))


def _reason(wish: Wish, rule: Literals) -> str:
    desk, number = wish.ticket.split("-")
    return str(rule["written"]).format(desk=desk, small=desk.lower(), number=number)


_BEHAVIORS: Mapping[str, Behavior[SiteConfig, Apply]] = {
    "verb": Behavior(lambda plain, wish, rule: replace(plain, steps=(Step(rule["verb"], wish.unit),))),
    "before": Behavior(_around(before=lambda wish, rule: [Step("reload", rule["helper"])])),
    "after": Behavior(_around(after=lambda wish, rule: [Step("reload", rule["helper"])])),
    "grace": Behavior(_option("grace", lambda wish, rule: rule["time"])),
    "reason": Behavior(_option("reason", _reason)),
    "instance": Behavior(
        lambda plain, wish, rule: replace(plain, steps=(Step("reload", f"{wish.unit}@{rule['instance']}"),))
    ),
    "number": Behavior(_line(lambda wish, rule: f"{wish.key}={rule['written'].format(n=wish.value)}")),
    "serial": Behavior(
        lambda plain, wish, rule: replace(
            plain, lines=(plain.lines[0], f"{wish.serial[0]}={wish.serial[1] + rule['by']}")
        )
    ),
    "probe": Behavior(_around(before=lambda wish, rule: [Step("probe", wish.unit)] * rule["count"])),
    "hold": Behavior(
        _around(
            before=lambda wish, rule: [Step("hold", rule["held"])],
            after=lambda wish, rule: [Step("release", rule["held"])],
        )
    ),
    "answerable": Behavior(lambda plain, wish, rule: replace(plain, by=rule["role"])),
    "tag": Behavior(_around(after=lambda wish, rule: [Step("tag", wish.unit, (("word", rule["word"]),))])),
    "wait": Behavior(_option("wait", lambda wish, rule: str(rule["count"]))),
    "result": Behavior(lambda plain, wish, rule: replace(plain, result=rule["word"])),
    "export": Behavior(_line(lambda wish, rule: f"{rule['word']} {wish.key}={wish.value}")),
}
CONVENTIONS = load_conventions(__file__, _BEHAVIORS)
RULES = rule_types(CONVENTIONS)
