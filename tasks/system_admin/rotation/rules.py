"""How a house may rotate its logs: what each convention makes of the plain rotation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from hermes_lab.tasks.family import Rule
from hermes_lab.tasks.rules import Behavior, Literals, load_conventions, rule_types


class Old(NamedTuple):
    """A rotated log: its path in the folder of the logs, and its content."""

    name: str
    text: str
    mode: str
    zipped: bool = False


@dataclass(frozen=True)
class Before:
    """A log before the rotation."""

    log: str
    """Its file name: `access.log`."""
    text: str
    olds: tuple[str, ...]
    """The contents of `access.log.1` and so on: as many as are kept."""
    mode: str
    date: tuple[int, int, int]
    """Year, month and day."""


@dataclass(frozen=True)
class After:
    """A log after the rotation."""

    head: str
    """The first content of the new log."""
    olds: tuple[Old, ...]
    """The newest first."""
    in_place: bool = False
    """Whether the log is still the file that the writer holds open."""
    note: tuple[str, str] | None = None
    """A further file in the folder of the logs: its name and content."""
    flag: str = ""
    """An empty file next to the one that the writer holds open."""


Apply = Callable[[After, Before, Literals], After]


def rotated(before: Before, rule: Rule | None) -> After:
    """The right outcome under `rule`."""
    olds = (before.text, *before.olds)[: len(before.olds)]
    plain = After("", tuple(Old(f"{before.log}.{n}", text, before.mode) for n, text in enumerate(olds, 1)))
    return CONVENTIONS[rule.type].apply(plain, before, dict(rule.literals)) if rule else plain


def _olds(change: Callable[[Old, int, Before, Literals], Mapping[str, Any]]) -> Apply:
    """Every rotated log changes, by its number."""

    def changed(plain: After, before: Before, rule: Literals) -> After:
        olds = (old._replace(**change(old, n, before, rule)) for n, old in enumerate(plain.olds, 1))
        return replace(plain, olds=tuple(olds))

    return changed


def _day(before: Before, form: str) -> str:
    year, month, day = before.date
    for word, value in (("YYYY", f"{year}"), ("YY", f"{year % 100:02}"), ("MM", f"{month:02}"), ("DD", f"{day:02}")):
        form = form.replace(word, value)
    return form


def _counted(plain: After, before: Before, rule: Literals) -> After:
    number = before.text.count("\n") if rule["unit"] == "lines" else len(before.text)
    return replace(plain, note=(rule["file"], f"{number}\n"))


_BEHAVIORS: Mapping[str, Behavior[Any, Apply]] = {
    "in_place": Behavior(lambda plain, before, rule: replace(plain, in_place=True)),
    "dated": Behavior(
        _olds(
            lambda old, n, before, rule: {
                "name": f"{before.log}{_day(before, rule['form']) if n == 1 else f'.{n - 1}'}"
            }
        )
    ),
    "padded": Behavior(_olds(lambda old, n, before, rule: {"name": f"{before.log}.{n:0{rule['digits']}}"})),
    "first": Behavior(_olds(lambda old, n, before, rule: {"name": f"{before.log}.{n - 1 + rule['first']}"})),
    "keep": Behavior(lambda plain, before, rule: replace(plain, olds=plain.olds[: rule["kept"]])),
    "zipped": Behavior(
        _olds(lambda old, n, before, rule: {"name": f"{old.name}.gz", "zipped": True} if n >= rule["first"] else {})
    ),
    "mode": Behavior(_olds(lambda old, n, before, rule: {"mode": rule["mode"].lstrip("0")})),
    "folder": Behavior(_olds(lambda old, n, before, rule: {"name": f"{rule['folder']}/{old.name}"})),
    "opened": Behavior(lambda plain, before, rule: replace(plain, head=f"{_day(before, rule['form'])}\n")),
    "flag": Behavior(lambda plain, before, rule: replace(plain, flag=rule["flag"])),
    "inside": Behavior(
        _olds(lambda old, n, before, rule: {"name": f"{before.log.removesuffix('.log')}{rule['mark']}{n}.log"})
    ),
    "counted": Behavior(_counted),
    "tail": Behavior(
        lambda plain, before, rule: replace(plain, head="".join(before.text.splitlines(True)[-rule["lines"] :]))
    ),
}
CONVENTIONS = load_conventions(__file__, _BEHAVIORS)
RULES = rule_types(CONVENTIONS)
