"""How a house may want its units changed: what each convention makes of the plain change."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Rule, RuleType


@dataclass(frozen=True)
class SiteConfig:
    """The units of a service and their settings."""

    unit: str
    helpers: tuple[str, ...]
    """The units beside it."""
    numbers: tuple[str, ...]
    texts: tuple[tuple[str, str], ...]
    serial: str
    tickets: str


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
    """The count of versions of the settings, as it is found."""


@dataclass(frozen=True)
class Change:
    """A change as it has to come about."""

    lines: tuple[str, str]
    """The assignments of the key and of the serial, as the file of the settings has to hold them."""
    steps: tuple[Step, ...]
    """What is done to units, in this order."""
    by: str = ""
    result: str = "done"


Steps = Callable[[Wish, Mapping[str, Any]], Sequence[Step]]
Changed = Callable[[Change, Wish, Mapping[str, Any]], Change]


@dataclass(frozen=True)
class Convention:
    """`instruction` and `paraphrases` are format strings over the literals; `changed` makes of the plain change what
    they ask for."""

    instruction: str
    paraphrases: tuple[str, ...]
    draw: Callable[[Draws, SiteConfig], Mapping[str, Any]]
    changed: Changed
    unseen: bool = False


def planned(wish: Wish, rule: Rule | None) -> Change:
    """The change that is right where `rule` holds."""
    serial, number = wish.serial
    plain = Change((f"{wish.key}={wish.value}", f"{serial}={number}"), (Step("reload", wish.unit),))
    return CONVENTIONS[rule.type].changed(plain, wish, dict(rule.literals)) if rule else plain


def _one_of(name: str, *values: Any) -> Callable[[Draws, SiteConfig], Mapping[str, Any]]:
    return lambda draws, site_config: {name: draws.choice(values)}


def _helper(draws: Draws, site_config: SiteConfig) -> Mapping[str, Any]:
    return {"helper": draws.choice(site_config.helpers)}


def _option(name: str, value: Callable[[Wish, Mapping[str, Any]], str]) -> Changed:
    """The reload gets an option."""
    return lambda plain, wish, rule: replace(plain, steps=(Step("reload", wish.unit, ((name, value(wish, rule)),)),))


def _around(before: Steps, after: Steps) -> Changed:
    """Steps before and after the reload."""
    return lambda plain, wish, rule: replace(plain, steps=(*before(wish, rule), *plain.steps, *after(wish, rule)))


def _line(form: Callable[[Wish, Mapping[str, Any]], str]) -> Changed:
    """The setting is written in another form."""
    return lambda plain, wish, rule: replace(plain, lines=(form(wish, rule), plain.lines[1]))


_REASONS: Mapping[str, Callable[[str, str], str]] = {
    "the ticket with a slash, such as ABC/123": lambda desk, number: f"{desk}/{number}",
    "the ticket in small letters, such as abc-123": lambda desk, number: f"{desk.lower()}-{number}",
    "the number of the ticket alone, such as 123": lambda desk, number: number,
    "the number of the ticket behind a #, such as #123": lambda desk, number: f"#{number}",
    "the ticket without the hyphen, such as ABC123": lambda desk, number: f"{desk}{number}",
}
_NUMBERS: Mapping[str, Callable[[int], str]] = {
    "in double quotes": lambda n: f'"{n}"',
    "in single quotes": lambda n: f"'{n}'",
    "with six digits, zeros in front": lambda n: f"{n:06}",
    "in hexadecimal, such as 0x1f": lambda n: f"{n:#x}",
    "with a plus sign in front": lambda n: f"+{n}",
}

CONVENTIONS: Mapping[str, Convention] = {
    "verb": Convention(
        "use {verb} instead of reload",
        (
            "a reload leaves out the env file, it takes a {verb}",
            "units of this house read their settings at a {verb} only",
            "nothing short of a {verb} makes the new setting count",
        ),
        _one_of("verb", "restart", "respawn", "cycle"),
        lambda plain, wish, rule: replace(plain, steps=(Step(rule["verb"], wish.unit),)),
    ),
    "before": Convention(
        "reload {helper} first, in the same change",
        (
            "{helper} is reloaded before the unit itself",
            "the unit asks {helper} when it reloads, so that one comes first",
            "a change reloads {helper} ahead of the unit that it is about",
        ),
        _helper,
        _around(lambda wish, rule: [Step("reload", rule["helper"])], lambda wish, rule: ()),
    ),
    "after": Convention(
        "reload {helper} afterwards, in the same change",
        (
            "{helper} is reloaded after the unit itself",
            "{helper} keeps a copy of the settings, so it is reloaded once the unit was",
            "a change ends with a reload of {helper}",
        ),
        _helper,
        _around(lambda wish, rule: (), lambda wish, rule: [Step("reload", rule["helper"])]),
    ),
    "grace": Convention(
        "reload with --grace {time}",
        (
            "open requests get a grace of {time}, in this very form",
            "a reload without a grace of {time} cuts requests off",
            "the grace of a reload is {time}, written like that",
        ),
        _one_of("time", "30", "30s", "0:30", "PT30S", "1m", "90s", "1500ms"),
        _option("grace", lambda wish, rule: rule["time"]),
    ),
    "reason": Convention(
        "reload with --reason and {form}",
        (
            "the journal wants as the reason of a reload {form}",
            "a reload gives as its reason {form}",
            "auditors look in the reason of each reload for {form}",
        ),
        _one_of("form", *_REASONS),
        _option("reason", lambda wish, rule: _REASONS[rule["form"]](*wish.ticket.split("-"))),
    ),
    "instance": Convention(
        "reload the instance {instance}, with an @ between unit and instance",
        (
            "a unit runs as the instance {instance}, and only that one reads the file",
            "the instance {instance} has to be named behind an @",
            "without @{instance} behind it the name of a unit means the one that is idle",
        ),
        _one_of("instance", "main", "blue", "green", "1", "2", "a", "live"),
        lambda plain, wish, rule: replace(plain, steps=(Step("reload", f"{wish.unit}@{rule['instance']}"),)),
    ),
    "number": Convention(
        "write the new number {form} in the env file",
        (
            "numbers in env files are written {form}",
            "a number that is not written {form} is read as nothing",
            "the parser of env files takes a new number only {form}",
        ),
        _one_of("form", *_NUMBERS),
        _line(lambda wish, rule: f"{wish.key}={_NUMBERS[rule['form']](wish.value)}"),
    ),
    "serial": Convention(
        "raise {serial} in the same env file by {by}",
        (
            "an env file with an old {serial} is not read again, and it goes up by {by}",
            "each change counts the {serial} of the env file up by {by}",
            "the {serial} of an env file grows by {by} with every edit",
        ),
        lambda draws, site_config: {"serial": site_config.serial, "by": draws.choice((1, 2, 5, 10, 100))},
        lambda plain, wish, rule: replace(
            plain, lines=(plain.lines[0], f"{wish.serial[0]}={wish.serial[1] + rule['by']}")
        ),
    ),
    "probe": Convention(
        "probe {times} before the reload, in the same change",
        (
            "the unit is probed {times} ahead of a reload",
            "a change holds the answer to probing {times} from before its reload",
            "before it is reloaded the unit is to be probed {times}",
        ),
        lambda draws, site_config: dict(
            zip(("times", "count"), draws.choice((("once", 1), ("twice", 2))), strict=True)
        ),
        _around(lambda wish, rule: [Step("probe", wish.unit)] * rule["count"], lambda wish, rule: ()),
    ),
    "hold": Convention(
        "hold {held} before the reload and release it afterwards, in the same change",
        (
            "{held} takes no requests during a reload",
            "requests to {held} must be held back while the unit reloads",
            "a reload is done while {held} is on hold",
        ),
        lambda draws, site_config: {"held": draws.choice((site_config.unit, *site_config.helpers))},
        _around(
            lambda wish, rule: [Step("hold", rule["held"])],
            lambda wish, rule: [Step("release", rule["held"])],
        ),
    ),
    "answerable": Convention(
        "open the change with --by {role}",
        (
            "changes are answered for by {role}",
            "a change counts only if it was opened by {role}",
            "it is {role} in whose name changes are opened",
        ),
        _one_of("role", "oncall", "owner", "platform", "night-shift", "second-line"),
        lambda plain, wish, rule: replace(plain, by=rule["role"]),
    ),
    "tag": Convention(
        "tag the unit with {word} after the reload, in the same change",
        (
            "settings that are in use bear the tag {word}",
            "a reload is followed by the tag {word}",
            "the nightly job puts back what has no tag {word}",
        ),
        _one_of("word", "good", "current", "approved", "keep", "stable"),
        lambda plain, wish, rule: replace(
            plain, steps=(*plain.steps, Step("tag", wish.unit, (("word", rule["word"]),)))
        ),
        unseen=True,
    ),
    "wait": Convention(
        "reload with --wait {count}",
        (
            "a reload waits for {count} requests",
            "{count} requests are let through before a reload",
            "the reload comes after {count} further requests",
        ),
        _one_of("count", 1, 3, 5, 8, 12, 25),
        _option("wait", lambda wish, rule: str(rule["count"])),
        unseen=True,
    ),
    "result": Convention(
        "close the change with --result {word}",
        (
            "a change that went well is closed as {word}",
            "the board knows the result {word} and not the usual one",
            "only changes with the result {word} are kept",
        ),
        _one_of("word", "ok", "applied", "verified", "final", "0"),
        lambda plain, wish, rule: replace(plain, result=rule["word"]),
        unseen=True,
    ),
    "export": Convention(
        "put {word} and a space before the new setting in the env file",
        (
            "a setting that was changed has {word} before it",
            "the env file is read by a shell, which needs {word} in front of what changes",
            "new settings begin with {word} in their line",
        ),
        _one_of("word", "export", "set", "local", "override"),
        _line(lambda wish, rule: f"{rule['word']} {wish.key}={wish.value}"),
        unseen=True,
    ),
}

RULES = {
    name: RuleType(each.paraphrases, each.instruction, each.draw, each.unseen) for name, each in CONVENTIONS.items()
}
