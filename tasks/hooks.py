"""Checks that the methods of a user's suite accept what the lab passes them, before anything runs."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from hermes_lab.errors import ConfigError
from hermes_lab.returned import place_of, shown


class Hook(NamedTuple):
    """A method of a suite as the lab calls it. It is part of a suite's interface only together with `besides`."""

    name: str
    arguments: tuple[str, ...]
    keywords: tuple[str, ...] = ()
    asynchronous: bool = False
    besides: str = ""

    @property
    def definition(self) -> str:
        """A first line that accepts the call."""
        names = ("self", *self.arguments, *(("*", *self.keywords) if self.keywords else ()))
        return f"{'async ' if self.asynchronous else ''}def {self.name}({', '.join(names)})"


_WORLD = ("split", "world")
HOOKS = (
    Hook("load", (), ("split", "count", "seed", "world")),
    Hook("verify", ("task", "workspace", "answer", "attempt"), asynchronous=True),
    Hook("oracle", ("task",)),
    Hook("naive", ("task",)),
    Hook("known_skills", (), _WORLD),
    Hook("rules", (), (*_WORLD, "number"), besides="stated_rules"),
    Hook("stated_rules", ("skill",), (*_WORLD, "number"), besides="rules"),
    Hook("judge_rubric", ("task",)),
    Hook("open_session", ("task",), asynchronous=True),
    Hook("remarks", (), besides="left_out"),
)


def check_hooks(name: str, suite: Any) -> None:
    """Raises `ConfigError` for the first method that the lab could not call: what is wrong with it, where it is, and
    how it must begin. `name` is the suite's name in messages."""
    for problem in _problems(suite):
        raise ConfigError(f"{name}: {problem}", "suite.name")


def _problems(suite: Any) -> Iterator[str]:
    for hook in HOOKS:
        if not hasattr(suite, hook.name) or (hook.besides and not hasattr(suite, hook.besides)):
            continue
        method: Any = getattr(suite, hook.name)
        if not callable(method):
            yield f"{hook.name} is {shown(method)}, which is no method; write `{hook.definition}`"
        elif why := _refusal(hook, method):
            yield f"{hook.name}() {why}{place_of(method)}; write `{hook.definition}`"


def _refusal(hook: Hook, method: Callable[..., Any]) -> str:
    """Why a method does not accept the call; "" if it does, or if its signature is unknown."""
    try:
        signature = inspect.signature(method)
    except (TypeError, ValueError):
        return "has no parameter `self`" if inspect.ismethod(method) else ""
    try:
        signature.bind(*hook.arguments, **dict.fromkeys(hook.keywords))
    except TypeError as error:
        return f"does not accept what the lab passes: {error}"
    return ""
