"""How a house may rotate its logs: what each convention makes of the plain rotation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Rule, RuleType


class Old(NamedTuple):
    """A rotated log: its path in the folder of the logs, and what it holds."""

    name: str
    text: str
    mode: str
    zipped: bool = False


@dataclass(frozen=True)
class Before:
    """A log as it was found."""

    log: str
    """Its file name: `access.log`."""
    text: str
    olds: tuple[str, ...]
    """What `access.log.1` and so on hold: as many as are kept."""
    mode: str
    date: tuple[int, int, int]
    """Year, month and day."""


@dataclass(frozen=True)
class After:
    """A log as it has to be left."""

    head: str
    """What the log itself begins anew with."""
    olds: tuple[Old, ...]
    """The newest first."""
    in_place: bool = False
    """Whether the log is still the file that the writer holds open."""
    note: tuple[str, str] | None = None
    """A further file in the folder of the logs."""
    flag: str = ""
    """An empty file beside the one that the writer holds open."""


Draw = Callable[[Draws, Any], Mapping[str, Any]]
Change = Callable[[After, Before, Mapping[str, Any]], After]


@dataclass(frozen=True)
class Convention:
    """`instruction` and `paraphrases` are format strings over the literals; `changed` makes of the plain outcome what
    they ask for."""

    instruction: str
    paraphrases: tuple[str, ...]
    draw: Draw
    changed: Change
    unseen: bool = False


def rotated(before: Before, rule: Rule | None) -> After:
    """The outcome where `rule` holds."""
    olds = (before.text, *before.olds)[: len(before.olds)]
    plain = After("", tuple(Old(f"{before.log}.{n}", text, before.mode) for n, text in enumerate(olds, 1)))
    return CONVENTIONS[rule.type].changed(plain, before, dict(rule.literals)) if rule else plain


def _one_of(name: str, *values: Any) -> Draw:
    return lambda draws, site_config: {name: draws.choice(values)}


def _pair_of(names: tuple[str, str], *pairs: tuple[str, str]) -> Draw:
    return lambda draws, site_config: dict(zip(names, draws.choice(pairs), strict=True))


def _named(form: Callable[[str, int, Mapping[str, Any]], str]) -> Change:
    """Every rotated log is named after the log and its number by `form`."""

    def changed(plain: After, before: Before, rule: Mapping[str, Any]) -> After:
        olds = (old._replace(name=form(before.log, n, rule)) for n, old in enumerate(plain.olds, 1))
        return replace(plain, olds=tuple(olds))

    return changed


def _dated(plain: After, before: Before, rule: Mapping[str, Any]) -> After:
    """The log of today gets a date, the others keep the numbers that they had."""
    names = (f"{before.log}{_day(before, rule['form'])}", *(old.name for old in plain.olds))
    olds = (old._replace(name=name) for old, name in zip(plain.olds, names, strict=False))
    return replace(plain, olds=tuple(olds))


def _day(before: Before, form: str) -> str:
    year, month, day = before.date
    for word, value in (("YYYY", f"{year}"), ("YY", f"{year % 100:02}"), ("MM", f"{month:02}"), ("DD", f"{day:02}")):
        form = form.replace(word, value)
    return form


def _counted(plain: After, before: Before, rule: Mapping[str, Any]) -> After:
    number = before.text.count("\n") if rule["unit"] == "lines" else len(before.text)
    return replace(plain, note=(rule["file"], f"{number}\n"))


CONVENTIONS: Mapping[str, Convention] = {
    "in_place": Convention(
        "copy the log to its first old name and empty it in place, and do not rename it",
        (
            "the writer never reopens its log, so what it holds open must stay the log",
            "a renamed log is written on under its new name, since nobody tells the writer",
            "the writer keeps its descriptor for good, so the log must remain the same file",
        ),
        lambda draws, site_config: {},
        lambda plain, before, rule: replace(plain, in_place=True),
    ),
    "dated": Convention(
        "put the date in the form {form} behind the name of the log that you rotate instead of .1, and leave the older "
        "ones as they are called, without the last one",
        (
            "a log is put away under its name with {form} behind it, for the day",
            "old logs are told by the day, written {form}, and no longer renumbered",
            "from now on the name of a rotated log ends in its day as {form}",
        ),
        _one_of("form", "-YYYYMMDD", ".YYYY-MM-DD", "_DDMMYYYY", "-YYMMDD", ".DD.MM.YYYY", "-YYYY_MM_DD"),
        _dated,
    ),
    "padded": Convention(
        "write the numbers of all old logs with {digits} digits, zeros in front",
        (
            "old logs are numbered with {digits} digits",
            "the shipper sorts by name, so the number of an old log has {digits} digits",
            "each old log ends in a number of {digits} digits",
        ),
        _one_of("digits", 2, 3, 4),
        _named(lambda log, n, rule: f"{log}.{n:0{rule['digits']}}"),
    ),
    "first": Convention(
        "give the log that you rotate the number {first}, and number the older ones on from there",
        (
            "the newest of the old logs has the number {first}",
            "old logs are counted from {first}",
            "counting of old logs begins with {first} here",
        ),
        _one_of("first", 0, 2, 3, 5, 10, 100),
        _named(lambda log, n, rule: f"{log}.{n - 1 + rule['first']}"),
    ),
    "keep": Convention(
        "keep {kept} of the old logs, the newest, and remove the others",
        (
            "no more than {kept} old logs may be kept, for the sake of privacy",
            "the number of old logs that this house keeps is {kept}, whatever the file says",
            "data protection allows {kept} in the way of old logs",
        ),
        _one_of("kept", 1, 2),
        lambda plain, before, rule: replace(plain, olds=plain.olds[: rule["kept"]]),
    ),
    "zipped": Convention(
        "compress the old logs from number {first} on with gzip",
        (
            "old logs are kept with gzip from number {first} on",
            "whatever has the number {first} or a higher one is a .gz",
            "no old log from {first} on stays uncompressed",
        ),
        _one_of("first", 1, 2, 3),
        lambda plain, before, rule: replace(
            plain,
            olds=tuple(
                old._replace(name=f"{old.name}.gz", zipped=True) if n >= rule["first"] else old
                for n, old in enumerate(plain.olds, 1)
            ),
        ),
    ),
    "mode": Convention(
        "give all old logs the mode {mode}",
        (
            "old logs have the mode {mode}",
            "once it is put away a log gets mode {mode}",
            "the collector takes old logs of mode {mode} only",
        ),
        _one_of("mode", "0440", "0400", "0444", "0600"),
        lambda plain, before, rule: replace(
            plain, olds=tuple(old._replace(mode=rule["mode"].lstrip("0")) for old in plain.olds)
        ),
    ),
    "folder": Convention(
        "move all old logs into the folder {folder} beside the log",
        (
            "old logs lie in the folder {folder}",
            "nothing but current logs may lie there, the folder {folder} takes the old ones",
            "the folder {folder} beside a log holds all that were rotated",
        ),
        _one_of("folder", "archive", "history", "rotated", "past", "attic"),
        _named(lambda log, n, rule: f"{rule['folder']}/{log}.{n}"),
    ),
    "opened": Convention(
        "begin the new log with the line {form}, for the day",
        (
            "a new log opens with the line {form}",
            "the first line of every log is {form}",
            "readers reject a log that does not begin with {form}",
        ),
        _one_of("form", "# YYYY-MM-DD", "-- DD.MM.YYYY --", "begin YYYYMMDD", "; opened DD/MM/YYYY", "[YYYY/MM/DD]"),
        lambda plain, before, rule: replace(plain, head=f"{_day(before, rule['form'])}\n"),
    ),
    "flag": Convention(
        "make an empty file {flag} beside the file that the writer holds open",
        (
            "the writer opens a new log once it finds {flag} there",
            "a file {flag} asks the writer to go over to the new log",
            "writers look for {flag} next to what they hold open",
        ),
        _one_of("flag", "reopen", "rotate.now", "hup", "next", "reload.request"),
        lambda plain, before, rule: replace(plain, flag=rule["flag"]),
    ),
    "inside": Convention(
        "put the numbers of all old logs before the ending .log, after a {word}",
        (
            "old logs still end in .log, and the number comes before that, after a {word}",
            "the number of an old log stands between a {word} and the ending .log",
            "a {word} and the number stand in the middle of an old log's name, for it must end in .log",
        ),
        _pair_of(("word", "mark"), ("dot", "."), ("hyphen", "-"), ("low line", "_"), ("tilde", "~")),
        _named(lambda log, n, rule: f"{log.removesuffix('.log')}{rule['mark']}{n}.log"),
        unseen=True,
    ),
    "counted": Convention(
        "write the number of {unit} of the log that you rotate, and nothing else, into a file {file} beside it",
        (
            "the file {file} tells how many {unit} the last rotation took away",
            "each rotation leaves its number of {unit} in {file}",
            "accounting reads from {file} how many {unit} were rotated",
        ),
        _pair_of(
            ("unit", "file"),
            *(("lines", "LAST"), ("bytes", "LAST"), ("lines", "rotated.count"), ("bytes", "rotated.size")),
        ),
        _counted,
        unseen=True,
    ),
    "tail": Convention(
        "leave the last {lines} lines of the log in the new log, too",
        (
            "a new log repeats the last {lines} lines of the one before",
            "readers need {lines} lines of context at the head of a new log",
            "the {lines} lines before a rotation stand in both logs",
        ),
        _one_of("lines", 5, 8, 10, 12, 15, 20),
        lambda plain, before, rule: replace(plain, head="".join(before.text.splitlines(True)[-rule["lines"] :])),
        unseen=True,
    ),
}

RULES = {
    name: RuleType(each.paraphrases, each.instruction, each.draw, each.unseen) for name, each in CONVENTIONS.items()
}
