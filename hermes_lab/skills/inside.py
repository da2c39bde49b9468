"""Runs inside a sandbox, on whatever Python 3 is there: the function of a compiled skill, or its tests.

    python3 -I -B inside.py call ORDER.json             one line of JSON: {"result"} or {"error"}, and {"output"}
    python3 -I -B inside.py test NAME SCRIPT TESTS      exit code 0: every test passed, and one called NAME

The harness sends the text of this file. It uses the standard library alone.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import sys
import tempfile
import traceback
import unittest
from pathlib import Path
from types import CodeType
from typing import Any

_SAID = 2000  # bytes of what a function printed that are passed on, the last ones


def call(order_file: str) -> None:
    """Calls a function; what it and its children print is kept apart from the answer."""
    order = json.loads(Path(order_file).read_text())
    answers = os.dup(1)
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
        answer = _outcome(order["name"], order["script"], order["arguments"])
        sys.stdout.flush()
        sys.stderr.flush()
        said.seek(max(os.fstat(said.fileno()).st_size - _SAID, 0))
        if output := said.read().decode(errors="replace"):
            answer["output"] = output
    line = json.dumps(answer)
    if len(line) > order["limit"]:
        much = f"the answer is {len(line)} characters long, more than {order['limit']}"
        line = json.dumps({"error": f"{much}: return less, or write it to a file"})
    os.write(answers, line.encode() + b"\n")


def _outcome(name: str, script: str, arguments: dict[str, Any]) -> dict[str, Any]:
    folder = str(Path(script).parent)
    sys.path.insert(0, folder)
    try:
        result = getattr(importlib.import_module(name), name)(**arguments)
    except BaseException as error:  # sys.exit() too
        return {"error": _last_line(error, folder)}
    try:
        json.dumps(result, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        return {"error": f"{name} returned what is no JSON: {error}"}
    return {"result": result}


def _last_line(error: BaseException, folder: str) -> str:
    """What the traceback ends with, and the last line of the skill's own that it passed through."""
    what = "".join(traceback.format_exception_only(type(error), error)).strip().splitlines()[-1]
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(folder)]
    if not frames:
        return what
    last = frames[-1]
    return f"{what} ({Path(last.filename).name}, line {last.lineno}: {last.line})"


def test(name: str, script: str, tests: str) -> int:
    """Runs a file of tests: as a script first, then those of its test functions and cases that did not run so.

    With a `name`, a test must have called that function of `script`."""
    sys.path.insert(0, str(Path(script).parent))
    sys.argv = [tests]
    ran: set[CodeType] = set()
    sys.setprofile(lambda frame, event, _: ran.add(frame.f_code) if event == "call" else None)
    try:
        _run_tests(tests, ran)
    except Exception as error:
        own = error.__traceback__
        while own is not None and own.tb_frame.f_code.co_filename != tests:
            own = own.tb_next
        traceback.print_exception(type(error), error, own)
        return 1
    finally:
        sys.setprofile(None)
    if name and not any(code.co_name == name and code.co_filename == script for code in ran):
        print(f"the tests never call {name}")  # noqa: T201
        return 1
    return 0


def _run_tests(tests: str, ran: set[CodeType]) -> None:
    try:
        found = runpy.run_path(tests, run_name="__main__")
    except SystemExit as end:  # unittest.main() ends so
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
