"""JSONL suites: one task per line; only `prompt` is required."""

import re
import secrets
import shlex
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import msgspec

from hermes_lab.errors import ConfigError, VerifierError
from hermes_lab.protocols import ExecResult, Workspace
from hermes_lab.tasks.draws import Draws
from hermes_lab.text.clip import clip
from hermes_lab.types import Page, Task, Verdict

SPLIT = "train"
_CANNOT_RUN = (126, 127)
"""Bash's exit codes for a command that is not executable, or not found. A script of the agent may end so, too."""
_SEARCHED = re.compile(r"(?:exec: )?(?P<what>.+): (?:command )?not found")
_WRAPPERS = frozenset({"command", "env", "exec", "nice", "nohup", "setsid", "stdbuf", "time", "timeout"})
"""Commands that run another one, and hide from bash that it cannot be found."""
_SHOWN = 80
"""Characters of a command in an error."""
_FEEDBACK = 2000
"""Characters of a command's output that the agent gets as feedback."""
_REJECTED = "Rejected."
"""The feedback if no failing command printed any."""
_STDOUT_ONLY = "exec 2>/dev/null\n"
"""Before a command whose output is feedback: messages of bash or of a traceback are not written for the agent."""
_MOST_NESTED = 100
"""Maximum nesting of `metadata`. It is copied to the episodes, which are encoded and decoded with less stack left."""


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of the file.

    `expected_output` is compared with the final answer; runs of whitespace count as one space. `verify` is one or more
    bash commands that run in the workspace after the agent; exit code 0 is success. `judge` is a rubric by which a
    model grades the final answer (`judge` in the run's configuration). All that are given must hold; if none is, the
    task is not scored. `files` maps paths in the workspace to their text; the bash commands of `setup` then create
    anything else. `pages` are the web pages that the agent can search.

    `attempts` is how often the agent may submit. With `feedback`, a rejection tells the agent what the failing `verify`
    commands wrote to standard output. The two need each other: without feedback there is no second submission.
    """

    prompt: str
    id: str = ""
    expected_output: str | None = None
    files: dict[str, str] = {}
    setup: str | list[str] = []
    pages: list[Page] = []
    verify: str | list[str] | None = None
    judge: str | None = None
    attempts: Annotated[int, msgspec.Meta(ge=1)] = 1
    feedback: bool = False
    domain: str = "open_ended"
    metadata: dict[str, Any] = {}


class JsonlSuite:
    """The tasks of one file. Seed 0 keeps their order, any other seed shuffles them; `world` has no effect."""

    splits = (SPLIT,)

    def __init__(self, path: Path) -> None:
        self.name = path.stem.replace("|", "-") or "jsonl"
        self.path = path
        self._tasks = self._read()

    @property
    def size(self) -> int:
        """The number of tasks."""
        return len(self._tasks)

    def load(self, *, split: str, count: int, seed: int, world: int) -> list[Task]:
        """The first `count` tasks in the order of the seed; all tasks for a count of 0."""
        if split != SPLIT:
            raise ConfigError(f"suite.split: a JSONL suite only has {SPLIT!r}, not {split!r}; leave the field out")
        if count > len(self._tasks):
            raise ConfigError(f"{count} tasks requested, but {self.path} has {len(self._tasks)}", "suite.count")
        tasks = Draws("jsonl", seed).shuffled(self._tasks) if seed else self._tasks
        return tasks[: count or None]

    async def verify(self, task: Task, workspace: Workspace, answer: str | None, attempt: int = 1) -> Verdict | None:
        """One criterion for the expected output and one per command; all must hold. None if the row has neither. For a
        row with `feedback`, a rejection has the standard output of the commands that failed.

        Raises `VerifierError` for a command that cannot run: that is not the agent's failure.
        """
        criteria: dict[str, float] = {}
        told: list[str] = []
        feedback = bool(task.truth.get("feedback"))
        expected: str | None = task.truth["expected_output"]
        if expected is not None:
            criteria["expected_output"] = float(answer is not None and answer.split() == expected.split())
        for number, command in enumerate(task.truth["verify"], 1):
            result = await workspace.exec(f"{_STDOUT_ONLY if feedback else ''}{command}", fresh=True)
            if result.exit_code in _CANNOT_RUN and (why := await _cannot_run(command, result, task, workspace)):
                raise VerifierError(f"{self.path}:{task.truth['line']}: {why}")
            criteria[f"verify_{number}"] = held = float(result.exit_code == 0 and not result.timed_out)
            if not held and (output := result.output.strip()):
                told.append(output)
        if not criteria:
            return None
        success = all(criteria.values())
        said = clip("\n".join(told) or _REJECTED, _FEEDBACK).text if feedback and not success else ""
        return Verdict(score=float(success), success=success, criteria=criteria, feedback=said)

    def judge_rubric(self, task: Task) -> str:
        """See `JudgedSuite`."""
        return str(task.truth.get("judge", ""))

    def _read(self) -> list[Task]:
        tasks: list[Task] = []
        known: set[str] = set()
        for number, line in self._lines():
            where = f"{self.path}:{number}"
            task = self._task(_decode(line, where), number, where)
            if task.id in known:
                first = next(each.truth["line"] for each in tasks if each.id == task.id)
                raise ConfigError(f"{where}: field id: {task.id!r} is also line {first}; ids are unique")
            known.add(task.id)
            tasks.append(task)
        if not tasks:
            raise ConfigError(f"{self.path}:1: no tasks; write one JSON object per line, with at least a prompt")
        return tasks

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        """The non-blank lines with their numbers."""
        try:
            with self.path.open("rb") as file:
                for number, line in enumerate(file, 1):
                    text = line.removeprefix(b"\xef\xbb\xbf")  # concatenated files have a BOM in the middle
                    if text.strip():
                        yield number, text.rstrip(b"\n")
        except OSError as error:
            raise ConfigError(f"suite.path: {self.path} cannot be read: {error.strerror}") from None

    def _task(self, row: Row, number: int, where: str) -> Task:
        _check(row, where)
        return Task(
            id=row.id or f"row-{number:06d}",
            suite=self.name,
            prompt=row.prompt,
            domain=row.domain,
            split=SPLIT,
            files=row.files,
            setup=tuple(_listed(row.setup)),
            pages=tuple(row.pages),
            attempts=row.attempts,
            truth={"expected_output": row.expected_output, "verify": _listed(row.verify), "line": number}
            # Only if given, so that the digest of other tasks stays the same.
            | ({"judge": row.judge} if row.judge else {})
            | ({"feedback": True} if row.feedback else {}),
            metadata=row.metadata,
        )


async def _cannot_run(command: str, result: ExecResult, task: Task, workspace: Workspace) -> str:
    """Why the row's own command cannot run; "" if it ran something of the agent's that ended with this code.

    Bash reports what it cannot run under a random name, which no script of the agent can imitate. A missing file that
    the task asks the agent to write is the agent's failure.
    """
    name = f"verify-{secrets.token_hex(8)}"
    again = await workspace.exec(f"BASH_ARGV0={name}\n{command}", fresh=True)
    said = re.findall(rf"^{name}: line \d+: (.+)$", again.output, re.MULTILINE)
    why = said[-1] if said else await _not_found(command, workspace)
    if not why or _is_agents(why, result.exit_code, task):
        return ""
    shown = command if len(command) <= _SHOWN else f"{command[:_SHOWN]}..."
    return f"verify command {shown!r} cannot run (exit code {result.exit_code}): {why}"


async def _not_found(command: str, workspace: Workspace) -> str:
    """Whether the first program of a command is missing, where bash says nothing: behind `timeout`, or with its
    messages discarded."""
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    wrapped = False
    for word in words:
        if word in _WRAPPERS:
            wrapped = True
        elif re.fullmatch(r"\w+=.*", word) or (wrapped and re.match(r"-|[\d.]+[smhd]?$", word)):
            continue
        elif "/" in word or not re.fullmatch(r"[\w.+-]+", word):
            return ""
        else:
            found = await workspace.exec(f"type {shlex.quote(word)} >/dev/null 2>&1", fresh=True)
            return "" if found.exit_code == 0 else f"{word}: command not found"
    return ""


def _is_agents(why: str, code: int, task: Task) -> bool:
    """Whether what cannot run is the agent's work: a path in the workspace that the task names."""
    path = why.partition(": ")[0]
    if _SEARCHED.fullmatch(why) or path.startswith("/"):
        return False
    given = task.files.get(str(PurePosixPath(path)))
    if code == _CANNOT_RUN[0] and given is not None and not given.startswith("#!"):
        return False  # the row's file was never executable
    known = (task.prompt, *task.files, *task.files.values(), *task.setup)
    return any(PurePosixPath(path).name in text for text in known)


def _decode(line: bytes, where: str) -> Row:
    try:
        return msgspec.convert(_without_nulls(msgspec.json.decode(line)), Row)
    except msgspec.ValidationError as error:
        reason, _, at = str(error).partition(" - at ")
        if at:
            field = at.strip("`").removeprefix("$.")
            raise ConfigError(f"{where}: field {field}: {_lower(reason)}; give the right type") from None
        fields = ", ".join(Row.__struct_fields__)
        raise ConfigError(f"{where}: {_lower(reason)}; a row is an object with the fields {fields}") from None
    except RecursionError:
        raise ConfigError(f"{where}: nested too deeply; at most {_MOST_NESTED} levels are supported") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{where}: not JSON: {error}; write one JSON object per line") from None


def _without_nulls(row: Any) -> Any:
    """Leaves out fields and files that are null, as they are where a table has one column for the rows of all kinds."""
    if not isinstance(row, dict):
        return row
    given = {name: value for name, value in row.items() if value is not None}
    if isinstance(files := given.get("files"), dict):
        given["files"] = {path: text for path, text in files.items() if text is not None}
    return given


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _listed(commands: str | list[str] | None) -> list[str]:
    return [commands] if isinstance(commands, str) else commands or []


def _check(row: Row, where: str) -> None:
    if not row.prompt.strip():
        raise ConfigError(f"{where}: field prompt: is empty; say what the agent should do")
    if any(c in "|/" or not c.isprintable() for c in row.id):
        raise ConfigError(f"{where}: field id: {row.id!r} contains '|', '/' or a control character; remove it")
    if row.expected_output is not None and not row.expected_output.strip():
        raise ConfigError(f"{where}: field expected_output: is empty, so no answer can be right; leave the field out")
    if row.judge is not None and not row.judge.strip():
        raise ConfigError(f"{where}: field judge: is empty; say what makes an answer right, or leave the field out")
    if row.feedback and not row.verify:
        raise ConfigError(f"{where}: field feedback: needs a `verify` command whose output is the feedback; add one")
    if row.feedback and row.attempts == 1:
        raise ConfigError(f"{where}: field feedback: needs `attempts` of at least 2, or the agent never gets it")
    if row.attempts > 1 and not row.feedback:
        raise ConfigError(f"{where}: field attempts: needs `feedback`: true; without it there is no second submission")
    if row.verify == []:
        raise ConfigError(f"{where}: field verify: an empty list verifies nothing; leave the field out")
    for name, commands in (("verify", row.verify), ("setup", row.setup)):
        for command in _listed(commands):
            if not command.strip():
                raise ConfigError(f"{where}: field {name}: an empty command always succeeds; leave the field out")
            if "\0" in command:
                raise ConfigError(f"{where}: field {name}: a command contains a NUL character; remove it")
    if _levels(row.metadata) > _MOST_NESTED:
        raise ConfigError(f"{where}: field metadata: nested too deeply; at most {_MOST_NESTED} levels are supported")
    for path in row.files:
        _check_path(path, row.files, where)


def _levels(value: Any) -> int:
    """The nesting depth of lists and mappings."""
    levels, inside = 0, [value]
    while inside := [each for each in inside if isinstance(each, dict | list)]:
        levels += 1
        inside = [each for outer in inside for each in (outer.values() if isinstance(outer, dict) else outer)]
    return levels


def _check_path(path: str, files: dict[str, str], where: str) -> None:
    pure = PurePosixPath(path)
    if str(pure) != path or pure.is_absolute() or ".." in pure.parts or not pure.name or "\0" in path:
        raise ConfigError(f"{where}: field files: {path!r} is not a plain relative path, such as 'data/table.csv'")
    if any(str(parent) in files for parent in pure.parents):
        raise ConfigError(f"{where}: field files: {path!r} is in a folder that is itself a file; rename one")
