"""BFCL multi-turn (Berkeley Function Calling Leaderboard v4, bfcl-eval, Apache-2.0): user turns and stateful tools.

Its executable backends run in this process, one set per episode. Its own checker judges: it executes the agent's calls
again, next to the packaged solution, and compares states and answers after every turn.
"""

import copy
import json
import secrets
from functools import partial
from typing import Any

import anyio.to_thread

from hermes_lab.errors import ConfigError, ToolError
from hermes_lab.protocols import Workspace
from hermes_lab.suites import Turn
from hermes_lab.tasks.adapters._bfcl_entries import CATEGORIES, Entry, Function, backend_class, read_entries, solve
from hermes_lab.tasks.adapters._oracle import Part
from hermes_lab.tasks.draws import Draws
from hermes_lab.tools.given import given_tool
from hermes_lab.tools.registry import Tool
from hermes_lab.types import Task, Verdict

FLAWS = {"multi_turn_miss_func_49": "its packaged solution calls `tail` two turns before `tail` is given"}


def load() -> "Bfcl":
    """The suite. Raises `ConfigError` if bfcl-eval is not installed."""
    read_entries(CATEGORIES[0])
    return Bfcl()


def flaw(task: Task) -> str:
    """Why the package has no solution."""
    return FLAWS.get(task.id, "")


def script(task: Task) -> tuple[Part, ...]:
    """The packaged solution."""
    entry = _entry(task)
    return tuple(Part(solve(entry, turn)) for turn in range(len(entry.turns)))


class Bfcl:
    """200 tasks per category; each category is a split. Seed 0 keeps their order, others shuffle it."""

    name = "bfcl"
    splits = CATEGORIES

    def load(self, *, split: str, count: int, seed: int, world: int) -> list[Task]:
        """The first `count` tasks in the order of the seed, all for a count of 0; `world` has no effect."""
        if split not in self.splits:
            raise ConfigError(f"suite.split: bfcl has no split {split!r}; there are: {', '.join(self.splits)}")
        entries = read_entries(split)
        if count > len(entries):
            raise ConfigError(f"{count} tasks are wanted, but bfcl's {split} has {len(entries)}", "suite.count")
        chosen = Draws("bfcl", seed).shuffled(entries) if seed else entries
        return [_task(entry) for entry in chosen[: count or None]]

    async def open_session(self, task: Task) -> "BfclStage":
        """New backends in the initial state of the entry."""
        return await anyio.to_thread.run_sync(BfclStage, _entry(task))

    async def verify(self, task: Task, workspace: Workspace, answer: str | None, attempt: int = 1) -> Verdict:
        """The verdict on an episode without a session: no calls were made."""
        return await (await self.open_session(task)).verify(workspace, answer, attempt)


class BfclStage:
    """The backends of one episode, and the calls of each turn."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self._called: list[list[str]] = [[]]
        self._backends = {name: _backend(name, entry) for name in entry.raw["involved_classes"]}
        self.tools = self._tools(entry.functions)

    async def next_user_turn(self, answer: str | None) -> Turn | None:
        """The next user message. It describes newly added functions, which can be called from now on."""
        number = len(self._called)
        if number == len(self._entry.turns):
            return None
        self._called.append([])
        if not (late := self._entry.held_out.get(number)):
            return Turn(self._entry.turns[number])
        return Turn(_offered(late), self._tools(late))

    async def verify(self, workspace: Workspace, answer: str | None, attempt: int = 1) -> Verdict:
        """The verdict of the packaged checker, with its reason."""
        error = await anyio.to_thread.run_sync(_objection, self._entry, [list(turn) for turn in self._called])
        success = not error
        return Verdict(
            float(success), success, {"checker": float(success)}, reasons={"checker": error} if error else {}
        )

    async def aclose(self) -> None:
        """Nothing to release."""

    def _tools(self, functions: tuple[Function, ...]) -> tuple[Tool, ...]:
        return tuple(given_tool(f.name, f.description, f.parameters, partial(self._call, f)) for f in functions)

    def _call(self, function: Function, **arguments: Any) -> dict[str, Any]:
        written = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        self._called[-1].append(f"{function.name}({written})")
        try:
            result = getattr(self._backends[function.backend], function.name)(**arguments)
        except Exception as error:
            raise ToolError(f"Error during execution: {error}") from error
        return _answer(result)


def _task(entry: Entry) -> Task:
    return Task(
        id=entry.id,
        suite="bfcl",
        prompt=entry.turns[0],
        split=entry.category,
        metadata={"family": f"bfcl_{entry.category}", "backends": "+".join(entry.raw["involved_classes"])},
    )


def _entry(task: Task) -> Entry:
    return next(entry for entry in read_entries(task.split) if entry.id == task.id)


def _backend(name: str, entry: Entry) -> Any:
    from bfcl_eval.constants.executable_backend_config import STATELESS_CLASSES

    backend = backend_class(name)()
    if name not in STATELESS_CLASSES:
        scenario = copy.deepcopy(entry.raw["initial_config"].get(name, {}))
        backend._load_scenario(scenario, long_context=entry.category == "long_context")
    return backend


def _offered(late: tuple[Function, ...]) -> str:
    from bfcl_eval.constants.default_prompts import DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC

    return f"{json.dumps([f.schema for f in late])}\n{DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC}"


def _answer(result: Any) -> dict[str, Any]:
    """The result of a backend, formatted as by the packaged runner, in an object."""
    if not isinstance(result, dict):
        return {"result": result if isinstance(result, str) else str(result)}
    try:
        json.dumps(result)
    except (TypeError, ValueError):
        return {"result": str(result)}
    return result


def _objection(entry: Entry, called: list[list[str]]) -> str:
    """Why the packaged checker rejects these calls; "" if it accepts them."""
    from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_utils
    from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import multi_turn_checker

    if len(called) < len(entry.turns):  # as the packaged runner does
        return f"multi_turn:force_terminated: {len(called)} of {len(entry.turns)} turns were played"
    model = f"hermes_lab_{secrets.token_hex(8)}"
    steps = [[[call] for call in turn] for turn in called]
    try:
        found = multi_turn_checker(steps, entry.solution, entry.raw, f"multi_turn_{entry.category}", model)
    finally:  # it keeps instances in module variables, by model name
        for name in [name for name in vars(multi_turn_utils) if name.startswith(model)]:
            delattr(multi_turn_utils, name)
    return "" if found["valid"] else f"{found['error_type']}: {found['error_message']}"
