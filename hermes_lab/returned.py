"""Checks what a suite's own code returns: tasks of `load`, verdicts of `verify`. Anything else gives one line: what was
returned, by which function and what is expected."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, get_type_hints

import msgspec

from hermes_lab.errors import ConfigError
from hermes_lab.protocols import Suite
from hermes_lab.text.counted import counted
from hermes_lab.text.suggest import did_you_mean
from hermes_lab.types import Task, Verdict

VERDICT = "return Verdict(score=1.0, success=True), or None for a task that nothing judges"
TASK = "return a list of Task(id=..., suite=..., prompt=...)"
_SHOWN = 60
"""Characters of a value in a message."""
S = TypeVar("S", bound=msgspec.Struct)


class NoVerdict(ConfigError):
    """A verifier returned something that is no verdict; the message says where the verifier is defined."""


def load_tasks(suite: Suite, *, split: str, count: int, seed: int, world: int, fewer: bool = False) -> list[Task]:
    """The tasks that `load` gives, also as a generator.

    Raises `ConfigError` for a split that the suite does not have, for anything that is no `Task`, for a field of the
    wrong type, and for more tasks than `count`, or less unless `fewer` is set (a count of 0 means all tasks).
    Exceptions of the suite pass.
    """
    own = not type(suite).__module__.startswith("hermes_lab.")
    if own and split not in suite.splits:
        raise ConfigError(
            f"{suite.name} has no split {split!r}{did_you_mean(split, suite.splits)}; there are: "
            f"{', '.join(suite.splits)}",
            "suite.split",
        )
    found: Any = suite.load(split=split, count=count, seed=seed, world=world)
    where = f"{suite.name}: load() {{}}{place_of(suite.load)}; {TASK}"
    if inspect.iscoroutine(found):
        found.close()
        raise ConfigError(f"{suite.name}: load() is `async`{place_of(suite.load)}; write a plain `def load`", "suite")
    if not isinstance(found, Iterable) or isinstance(found, str | bytes | dict):
        raise ConfigError(where.format(f"returned {shown(found)}, which is no list of tasks"), "suite")
    tasks = list(found)
    if not tasks:
        none = "returned no task" + ("" if count else " for count=0, which means all; set suite.count if it only draws")
        raise ConfigError(where.format(none), "suite")
    for number, task in enumerate(tasks, 1):
        if not isinstance(task, Task):
            raise ConfigError(where.format(f"returned {shown(task)} as task {number}, which is no Task"), "suite")
        if own and (problem := wrong_field(task)):
            raise ConfigError(where.format(f"returned task {number} ({shown(task.id)}) with {problem}"), "suite")
    if count and (len(tasks) > count or (len(tasks) < count and not fewer)):
        raise ConfigError(
            f"{suite.name}: load() returned {counted(len(tasks), 'task')} of split {split!r} and world {world}"
            f"{place_of(suite.load)}, but {count:,} were asked for; let it return `count` tasks"
            + ("" if len(tasks) > count else ", or ask for fewer"),
            "suite.count",
        )
    return tasks


async def ask_verifier(suite: Suite, task: Task, verify: Callable[..., Any], *arguments: Any) -> Verdict | None:
    """What `verify(*arguments)` says. Raises `NoVerdict` if that is neither a `Verdict` nor None, or has a field of
    the wrong type; exceptions of the suite pass."""
    found: Any = verify(*arguments)
    where = f"{suite.name}: {task.id}: verify() {{}}{place_of(verify)}"
    if not inspect.isawaitable(found):
        raise NoVerdict(where.format("is not `async`") + "; write `async def verify`", "suite")
    verdict = await found
    if verdict is not None and not isinstance(verdict, Verdict):
        raise NoVerdict(where.format(f"returned {shown(verdict)}, which is no Verdict") + f"; {VERDICT}", "suite")
    if verdict is not None and (problem := wrong_field(verdict)):
        raise NoVerdict(where.format(f"returned a Verdict with {problem}") + f"; {VERDICT}", "suite")
    return verdict


def wrong_field(made: S) -> str:
    """The first field whose value has another type than it should, which Python does not check; "" if there is none."""
    for name, kind in _types(type(made)).items():
        value = getattr(made, name)
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            why = str(error).partition(" - at ")[0]
            return f"{name}={shown(value)} ({why[:1].lower()}{why[1:]})"
    return ""


@functools.cache
def _types(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def shown(value: Any) -> str:
    """A value in a message, with its type: `True (bool)`."""
    if value is None:
        return "None"
    text = " ".join(repr(value).split())
    return f"{text if len(text) <= _SHOWN else f'{text[:_SHOWN]}...'} ({type(value).__name__})"


def place_of(function: Callable[..., Any]) -> str:
    """` (FILE:LINE)` of a function's definition; "" if it is not written in Python."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
