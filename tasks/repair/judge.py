"""How a fixed module is judged: by its results alone, which are compared outside of the sandbox."""

import base64
import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from hermes_lab.protocols import Workspace
from tasks.repair.topic import Args, Json

Results = list[list[Json]]
"""One list a call: its result, or nothing where the call failed."""


async def run_calls(
    workspace: Workspace,
    others: Mapping[str, str],
    path: str,
    module: bytes,
    function: str,
    calls: Sequence[Args],
    *,
    seconds: float,
) -> Results | None:
    """Runs `calls` in the sandbox; None where the module does not load, ends the process or does not come to an end.

    What runs is the text that the harness read, with the package's `others` as they were given out: the interpreter is
    isolated and looks at no file of the workspace. The results that are wanted stay here.
    """
    package = path.split("/")[0]
    sources = {_module_name(file): text.encode() for file, text in others.items() if file.startswith(f"{package}/")}
    sources[_module_name(path)] = module
    work = {
        "sources": {name: base64.b64encode(source).decode() for name, source in sources.items()},
        "module": _module_name(path),
        "function": function,
        "calls": calls,
    }
    command = shlex.join(["python3", "-I", "-S", "-c", _driver(), json.dumps(work)])
    ran = await workspace.exec(command, timeout=seconds, fresh=True)
    return None if ran.exit_code != 0 or ran.timed_out else _read_results(ran.output, len(calls))


def share_right(calls: Mapping[str, Sequence[tuple[Args, Json]]], results: Results | None) -> dict[str, float]:
    """The share of each kind's calls that gave the result that is wanted; `results` are those of all kinds in order."""
    shares, place = {}, 0
    for kind, wanted in calls.items():
        found = results[place : place + len(wanted)] if results else [[]] * len(wanted)
        place += len(wanted)
        shares[kind] = sum(f == [want] for f, (_, want) in zip(found, wanted, strict=True)) / len(wanted)
    return shares


def changed_lines(before: str, after: bytes) -> int:
    """Lines added and lines removed, counted together. A line that moves counts as none."""
    old, new = Counter(before.encode().splitlines()), Counter(after.splitlines())
    return (old - new).total() + (new - old).total()


def _read_results(output: str, count: int) -> Results | None:
    try:
        results: Any = json.loads(output)
    except (ValueError, RecursionError):
        return None
    sound = isinstance(results, list) and len(results) == count and all(isinstance(r, list) for r in results)
    return results if sound else None


def _module_name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def _driver() -> str:
    return Path(__file__).with_name("driver.py").read_text()
