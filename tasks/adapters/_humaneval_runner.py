"""Runs packaged tests of HumanEval outside the harness: `python -I -S _humaneval_runner.py < orders > results`.

An order is a program, its test and the name of the tested function, as JSON. A result is how the test ended, and the
calls it made. The candidate is the function of the program, or a replay of the order's `answers`.
"""

import ast
import json
import os
import random
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any

_SECONDS = 2  # of CPU time, so that a loaded machine kills nothing
_PATIENCE = 60
_MEMORY = 1 << 30
_CALLS = 2000


def main() -> None:
    """Runs each order in its own process."""
    json.dump([_apart(order) for order in json.load(sys.stdin)], sys.stdout)


def _apart(order: dict[str, Any]) -> dict[str, Any]:
    reading, writing = os.pipe()
    if not (child := os.fork()):
        signal.alarm(_PATIENCE)
        resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        with os.fdopen(writing, "w") as out:
            json.dump(run(order), out)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        text = told.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"ended": "killed", "calls": []}


def run(order: dict[str, Any]) -> dict[str, Any]:
    """How one test ends: passed, failed, or with an error."""
    random.seed(0)  # some tests have random inputs
    calls: list[str] = []
    names: dict[str, Any] = {}
    try:
        exec(order["program"], names)  # noqa: S102
        tested = names[order["entry_point"]] if "answers" not in order else _replayed(order)
        exec(order["test"], names)  # noqa: S102
        names["check"](_recorded(tested, calls))
    except AssertionError:
        return {"ended": "failed", "calls": calls}
    except BaseException as error:
        return {"ended": "error", "calls": calls, "why": f"{type(error).__name__}: {error}"}
    return {"ended": "passed", "calls": calls}


def _recorded(function: Callable[..., Any], calls: list[str]) -> Callable[..., Any]:
    def candidate(*arguments: Any) -> Any:
        if len(calls) >= _CALLS:
            raise RuntimeError("too many calls")
        calls.append(repr(arguments))
        return function(*arguments)

    return candidate


def _replayed(order: dict[str, Any]) -> Callable[..., Any]:
    """Replays the answers in order; raises on other arguments."""
    told = iter(zip(order["calls"], order["answers"], strict=True))

    def candidate(*arguments: Any) -> Any:
        asked, answer = next(told)
        if asked != repr(arguments) or answer is None:
            raise ValueError("no answer")
        return ast.literal_eval(answer)

    return candidate


if __name__ == "__main__":
    main()
