"""Judges Python of an agent by its results alone, which are compared outside the sandbox."""

import base64
import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hermes_lab.protocols import Workspace
from hermes_lab.tasks.evidence import inputs_untouched, read_bytes
from hermes_lab.tasks.family import Criterion, TaskInstance, criterion
from hermes_lab.tasks.words import read_file

Step = tuple[str, str, Sequence[Any] | None]
"""A call of a module's function with arguments; with None instead, the value of a name of the module."""
Outcome = list[Any]
"""The one result of a step; empty where it failed."""

LONGEST_MODULE = 10_000
"""Largest size of a judged module, in bytes; those of the families have at most a quarter of it."""
SECONDS = 10.0
"""Time limit for all steps of a judgement together."""


async def run_sessions(
    workspace: Workspace, sources: Mapping[str, bytes], sessions: Sequence[Sequence[Step]], seconds: float = SECONDS
) -> list[list[Outcome]] | None:
    """Runs each session on a freshly imported package; None if its first module does not load, ends the process or
    does not finish.

    The text of `sources`, by path, is what runs: the interpreter is isolated and reads no file of the workspace. The
    right results stay outside the sandbox.
    """
    work = {
        "sources": {module_name(path): base64.b64encode(source).decode() for path, source in sources.items()},
        "sessions": sessions,
    }
    command = shlex.join(["python3", "-I", "-S", "-c", read_file(__file__, "driver.py"), json.dumps(work)])
    ran = await workspace.exec(command, timeout=seconds, fresh=True)
    return None if ran.exit_code != 0 or ran.timed_out else _read_results(ran.output, [len(s) for s in sessions])


def module_name(path: str) -> str:
    """The module name of the file at a path."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def share_right(found: Sequence[Outcome] | None, wanted: Sequence[Any]) -> float:
    """The share of steps with the right result."""
    if not found:
        return 0.0
    return sum(outcome == [want] for outcome, want in zip(found, wanted, strict=True)) / len(wanted)


def share(name: str, part: float, reason: str, *, ruled: bool = False) -> Criterion:
    """A criterion with a partial score; `reason` says what is wrong below 1."""
    return Criterion(name, part, "" if part == 1.0 else reason, ruled)


def changed_lines(before: str, after: bytes) -> int:
    """Lines added plus lines removed. A moved line does not count."""
    old, new = Counter(before.encode().splitlines()), Counter(after.splitlines())
    return (old - new).total() + (new - old).total()


@dataclass(frozen=True, kw_only=True)
class FixTask(TaskInstance):
    """A task to fix the module at `path`."""

    path: str


def fix_fields(path: str, files: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a `FixTask` for the module at `path`; the other files must stay as they are."""
    others = tuple(other for other in files if other != path)
    return {"path": path, "files": files, "inputs": others, "outputs": (path,)}


class Mended(NamedTuple):
    """What the files show before anything runs."""

    module: bytes
    """The text of the module to fix; empty if it is missing."""
    criteria: tuple[Criterion, ...]

    @property
    def sound(self) -> bool:
        """Whether to run it."""
        return all(each.score == 1.0 for each in self.criteria)


async def read_mended(workspace: Workspace, instance: FixTask, most_lines: int) -> Mended:
    """Reads the module to fix, and checks that its diff is small and the inputs are unchanged."""
    path = instance.path
    found = await read_bytes(workspace, path, LONGEST_MODULE)
    changed = 0 if found is None else changed_lines(instance.files[path], found)
    return Mended(
        found or b"",
        (
            criterion("module_present", found is not None, f"{path} is missing, too long, or not a plain file"),
            criterion("small_diff", changed <= most_lines, f"a fix may change at most {most_lines} lines of {path}"),
            await inputs_untouched(workspace, instance.files, instance.inputs),
        ),
    )


def _read_results(output: str, counts: Sequence[int]) -> list[list[Outcome]] | None:
    try:
        results: Any = json.loads(output)
    except (ValueError, RecursionError):
        return None
    sound = isinstance(results, list) and len(results) == len(counts)
    return results if sound and all(map(_is_session, results, counts)) else None


def _is_session(found: object, count: int) -> bool:
    return isinstance(found, list) and len(found) == count and all(isinstance(outcome, list) for outcome in found)
