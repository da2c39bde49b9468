"""How Python of an agent is judged: by its results alone, which are compared outside of the sandbox."""

import base64
import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from hermes_lab.protocols import Workspace
from hermes_lab.tasks.evidence import inputs_untouched, read_bytes
from hermes_lab.tasks.family import Criterion, TaskInstance, criterion

Step = tuple[str, str, Sequence[Any] | None]
"""A call of a module's function with arguments; or, with None, the value of a name of the module."""
Outcome = list[Any]
"""The one result of a step; empty where it failed."""

LONGEST_MODULE = 10_000
"""Bytes of a module that is judged; those of the families have at most a quarter of it."""
SECONDS = 10.0
"""How long all steps of a judgement may take together."""


async def run_sessions(
    workspace: Workspace, sources: Mapping[str, bytes], sessions: Sequence[Sequence[Step]], seconds: float = SECONDS
) -> list[list[Outcome]] | None:
    """Plays each session on a package that is imported anew; None where its first module does not load, ends the
    process or does not come to an end.

    What runs is the text of `sources`, by path: the interpreter is isolated and looks at no file of the workspace. The
    results that are wanted stay here.
    """
    work = {
        "sources": {module_name(path): base64.b64encode(source).decode() for path, source in sources.items()},
        "sessions": sessions,
    }
    command = shlex.join(["python3", "-I", "-S", "-c", _driver(), json.dumps(work)])
    ran = await workspace.exec(command, timeout=seconds, fresh=True)
    return None if ran.exit_code != 0 or ran.timed_out else _read_results(ran.output, [len(s) for s in sessions])


def module_name(path: str) -> str:
    """How the file at a path is imported."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def share_right(found: Sequence[Outcome] | None, wanted: Sequence[Any]) -> float:
    """The share of steps that gave the result that is wanted."""
    if not found:
        return 0.0
    return sum(outcome == [want] for outcome, want in zip(found, wanted, strict=True)) / len(wanted)


def share(name: str, part: float, reason: str, *, ruled: bool = False) -> Criterion:
    """A criterion that holds in part; `reason` says what is wrong where it does not hold in full."""
    return Criterion(name, part, "" if part == 1.0 else reason, ruled)


def changed_lines(before: str, after: bytes) -> int:
    """Lines added and lines removed, counted together. A line that moves counts as none."""
    old, new = Counter(before.encode().splitlines()), Counter(after.splitlines())
    return (old - new).total() + (new - old).total()


class Mended(NamedTuple):
    """What a look at the files tells, before anything runs."""

    module: bytes
    """The text of the module that was to be mended; empty where there is none."""
    criteria: tuple[Criterion, ...]

    @property
    def sound(self) -> bool:
        """Whether it is worth running."""
        return all(each.score == 1.0 for each in self.criteria)


async def read_mended(workspace: Workspace, instance: TaskInstance, path: str, most_lines: int) -> Mended:
    """Reads the module at `path`, and sees that it was changed a little and the inputs of the scene not at all."""
    found = await read_bytes(workspace, path, LONGEST_MODULE)
    changed = 0 if found is None else changed_lines(instance.files[path], found)
    return Mended(
        found or b"",
        (
            criterion("module_present", found is not None, f"{path} is missing, too long, or no plain file"),
            criterion("small_diff", changed <= most_lines, f"a fix changes at most {most_lines} lines of {path}"),
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


@cache
def _driver() -> str:
    return Path(__file__).with_name("driver.py").read_text()
