"""Runs inside a sandbox, on any Python 3: calls the function of a compiled skill, or runs its tests.

    python3 -I -B sandbox_runner.py call ORDER.json         prints one line of JSON: "result" or "error", and "output"
    python3 -I -B sandbox_runner.py test NAME SCRIPT TESTS  exits with 0 if all tests passed and one called NAME

If the tests failed because a module is not installed, the last line is `missing dependency: MODULE`. The harness copies
this file into the sandbox, so it may use only the standard library.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import os
import runpy
import sys
import tempfile
import threading
import traceback
import unittest
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any

_STDLIB: frozenset[str] = getattr(sys, "stdlib_module_names", frozenset())  # from Python 3.10 on
_MAX_OUTPUT = 2000  # bytes; only the end of what a function printed is passed on


def call(order_file: str) -> None:
    """Calls a function. Captures what it and its child processes print, so that it does not mix with the answer."""
    order = json.loads(Path(order_file).read_text())
    answers = os.dup(1)
    with tempfile.TemporaryFile() as captured:
        os.dup2(captured.fileno(), 1)
        os.dup2(captured.fileno(), 2)
        answer = _outcome(order["name"], order["script"], order["arguments"])
        sys.stdout.flush()
        sys.stderr.flush()
        captured.seek(max(os.fstat(captured.fileno()).st_size - _MAX_OUTPUT, 0))
        if output := captured.read().decode(errors="replace"):
            answer["output"] = output
    line = json.dumps(answer)
    if len(line) > order["limit"]:
        much = f"the result has {len(line)} characters, more than the limit of {order['limit']}"
        line = json.dumps({"error": f"{much}: return less, or write it to a file"})
    os.write(answers, line.encode() + b"\n")


def _outcome(name: str, script: str, arguments: dict[str, Any]) -> dict[str, Any]:
    folder = str(Path(script).parent)
    sys.path.insert(0, folder)
    try:
        result = getattr(importlib.import_module(name), name)(**arguments)
    except BaseException as error:  # including SystemExit
        return {"error": _last_line(error, error.__traceback__, folder)}
    try:
        json.dumps(result, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        return {"error": f"{name} returned a value that is not JSON: {error}"}
    return {"result": result}


def _last_line(error: BaseException, trace: TracebackType | None, folder: str) -> str:
    """Formats the last line of a traceback, with the innermost line in the skill's folder."""
    what = "".join(traceback.format_exception_only(type(error), error)).strip().splitlines()[-1]
    frames = [frame for frame in traceback.extract_tb(trace) if frame.filename.startswith(folder)]
    if not frames:
        return what
    last = frames[-1]
    return f"{what} ({Path(last.filename).name}, line {last.lineno}: {last.line})"


def test(name: str, script: str, tests: str) -> int:
    """Runs a test file: first as a script, then the test functions and `TestCase`s that this did not run.

    Returns exit code 0 if nothing failed, no failure was swallowed, and, unless `name` is empty, a test called the
    function `name` of `script`; otherwise 1.
    """
    sys.path.insert(0, str(Path(script).parent))
    sys.argv = [tests]
    watch = _Watch(script, tests)
    why = ""
    threading.settrace(watch)
    sys.settrace(watch)
    try:
        _run_tests(tests, watch.ran)
    except Exception as error:
        own = error.__traceback__
        while own is not None and own.tb_frame.f_code.co_filename != tests:
            own = own.tb_next
        why = "".join(traceback.format_exception(type(error), error, own))
        if module := _missing(watch.last):
            why += f"missing dependency: {module}\n"
    finally:
        sys.settrace(None)
    if not why and watch.swallowed:
        why = (
            f"the tests swallow an error: {watch.swallowed}\ncatch a specific exception, such as `except ValueError`\n"
        )
    if not why and name and not any(code.co_name == name and code.co_filename == script for code in watch.ran):
        why = f"the tests never call {name}\n"
    sys.stdout.flush()  # print the tests' output before the reason
    sys.stderr.write(why)
    return 1 if why else 0


class _Watch:
    """A trace function that records which code ran and which exceptions reached the test file."""

    def __init__(self, script: str, tests: str) -> None:
        self.ran: set[CodeType] = set()
        self.last: BaseException | None = None
        """The last exception that reached the test file; if the tests failed, the one that ended them."""
        self.swallowed = ""
        """The first exception that a passing test cannot have expected: an `AssertionError` of its own, or an exception
        of the script caught by a broad handler. Only meaningful if the tests pass."""
        self._script = script
        self._tests = tests

    def __call__(self, frame: FrameType, event: str, value: Any) -> _Watch | None:
        if event == "call":
            self.ran.add(frame.f_code)
        elif event == "exception":
            self._raised(frame.f_lineno, value[1], value[2])
        return self if frame.f_code.co_filename == self._tests else None

    def _raised(self, line: int, error: BaseException, trace: TracebackType | None) -> None:
        if not isinstance(error, SystemExit):  # unittest.main() exits this way, after the error
            self.last = error
        if self.swallowed:
            return
        files = {frame.f_code.co_filename for frame, _ in traceback.walk_tb(trace)}
        if _is_unnamed(error, line, self._tests) if self._script in files else isinstance(error, AssertionError):
            self.swallowed = _last_line(error, trace, str(Path(self._tests).parent))


def _is_unnamed(error: BaseException, line: int, tests: str) -> bool:
    """Whether an error on this line is caught by a bare `except`, or by one for `Exception` or `BaseException`."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    broad = {"Exception", "BaseException", "object"} - {type(error).__name__}
    around = [
        node
        for node in ast.walk(ast.parse(Path(tests).read_bytes()))
        if isinstance(node, (ast.Try, ast.With)) and node.body[0].lineno <= line <= (node.body[-1].end_lineno or 0)
    ]
    for node in reversed(around):  # innermost first
        for caught in _caught(node):
            if not caught or caught & kinds:
                return not caught & (kinds - broad)
    return False


def _caught(node: ast.Try | ast.With) -> list[set[str]]:
    """Returns the exception names that each handler of a `try`, or each `suppress(...)`, catches; empty means all."""
    if isinstance(node, ast.Try):
        return [_names(handler.type) if handler.type else set() for handler in node.handlers]
    calls = [item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call)]
    return [set().union(*map(_names, call.args)) for call in calls if call.args and "suppress" in _names(call.func)]


def _names(node: ast.expr) -> set[str]:
    if isinstance(node, ast.Tuple):
        return set().union(*map(_names, node.elts))
    return {ast.unparse(node).rpartition(".")[2]}


def _missing(error: BaseException | None) -> str:
    """Returns the module that an import did not find, if it is indeed not installed; otherwise ""."""
    name = error.name if isinstance(error, ModuleNotFoundError) else None
    module = (name or "").partition(".")[0]
    if not module.isidentifier() or module in _STDLIB or importlib.util.find_spec(module):
        return ""
    return module


def _run_tests(tests: str, ran: set[CodeType]) -> None:
    try:
        found = runpy.run_path(tests, run_name="__main__")
    except SystemExit as end:  # unittest.main() exits this way
        if end.code not in (None, 0):
            raise AssertionError(f"the tests ended with exit code {end.code}") from None
        return
    for key, value in found.items():
        if key.startswith("test") and getattr(value, "__code__", None) not in (None, *ran):
            value()
    for case in found.values():
        if isinstance(case, type) and issubclass(case, unittest.TestCase) and case is not unittest.TestCase:
            result = unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromTestCase(case))
            if not result.wasSuccessful():
                raise AssertionError(f"{case.__name__} failed")


if __name__ == "__main__":
    if sys.argv[1] == "call":
        call(sys.argv[2])
    else:
        sys.exit(test(*sys.argv[2:]))
