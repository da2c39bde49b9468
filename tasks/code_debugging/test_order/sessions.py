"""The sessions run on a module with state, and the right result of each step."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hermes_lab.tasks.code_debugging._runner import FixTask, Outcome, Step, module_name
from hermes_lab.tasks.code_debugging.test_order.rules import SiteConfig, State, reset_state
from hermes_lab.tasks.family import Rule


@dataclass(frozen=True, kw_only=True)
class Leak(FixTask):
    """A module whose reset has to be completed and registered."""

    site_config: SiteConfig
    verb: str
    listing: str
    start: State
    """At import."""
    broken: str
    """Its reset."""
    people: tuple[str, ...]

    @property
    def state(self) -> str:
        """The module of the hooks."""
        return f"{self.site_config.package}.state"

    @property
    def mode(self) -> str:
        """The mode of the tests."""
        return self.site_config.modes[1]

    @property
    def module(self) -> str:
        """Its name, without the package."""
        return self.path.rpartition("/")[2].removesuffix(".py")


class Play:
    """Steps and their right results, recorded while the harness simulates them."""

    def __init__(self, instance: Leak) -> None:
        self.instance = instance
        self.state = instance.start
        self.steps: list[Step] = []
        self.wanted: list[Any] = []

    def call(self, name: str, wanted: Any, *args: Any) -> None:
        self.step(module_name(self.instance.path), name, wanted, *args)

    def step(self, module: str, name: str, wanted: Any, *args: Any) -> None:
        self.steps.append((module, name, list(args)))
        self.wanted.append(wanted)

    def issue(self, *names: str) -> None:
        for name in names:
            self.state = self.state.issue(name)
            self.call(self.instance.verb, self.state.numbers[name], name)

    def change(self, name: str, state: State, *args: Any) -> None:
        self.state = state
        self.call(name, None, *args)

    def look(self) -> None:
        self.call(self.instance.listing, sorted(self.state.numbers))
        self.call("log", list(self.state.log))
        self.call("mode", self.state.mode)
        self.call("archive", list(self.state.archive))

    def work(self) -> None:
        """Everything that can be done with a module."""
        one, two, three, four, *_ = self.instance.people
        self.issue(two, one)
        self.change(
            "set_mode",
            replace(self.state, mode=self.instance.mode),
            self.instance.mode,
        )
        self.issue(*self.instance.site_config.guests)
        self.change("set_step", replace(self.state, step=3), 3)
        self.issue(four, three, one)
        self.change("retire", self.state.retire(two), two)
        self.look()


def play_use(instance: Leak) -> Play:
    """Work without a reset."""
    play = Play(instance)
    play.look()
    play.work()
    return play


def play_reset(instance: Leak, rule: Rule | None) -> Play:
    """Work, a reset, more work, and a reset of everything."""
    play = Play(instance)
    play.work()
    reset = reset_state(instance.start, play.state, rule)
    play.state = reset.state
    play.call("reset", reset.result)
    play.look()
    play.issue(*reversed(instance.people))
    play.look()
    label = reset.prefix + instance.module if reset.prefix else module_name(instance.path)
    play.step(instance.state, "hooks", [[reset.stage, label]])
    play.state = reset_state(instance.start, play.state, rule).state
    play.step(instance.state, "reset_all", None)
    play.look()
    return play


ORDERS = ((0, 1, 2), (2, 1, 0), (1, 2, 0))
"""The orders in which three tests run."""


def shuffled_tests(instance: Leak) -> list[list[Step]]:
    """A session for each order. It loads the module first, which registers its reset."""
    load: Step = (module_name(instance.path), "log", [])
    tests = _tests(instance)
    return [[load, *(step for number in order for step in tests[number])] for order in ORDERS]


def same_in_all_orders(instance: Leak, found: Sequence[Sequence[Outcome]]) -> bool:
    """Whether each test of `shuffled_tests` had the same results in every order, and nothing failed."""
    lengths = [len(test) for test in _tests(instance)]
    seen: list[dict[int, list[Outcome]]] = []
    for (_, *left), order in zip(found, ORDERS, strict=True):
        parts = {}
        for number in order:
            parts[number], left = left[: lengths[number]], left[lengths[number] :]
        seen.append(parts)
    return all(parts == seen[0] for parts in seen) and all(map(all, seen[0].values()))


def _tests(instance: Leak) -> list[list[Step]]:
    """Three tests, each after a reset of everything. None looks at state that a convention may keep over a reset."""
    module, (one, two, three, *_) = module_name(instance.path), instance.people
    reset: Step = (instance.state, "reset_all", [])
    issues: list[Step] = [(module, instance.verb, [name]) for name in (one, two, three)]
    seen: list[Step] = [(module, instance.listing, []), (module, "log", []), (module, "mode", [])]
    return [
        [reset, *seen, *issues, *seen],
        [
            reset,
            (module, "set_mode", [instance.mode]),
            (module, "set_step", [7]),
            *issues[::-1],
            *seen,
        ],
        [reset, issues[1], (module, "retire", [two]), issues[1], *seen],
    ]
