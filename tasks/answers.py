"""Answer keys, used to detect leaked answers. Agents never see them."""

import io
import re
import zipfile
from collections.abc import Callable, Sequence
from typing import NamedTuple

from hermes_lab.protocols import Sandbox, Suite
from hermes_lab.rollout import setup_workspace
from hermes_lab.tasks.evidence import LARGEST, read_bytes
from hermes_lab.tasks.play import play
from hermes_lab.tasks.subtasks import subtasks_of
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.types import Task

_MOST_FILES = 500


class AnswerKey(NamedTuple):
    """The texts of a right `answer`, and the texts `known` without solving the task: the task's own and its rules."""

    answer: tuple[str, ...]
    known: tuple[str, ...]


async def answer_key(suite: Suite, task: Task, open_sandbox: Callable[[], Sandbox]) -> AnswerKey | None:
    """The answer of a task: what the oracle writes in a fresh sandbox, or the expected output. None if the task has
    neither. Raises `InfraError` if the sandbox fails."""
    known = [task.prompt, *task.files.values(), *(f"{page.title}\n{page.text}" for page in task.pages)]
    if not isinstance(suite, WorldSuite):
        expected = task.truth.get("expected_output")
        return AnswerKey((expected,), tuple(known)) if isinstance(expected, str) else None
    subtasks = subtasks_of(task.truth)
    for subtask in subtasks:
        for rule in (subtask.site.drawn, *subtask.candidates):
            known += [
                subtask.site.family.skill_body(subtask.site.entity, subtask.site.site_config, rule),
                rule.instruction,
                *rule.paraphrases,
            ]
    outputs = [subtask.path(path) for subtask in subtasks for path in subtask.instance.outputs]
    async with open_sandbox() as sandbox:
        await setup_workspace(task, sandbox)
        known += await _texts(sandbox, await _files(sandbox))
        await play(suite.oracle(task), task, sandbox, suite)
        return AnswerKey(tuple(await _texts(sandbox, outputs)), tuple(known))


async def _files(sandbox: Sandbox) -> list[str]:
    """The initial files of the workspace."""
    found = await sandbox.exec(f"find . -type f -size -{LARGEST // 1024}k | head -n {_MOST_FILES}", fresh=True)
    return [line.removeprefix("./") for line in found.output.splitlines()]


async def _texts(sandbox: Sandbox, paths: Sequence[str]) -> list[str]:
    """The names and texts of files. For an office file (a zip of XML) that is the text between the tags; other binary
    files and folders count as empty."""
    found = list(paths)
    for path in paths:
        data = await read_bytes(sandbox, path) or b""
        found.append(_unzipped(data) if data.startswith(b"PK") else data.decode(errors="ignore"))
    return found


def _unzipped(data: bytes) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as parts:
            xml = [parts.read(name).decode(errors="ignore") for name in parts.namelist() if name.endswith(".xml")]
    except (zipfile.BadZipFile, RuntimeError):
        return ""
    return re.sub(r"<[^>]*>", "\n", "\n".join(xml))
