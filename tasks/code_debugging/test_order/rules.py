"""How a house may want a reset: what each convention makes of a module's state and code."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import ndiff
from typing import Any

from hermes_lab.tasks.family import Rule
from hermes_lab.tasks.rules import Behavior, Literals, load_conventions, rule_types

STAGE = 50
"""The default stage of a reset."""


@dataclass(frozen=True)
class SiteConfig:
    """The words of a house."""

    package: str
    modes: tuple[str, ...]
    """The mode in which a module starts, that of the tests, and others."""
    guests: tuple[str, ...]
    """Names that no test uses."""
    lines: tuple[str, ...]
    """First lines of a log."""

    @property
    def other_modes(self) -> tuple[str, ...]:
        """The modes that are neither the first one of a module nor that of the tests."""
        return self.modes[2:]


@dataclass(frozen=True)
class State:
    """The state of a module, as the harness simulates it."""

    next: int
    mode: str
    step: int = 1
    numbers: Mapping[str, int] = field(default_factory=dict)
    log: tuple[str, ...] = ()
    archive: tuple[str, ...] = ()

    def issue(self, name: str) -> "State":
        """Gives the next number to a name without one."""
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
    """The effect of a reset: the state after it, its result, and its registration. The label is the name of the module,
    after the prefix or, without one, after the package."""

    state: State
    result: Any = None
    stage: int = STAGE
    prefix: str = ""


Apply = Callable[[Reset, State, Literals], Reset]
"""Changes the effect of the obvious reset; takes the state before it too."""

CODE = '''\
def reset():
    """Restores all state."""
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
    """The reset that is right under `rule`."""
    code = CODE
    for old, new in (CONVENTIONS[rule.type].texts.code if rule else {}).items():
        code = code.replace(old, new % {"module": module, **dict(rule.literals if rule else ())})
    return code


def reset_change(rule: Rule, module: str) -> str:
    """The lines that differ between the right reset and the obvious one, marked as in a diff.

    A skill with the whole reset would be nearly the same at every site.
    """
    before, after = (code.splitlines(keepends=True) for code in (CODE, reset_code(rule, module)))
    return "".join(line.replace(" ", "", 1) for line in ndiff(before, after) if line[0] in "+-")


def reset_state(start: State, before: State, rule: Rule | None) -> Reset:
    """The right effect of a reset; `start` is the state at import."""
    plain = Reset(start)
    return CONVENTIONS[rule.type].apply(plain, before, dict(rule.literals)) if rule else plain


EXPRESSIONS: Mapping[str, Callable[[State], Any]] = {
    "len(_numbers)": lambda state: len(state.numbers),
    "sorted(_numbers)": lambda state: sorted(state.numbers),
    "sorted(_numbers, reverse=True)": lambda state: sorted(state.numbers)[::-1],
    "sorted(_numbers, key=_numbers.get)": lambda state: [
        name for _, name in sorted((number, name) for name, number in state.numbers.items())
    ],
    "_next": lambda state: state.next,
    "len(_log)": lambda state: len(state.log),
    "_mode": lambda state: state.mode,
}
"""The values of expressions that the code of a reset may have."""


def _state(change: Callable[[State, Literals], Mapping[str, Any]]) -> Apply:
    """Changes the state after the reset; takes the state before it."""
    return lambda reset, before, rule: replace(reset, state=replace(reset.state, **change(before, rule)))


def _kept(before: State, rule: Literals) -> Mapping[str, Any]:
    return {"numbers": {name: number for name, number in before.numbers.items() if name == rule["guest"]}}


_BEHAVIORS: Mapping[str, Behavior[SiteConfig, Apply]] = {
    "start": Behavior(_state(lambda _, rule: {"next": rule["number"]})),
    "mode": Behavior(_state(lambda _, rule: {"mode": rule["mode"]})),
    "seeded": Behavior(_state(lambda _, rule: {"numbers": {rule["guest"]: 0}})),
    "kept": Behavior(_state(_kept)),
    "logged": Behavior(_state(lambda _, rule: {"log": (rule["line"],)})),
    "returned": Behavior(
        lambda reset, before, rule: replace(reset, result=EXPRESSIONS[rule["expression"]](before)),
    ),
    "staged": Behavior(lambda reset, _, rule: replace(reset, stage=rule["stage"])),
    "labelled": Behavior(lambda reset, _, rule: replace(reset, prefix=rule["prefix"])),
    "stepped": Behavior(_state(lambda _, rule: {"step": rule["step"]})),
    "archived": Behavior(
        _state(lambda before, rule: {"archive": tuple(EXPRESSIONS[rule["expression"]](before))}),
    ),
}
CONVENTIONS = load_conventions(__file__, _BEHAVIORS)
RULES = rule_types(CONVENTIONS)
