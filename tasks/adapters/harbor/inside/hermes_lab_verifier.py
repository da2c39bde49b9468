"""A pytest plugin: notes how each session ended, what it collected, and which modules the tests themselves lack."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from typing import Any

_FOLDER = os.environ.get("HERMES_LAB_VERIFIER", "")
_tests: dict[str, str] = {}
_began = int(1000 * time.time())


def _note(name: str, line: dict[str, Any]) -> None:
    if _FOLDER:
        with open(os.path.join(_FOLDER, name), "a") as file:
            file.write(json.dumps(line) + "\n")


def pytest_addoption(parser: Any) -> None:
    """The option of pytest-json-ctrf, where that is not installed."""
    with contextlib.suppress(ValueError):
        parser.addoption("--ctrf", dest="hermes_lab_ctrf", default=None)


def pytest_exception_interact(call: Any) -> None:
    """Notes a missing module, and the file that asked for it."""
    error = call.excinfo.value
    while error is not None and not isinstance(error, ModuleNotFoundError):
        error = error.__cause__
    if error is None:
        return
    file, trace = "", error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        file = file if name.startswith("<frozen") else name
        trace = trace.tb_next
    _note("record", {"no_module": str(error.name), "file": os.path.realpath(file)})


def pytest_runtest_logreport(report: Any) -> None:
    """A test passes if no part of it fails; one that is skipped counts as neither."""
    before = _tests.get(report.nodeid)
    if report.failed:
        _tests[report.nodeid] = "failed"
    elif report.skipped and before != "failed":
        _tests[report.nodeid] = "skipped"
    elif report.when == "call" and before is None:
        _tests[report.nodeid] = "passed"


def pytest_sessionfinish(session: Any, exitstatus: int) -> None:
    """Notes the end, and writes the report that pytest-json-ctrf would have written."""
    if hasattr(session.config, "workerinput"):
        return
    arguments = [str(each).split("::")[0] for each in session.config.args]
    _note("record", {"pytest": int(exitstatus), "collected": session.testscollected, "arguments": arguments})
    _note("tests", _tests)
    path = session.config.getoption("hermes_lab_ctrf", None)
    if path:
        _write_ctrf(path)


def _write_ctrf(path: str) -> None:
    outcomes = list(_tests.values())
    summary: dict[str, int] = {name: outcomes.count(name) for name in ("passed", "failed", "skipped")}
    summary.update(tests=len(outcomes), pending=0, other=0, start=_began, stop=int(1000 * time.time()))
    tests = [{"name": name, "status": outcome, "duration": 0} for name, outcome in _tests.items()]
    report = {"results": {"tool": {"name": "pytest"}, "summary": summary, "tests": tests}}
    try:
        with open(path, "w") as file:
            json.dump(report, file)
    except OSError as error:
        print(f"--ctrf: {error}", file=sys.stderr)
