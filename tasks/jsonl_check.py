"""Checks the rows of a JSONL file. They have no oracle, but unusable tasks can be detected without one."""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

import anyio

from hermes_lab.errors import SandboxError, VerifierError
from hermes_lab.protocols import Sandbox
from hermes_lab.rollout import setup_workspace
from hermes_lab.tasks.jsonl import SPLIT, JsonlSuite
from hermes_lab.tasks.proof import AT_ONCE, NOOP_ANSWER, OpenSandbox
from hermes_lab.tasks.rubric import is_knowledge
from hermes_lab.types import Task

FEWEST_WORDS = 4
"""Minimum words of a prompt; fewer cannot say what to do with what."""
_PATH = re.compile(r"(?<![\w$*?./-])[\w.+-]*[\w+-][./][\w./+-]*\w")
_TESTED = re.compile(r"(?:\[|\btest)\s+(?:!\s+)?-[a-zA-Z]\s+[\"']?([\w.+-][\w./+-]*)|<\s*[\"']?([\w.+-][\w./+-]*)")
_SYSTEM = re.compile(r"/?(?:dev|usr|bin|proc|etc)/|[\d.]+$")


async def check_rows(suite: JsonlSuite, open_sandbox: OpenSandbox, count: int = 0) -> list[str]:
    """Problems of the first `count` rows (0: all), as `FILE:LINE: ...`; at most one per row."""
    tasks = suite.load(split=SPLIT, count=min(count, suite.size), seed=0, world=0)
    found: dict[int, str] = {}
    slots = anyio.CapacityLimiter(AT_ONCE)

    async def one(task: Task) -> None:
        async with slots:
            objection = await objection_to(suite, task, open_sandbox)
        if objection:
            found[task.truth["line"]] = objection

    async with anyio.create_task_group() as group:
        for task in tasks:
            group.start_soon(one, task)
    return [f"{suite.path}:{line}: {found[line]}" for line in sorted(found)]


async def objection_to(suite: JsonlSuite, task: Task, open_sandbox: OpenSandbox) -> str:
    """Why a row is rejected; "" for a good one. The task itself is not solved, since rows have no oracle."""
    expected, commands, rubric = task.truth["expected_output"], task.truth["verify"], suite.judge_rubric(task)
    if expected is None and not commands and not rubric:
        return "is vague: nothing can judge it; give `verify`, `expected_output` or `judge`"
    if rubric and len(rubric.split()) < FEWEST_WORDS:
        return f"is vague: its rubric `judge` has fewer than {FEWEST_WORDS} words; say what makes an answer right"
    if len(task.prompt.split()) < FEWEST_WORDS:
        return f"is vague: its prompt has fewer than {FEWEST_WORDS} words; say what to do with what"
    if not commands and is_knowledge(task):
        return (
            "is knowledge only: it can be answered without a tool, and its answer alone is judged; give it `files`, "
            "or judge the workspace with `verify`"
        )
    if not commands and not (task.setup or task.pages) and not _names(task.prompt, task.files):
        return (
            "is knowledge only: its prompt names none of its `files`, and its answer alone is judged; name one, "
            "or judge the workspace with `verify`"
        )
    judged = mentioned(commands)
    known = "\n".join((task.prompt, *task.files, *task.files.values(), *task.setup, *(p.text for p in task.pages)))
    if expected is None and not rubric and judged and not _names(known, judged):
        return f"is vague: neither prompt nor files name what `verify` looks at: {', '.join(judged)}"
    try:
        verdicts = [*await _verdicts(suite, task, open_sandbox, 2), *await _verdicts(suite, task, open_sandbox, 1)]
    except SandboxError as error:
        return f"cannot be set up: {error}"
    except VerifierError as error:
        where = f"{suite.path}:{task.truth['line']}: "
        return f"cannot be judged: {str(error).removeprefix(where)}"
    if any(verdict != verdicts[0] for verdict in verdicts):
        return "is flaky: repeated verdicts on the untouched workspace differ"
    # What a judge would say of the answer is not asked: it costs money, and it is no proof.
    if verdicts[0]["success"] and not rubric:
        return "passes as it stands: `verify` succeeds in the untouched workspace"
    return ""


def mentioned(commands: Iterable[str]) -> list[str]:
    """The paths in commands: words that look like paths, or that are tested or redirected from."""
    found = []
    for command in commands:
        found += _PATH.findall(command)
        found += [one or other for one, other in _TESTED.findall(command)]
    return [path for path in dict.fromkeys(found) if not _SYSTEM.match(path)]


def _names(text: str, paths: Iterable[str]) -> bool:
    """Whether `text` names one of `paths`: in full, by a folder, or by the file name with or without its extension."""
    parts = {
        part for path in paths for part in (path, *PurePosixPath(path).parts, PurePosixPath(path).name.split(".")[0])
    }
    parts.discard("")
    return any(re.search(rf"(?<![\w-]){re.escape(part)}(?![\w-])", text, re.IGNORECASE) for part in parts)


async def _verdicts(suite: JsonlSuite, task: Task, open_sandbox: OpenSandbox, times: int) -> list[dict[str, float]]:
    """Repeated verdicts on the untouched workspace, in one sandbox."""
    async with open_sandbox() as sandbox:
        await setup_workspace(task, sandbox)
        return [await _verdict(suite, task, sandbox) for _ in range(times)]


async def _verdict(suite: JsonlSuite, task: Task, sandbox: Sandbox) -> dict[str, float]:
    verdict = await suite.verify(task, sandbox, NOOP_ANSWER)
    if verdict is None:  # only a model judges it
        return {"success": 0.0}
    return {**verdict.criteria, "success": verdict.success}
