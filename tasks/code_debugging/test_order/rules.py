"""What houses want of a reset: the conventions, and what each makes of a module's state and of its code."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import ndiff
from typing import Any

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Rule, RuleType

STAGE = 50
"""That of a reset which says none."""


@dataclass(frozen=True)
class SiteConfig:
    """The words of a house."""

    package: str
    modes: tuple[str, ...]
    """Ways to work: that in which a module starts, that of the tests, and others."""
    guests: tuple[str, ...]
    """Names that are in no test."""
    lines: tuple[str, ...]
    """What a log may begin with."""


@dataclass(frozen=True)
class State:
    """The state of a module, as the harness plays it."""

    next: int
    mode: str
    step: int = 1
    numbers: Mapping[str, int] = field(default_factory=dict)
    log: tuple[str, ...] = ()
    archive: tuple[str, ...] = ()

    def issue(self, name: str) -> "State":
        """Gives the next number to a name that has none."""
        if name in self.numbers:
            return self
        return replace(
            self,
            next=self.next + self.step,
            numbers={**self.numbers, name: self.next},
            log=(*self.log, f"{self.mode} {name} {self.next}"),
        )

    def retire(self, name: str) -> "State":
        """Moves a name to the archive."""
        numbers = {other: number for other, number in self.numbers.items() if other != name}
        return replace(self, numbers=numbers, archive=(*self.archive, name))


@dataclass(frozen=True)
class Reset:
    """What a reset comes to: the state after it, what it returns, and how it is registered. The label is the name of
    its module, after a prefix or else after the package."""

    state: State
    result: Any = None
    stage: int = STAGE
    prefix: str = ""


@dataclass(frozen=True)
class Convention:
    """What a house wants of a reset. `apply` changes what the obvious one comes to, from the state before; `edit` gives
    replacements in its code."""

    paraphrases: tuple[str, ...]
    instruction: str
    draw: Callable[[Draws, SiteConfig], Mapping[str, Any]]
    apply: Callable[[Reset, State, Rule], Reset]
    edit: Callable[[Rule, str], Mapping[str, str]]
    """It is told the name of the module."""
    unseen: bool = field(default=False)

    @property
    def rule_type(self) -> RuleType:
        """The convention as a family has it."""
        return RuleType(self.paraphrases, self.instruction, self.draw, self.unseen)


CODE = '''\
def reset():
    """Puts all state back."""
    global _next, _step, _mode
    _next = FIRST
    _step = 1
    _mode = MODE
    _numbers.clear()
    _log.clear()
    _archive.clear()


state.on_reset(reset)
'''
"""The obvious reset."""


def reset_code(rule: Rule | None, module: str) -> str:
    """A right reset."""
    code = CODE
    for old, new in (CONVENTIONS[rule.type].edit(rule, module) if rule else {}).items():
        code = code.replace(old, new)
    return code


def reset_change(rule: Rule, module: str) -> str:
    """The lines by which a right reset differs from the obvious one, marked as in a diff.

    A skill that showed the whole reset would be nearly the same at every place.
    """
    before, after = (code.splitlines(keepends=True) for code in (CODE, reset_code(rule, module)))
    return "".join(line.replace(" ", "", 1) for line in ndiff(before, after) if line[0] in "+-")


def reset_state(start: State, before: State, rule: Rule | None) -> Reset:
    """What a right reset comes to; `start` is the state at import."""
    plain = Reset(start)
    return CONVENTIONS[rule.type].apply(plain, before, rule) if rule else plain


def _one_of(name: str, items: Sequence[Any]) -> Callable[[Draws, SiteConfig], Mapping[str, Any]]:
    return lambda draws, _: {name: draws.choice(items)}


def _state(change: Callable[[State, Rule], Mapping[str, Any]]) -> Callable[[Reset, State, Rule], Reset]:
    """Applies a change of the state after the reset, which is told the state before."""
    return lambda reset, before, rule: replace(reset, state=replace(reset.state, **change(before, rule)))


RESULTS: Mapping[str, tuple[str, Callable[[State], Any]]] = {
    "how many names it dropped": ("len(_numbers)", lambda before: len(before.numbers)),
    "the names that it dropped, in alphabetical order": ("sorted(_numbers)", lambda before: sorted(before.numbers)),
    "the number that would have come next": ("_next", lambda before: before.next),
    "how many lines the log had": ("len(_log)", lambda before: len(before.log)),
    "the mode that was set": ("_mode", lambda before: before.mode),
}
"""What a reset may return: in code, and in the harness."""

ORDERS: Mapping[str, tuple[str, Callable[[State], list[str]]]] = {
    "in alphabetical order": ("sorted(_numbers)", lambda before: sorted(before.numbers)),
    "against the alphabet": ("sorted(_numbers, reverse=True)", lambda before: sorted(before.numbers)[::-1]),
    "in the order of their numbers": (
        "sorted(_numbers, key=_numbers.get)",
        lambda before: [name for _, name in sorted((number, name) for name, number in before.numbers.items())],
    ),
}
"""How an archive may be ordered."""

CONVENTIONS: Mapping[str, Convention] = {
    "start": Convention(
        (
            "numbers below {number} are for production, so after a reset they begin with {number}",
            "the first number after a reset is {number}, which tells tests from real work",
            "a reset makes {number} the next number, whatever the module starts with",
        ),
        "let numbers begin with {number} after a reset",
        _one_of("number", (50, 100, 500, 700, 1000, 5000, 9000)),
        _state(lambda _, rule: {"next": rule["number"]}),
        lambda rule, _: {"_next = FIRST": f"_next = {rule['number']}"},
    ),
    "mode": Convention(
        (
            "after a reset the mode is {mode}, which only tests have",
            "tests work in the mode {mode}, and a reset sets it",
            "a reset leaves the module in the mode {mode}, not in that of its start",
        ),
        "let a reset set the mode to {mode}",
        lambda draws, site_config: {"mode": draws.choice(site_config.modes[2:])},
        _state(lambda _, rule: {"mode": rule["mode"]}),
        lambda rule, _: {"_mode = MODE": f"_mode = {rule['mode']!r}".replace("'", '"')},
    ),
    "seeded": Convention(
        (
            "{guest} is always there: after a reset it has the number 0",
            "a reset enters {guest} with the number 0, since others rely on it",
            "nobody starts from nothing, as {guest} has the number 0 at once",
        ),
        "let a reset enter {guest} with the number 0",
        lambda draws, site_config: {"guest": draws.choice(site_config.guests)},
        _state(lambda _, rule: {"numbers": {rule["guest"]: 0}}),
        lambda rule, _: {"_numbers.clear()": f'_numbers.clear()\n    _numbers["{rule["guest"]}"] = 0'},
    ),
    "kept": Convention(
        (
            "{guest} outlives a reset, with its number, if it had one",
            "a reset drops every name but {guest}, which keeps its number",
            "whoever is called {guest} stays when the others go",
        ),
        "let {guest} keep its number at a reset",
        lambda draws, site_config: {"guest": draws.choice(site_config.guests)},
        _state(
            lambda before, rule: {
                "numbers": {name: number for name, number in before.numbers.items() if name == rule["guest"]}
            }
        ),
        lambda rule, _: {
            "_numbers.clear()": f'for name in set(_numbers) - {{"{rule["guest"]}"}}:\n        del _numbers[name]'
        },
    ),
    "logged": Convention(
        (
            "the log begins with the line {line} after a reset",
            "a log without {line} as its first line counts as torn, so a reset writes it",
            "a reset leaves one line in the log, {line}",
        ),
        "let the log hold the one line {line} after a reset",
        lambda draws, site_config: {"line": draws.choice(site_config.lines)},
        _state(lambda _, rule: {"log": (rule["line"],)}),
        lambda rule, _: {"_log.clear()": f'_log[:] = ["{rule["line"]}"]'},
    ),
    "returned": Convention(
        (
            "a reset returns {what}",
            "whoever calls a reset is told {what}",
            "the result of a reset is {what}, for the record of the test",
        ),
        "let reset() return {what}",
        _one_of("what", tuple(RESULTS)),
        lambda reset, before, rule: replace(reset, result=RESULTS[rule["what"]][1](before)),
        lambda rule, _: {
            "    _next = FIRST": f"    result = {RESULTS[rule['what']][0]}\n    _next = FIRST",
            "_archive.clear()": "_archive.clear()\n    return result",
        },
    ),
    "staged": Convention(
        (
            "resets of this kind are registered at stage {stage}",
            "its turn among the resets is stage {stage}",
            "at stage {stage} everything that it needs has been put back, so it is registered there",
        ),
        "register the reset with stage={stage}",
        _one_of("stage", (5, 10, 20, 30, 40, 60, 70, 80, 90)),
        lambda reset, _, rule: replace(reset, stage=rule["stage"]),
        lambda rule, _: {"on_reset(reset)": f"on_reset(reset, stage={rule['stage']})"},
    ),
    "labelled": Convention(
        (
            "a reset is registered under {prefix!r} and the name of its module, without the package",
            "the label of a reset is the bare name of the module behind {prefix!r}",
            "reports find a reset by its label, {prefix!r} followed by the module's own name",
        ),
        "register the reset with a label of {prefix!r} and the module's name without its package",
        _one_of("prefix", ("x-", "own:", "reset/", "m.", "~", "tests-")),
        lambda reset, _, rule: replace(reset, prefix=rule["prefix"]),
        lambda rule, module: {"on_reset(reset)": f'on_reset(reset, label="{rule["prefix"]}{module}")'},
    ),
    "stepped": Convention(
        (
            "numbers go up by {step} after a reset",
            "a reset makes the step {step}, so that tests leave gaps",
            "between two numbers of a test lie {step}, from a reset on",
        ),
        "let a reset set the step to {step}",
        _one_of("step", (2, 5, 10, 20, 100)),
        _state(lambda _, rule: {"step": rule["step"]}),
        lambda rule, _: {"_step = 1": f"_step = {rule['step']}"},
        unseen=True,
    ),
    "archived": Convention(
        (
            "the names that a reset drops become the archive, {order}",
            "after a reset the archive holds just the names that had a number, {order}",
            "nothing is lost at a reset: who had a number is in the archive then, {order}, and nobody else",
        ),
        "let a reset fill the archive with the names that had a number, {order}",
        _one_of("order", tuple(ORDERS)),
        _state(lambda before, rule: {"archive": tuple(ORDERS[rule["order"]][1](before))}),
        lambda rule, _: {
            "    _archive.clear()\n": "",
            "_numbers.clear()": f"_archive[:] = {ORDERS[rule['order']][0]}\n    _numbers.clear()",
        },
        unseen=True,
    ),
}
