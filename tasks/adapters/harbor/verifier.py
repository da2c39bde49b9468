"""Runs a test script in the agent's sandbox with all other processes frozen, and reads its verdict.

The tests and their tools are there only meanwhile. The script says when everything is frozen; only then are they
provided, and taken away again before anything else goes on.
"""

import importlib.metadata
import importlib.util
import json
import math
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from hermes_lab.errors import InfraError, ToolError, VerifierError
from hermes_lab.protocols import ExecResult, Sandbox
from hermes_lab.tasks.adapters.harbor.folder import HarborTask, Step
from hermes_lab.tasks.adapters.harbor.layout import exports, pack
from hermes_lab.tasks.adapters.harbor.machine import Python, debian_packages
from hermes_lab.types import Verdict

TOOLS = "/opt/hermes-lab/verifier"
_INSIDE = Path(__file__).with_name("inside")
_POLL = 0.01
_PLUGIN = re.compile(r"\bpytest[-_](?!json-ctrf|json_ctrf)[a-z]")
_GRACE = 60.0  # seconds for unpacking, beside the script's own time
_SHOWN = 300
_LIMITS = {"json": 4_000, "reward": 100, "record": 12_000, "tests": 10_000, "ctrf": 10_000, "said": 6_000}
"""Characters of each part that the script reports."""
_FROZEN = (
    "the agent left a server running; it is frozen during verification; "
    "suite.options={running: true} lets it run, as in Harbor"
)
_NOT_COLLECTED = {3: "failed inside", 4: "was called wrongly", 5: "collected no tests"}
_OWN_TOOLS = frozenset(
    [
        "pytest",
        "unittest",
        "uv",
        "uvx",
        "pip",
        "pip3",
        "apt-get",
        "apt",
        "curl",
        "wget",
        "python",
        "python3",
        "bash",
        "sh",
    ]
)


@dataclass
class Report:
    """What a script left: its exit code, the reward files, notes of the tools, and the end of its output."""

    status: int
    parts: Mapping[str, str]
    notes: list[dict[str, Any]] = field(default_factory=list)

    @property
    def said(self) -> str:
        """The end of its output."""
        return self.parts.get("said", "")

    @property
    def tail(self) -> str:
        """The very end, on one line."""
        return " ".join(self.said.split())[-_SHOWN:] or "no output"


async def verify_step(task: HarborTask, step: Step, python: Python, sandbox: Sandbox, *, running: bool) -> Verdict:
    """The verdict on a step. Raises `VerifierError` if it says nothing about the agent's work.

    `running`: the agent's processes go on meanwhile.
    """
    where = f"{task.id}: {f'steps/{step.name}: ' if step.name else ''}tests/test.sh"
    variables = {"TEST_DIR": "/tests", **task.environment, **step.environment}
    contents = [("tests", path) for path in step.tests]
    report = await run_script(
        contents, "/tests/test.sh", variables, step.timeout, python, sandbox, where, running=running
    )
    verdict = judge(report, step.instruction, where)
    if verdict.score < 1.0 and report.parts.get("listening") and not running:
        raise VerifierError(f"{where}: {_FROZEN}")
    return verdict


async def run_script(
    contents: list[tuple[str, Path]],
    script: str,
    variables: Mapping[str, str],
    seconds: float,
    python: Python,
    sandbox: Sandbox,
    where: str,
    *,
    running: bool = False,
) -> Report:
    """Runs a script of folders that are there only meanwhile, each by its name in /."""
    name, mark = secrets.token_hex(8), secrets.token_hex(16)
    begun, unpacked = f".{name}.begun", f".{name}.unpacked"
    environment = {
        **variables,
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_PLUGINS": "hermes_lab_verifier",
        "BASH_ENV": f"{TOOLS}/env.sh",
        "HERMES_LAB_VERIFIER": TOOLS,
    }
    if not any(_PLUGIN.search(text) for text in _scripts(contents)):
        environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # as in an environment with pytest alone
    # The script is a format string: {{ and }} are braces of bash. It waits with `read -t`, since `sleep` is a program,
    # which the agent may have replaced.
    command = (
        (_INSIDE / "verify.sh")
        .read_text()
        .format(
            begun=begun,
            unpacked=unpacked,
            provided=sandbox.skills_path,
            name=name,
            tools=TOOLS,
            exports=f'{exports(environment)}export PATH="{TOOLS}/bin:$PATH" PYTHONPATH="{TOOLS}/site:$PYTHONPATH"',
            script=script,
            log="/logs/verifier/test-stdout.txt",
            mark=mark,
            servers=(_INSIDE / "servers.sh").read_text(),
            go_on="kill -CONT -1" if running else "",
            stop="kill -STOP -1" if running else "",
            **_LIMITS,
        )
    )
    packed = _packed(contents, python)
    done = await _handshake(sandbox, command, seconds + _GRACE, (begun, unpacked), name, packed)
    if done.timed_out:
        raise VerifierError(f"{where}: not done after {seconds:g} seconds (verifier.timeout_sec)")
    return _report(done, mark, where)


async def _handshake(
    sandbox: Sandbox, command: str, seconds: float, signs: tuple[str, str], name: str, packed: bytes
) -> ExecResult:
    """Runs the command, provides the archive once it has begun, and empties it once it is unpacked."""
    done: list[ExecResult | InfraError] = []

    async def run() -> None:
        try:
            done.append(await sandbox.exec(command, timeout=seconds, fresh=True))
        except InfraError as error:
            done.append(error)

    async def sign(path: str) -> bool:
        while not done:
            try:
                await sandbox.read(path, 1)
            except ToolError:
                await anyio.sleep(_POLL)
            else:
                return True
        return False

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        if await sign(signs[0]):
            await sandbox.provide(f"{name}.tar", packed)
            await sandbox.provide(f"{name}.go", b"")
            if await sign(signs[1]):
                await sandbox.provide(f"{name}.tar", b"")
    (result,) = done
    if isinstance(result, InfraError):
        raise result
    return result


def _scripts(contents: list[tuple[str, Path]]) -> Iterator[str]:
    """The texts of the test scripts."""
    for _, folder in contents:
        for path in folder.glob("*.sh"):
            yield path.read_text(errors="replace")


def _packed(contents: list[tuple[str, Path]], python: Python) -> bytes:
    """The folders, and the tools that replace those that need a network."""
    files: dict[str, bytes | Path] = {}
    for name, folder in contents:
        for path in sorted(folder.rglob("*")):
            if "__pycache__" not in path.parts and (path.is_symlink() or not path.is_dir()):
                files[f"{name}/{path.relative_to(folder).as_posix()}"] = path
    tools = TOOLS[1:]
    files[f"{tools}/env.sh"] = _INSIDE / "env.sh"
    files[f"{tools}/tools.py"] = _INSIDE / "tools.py"
    files[f"{tools}/site/hermes_lab_verifier.py"] = _INSIDE / "hermes_lab_verifier.py"
    files[f"{tools}/debian"] = "\n".join(sorted(debian_packages())).encode()
    if python.brings_pytest:
        files |= _pytest()
    for name, text in _shims(python.command).items():
        files[f"{tools}/bin/{name}"] = text.encode()
    return pack(files.items())


def _pytest() -> dict[str, Path]:
    """The files of the lab's pytest and its dependencies, all plain Python, with their metadata, for the versions."""
    found: dict[str, Path] = {}
    for name in ("pytest", "pluggy"):
        for file in importlib.metadata.files(name) or ():
            if file.name == "METADATA":
                found[f"{TOOLS[1:]}/site/{file}"] = Path(str(file.locate()))
    for name in ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments"):
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise VerifierError("pytest is not installed here: pip install pytest")
        origin = Path(spec.origin)
        if spec.submodule_search_locations is None:
            found[f"{TOOLS[1:]}/site/{origin.name}"] = origin
            continue
        for path in origin.parent.rglob("*.py"):
            found[f"{TOOLS[1:]}/site/{name}/{path.relative_to(origin.parent).as_posix()}"] = path
    return found


def _shims(python: str) -> dict[str, str]:
    """Replacements for installers, and for pytest."""
    tool = f'#!/bin/bash\nexec {python} -s {TOOLS}/tools.py %s "$@"\n'
    shims = {
        name: tool % kind for name, kind in {"apt-get": "apt-get", "apt": "apt-get", "uv": "uv", "uvx": "uvx"}.items()
    }
    shims |= dict.fromkeys(("pip", "pip3"), tool % "pip")
    shims["sudo"] = '#!/bin/bash\nexec "$@"\n'
    run = f'{python} -m pytest "$@"\nstatus=$?\n'
    note = f"printf '{{\"pytest_exit\": %s}}\\n' $status >>{TOOLS}/record\nexit $status\n"
    shims["pytest"] = shims["py.test"] = f"#!/bin/bash\n{run}{note}"
    install = 'mkdir -p "$HOME/.local/bin" && : >"$HOME/.local/bin/env"'
    for name in ("curl", "wget"):
        real = f'for real in $(type -aP {name}); do [[ $real == {TOOLS}/* ]] || exec "$real" "$@"; done'
        missing = f'printf \'{{"not_found": "{name}"}}\\n\' >>{TOOLS}/record\nexit 127'
        shims[name] = f"#!/bin/bash\n[[ $* != *astral.sh/uv* ]] || {{ echo '{install}'; exit 0; }}\n{real}\n{missing}\n"
    return shims


def _report(done: ExecResult, mark: str, where: str) -> Report:
    pieces = done.output.split(f"{mark} ")[1:]
    parts = dict(piece.partition("\n")[::2] for piece in pieces)
    if "end" not in parts:
        why = "sandbox.output_chars is too small" if done.truncated else " ".join(done.output.split())[-_SHOWN:]
        raise VerifierError(f"{where}: could not be run (exit code {done.exit_code}): {why or 'no output'}")
    parts = {name: text.removesuffix("\n") for name, text in parts.items()}
    return Report(int(parts["status"]), parts, [*_lines(parts.get("record", ""))])


def _lines(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        try:
            note = json.loads(line)
        except (ValueError, RecursionError):  # cut at the limit
            continue
        if isinstance(note, dict):
            yield note


def judge(report: Report, instruction: str, where: str) -> Verdict:
    """The verdict that a report gives. Raises `VerifierError` for one without a reward, or with one that says nothing
    about the agent: nothing was collected, or a tool or module of the tests was missing."""
    if why := _collected_nothing(report, instruction):
        raise VerifierError(f"{where}: {why}: {report.tail}")
    try:
        rewards = _rewards(report)
    except ValueError as error:
        missing = next(_missing(report, instruction), "")
        raise VerifierError(f"{where}: {f'{missing}, and ' if missing else ''}{error}: {report.tail}") from None
    score, criteria = rewards
    if score < 1.0 and (why := next(_missing(report, instruction), "")):
        raise VerifierError(f"{where}: {why}: {report.tail}")
    criteria = {**_tests(report), **criteria}
    reasons = {name: "failed" for name, value in criteria.items() if value < 1.0}
    return Verdict(score, score >= 1.0, criteria, reasons=reasons)


def _rewards(report: Report) -> tuple[float, dict[str, float]]:
    """The score and its parts. Raises `ValueError` where there is none.

    reward.json goes before reward.txt. Of several keys `reward` is the score, else their mean.
    """
    if "json" in report.parts:
        try:
            found = json.loads(report.parts["json"])
        except (ValueError, RecursionError):
            raise ValueError("reward.json is not JSON") from None
        table = found if isinstance(found, dict) else {"reward": found}
        if not table or not all(map(_is_finite, table.values())):
            raise ValueError("reward.json has no finite numbers")
        values = {str(name): float(value) for name, value in table.items()}
        score = values.pop("reward") if "reward" in values else sum(values.values()) / len(values)
        parts = {name: value for name, value in values.items() if 0.0 <= value <= 1.0}
        return _in_range(score, "reward.json"), parts
    if "reward" in report.parts:
        try:
            return _in_range(float(report.parts["reward"]), "reward.txt"), {}
        except ValueError as error:
            raise ValueError(str(error) if "reward.txt" in str(error) else "reward.txt holds no number") from None
    raise ValueError(f"it wrote no reward (exit code {report.status})")


def _is_finite(value: object) -> bool:
    try:
        return isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:  # an integer too large for a float
        return False


def _in_range(score: float, file: str) -> float:
    if not 0.0 <= score <= 1.0:
        raise ValueError(f"{file}: the reward {score:g} is not between 0 and 1")
    return score


def _tests(report: Report) -> dict[str, float]:
    """One criterion per test, as reported by pytest or a CTRF report; skipped tests do not count."""
    outcomes: dict[str, str] = {}
    for line in _lines(report.parts.get("tests", "")):
        outcomes |= {_short(name): str(outcome) for name, outcome in line.items()}
    if not outcomes and "ctrf" in report.parts:
        try:
            tests = json.loads(report.parts["ctrf"])["results"]["tests"]
            outcomes = {_short(str(test["name"])): str(test["status"]) for test in tests}
        except (ValueError, KeyError, TypeError, RecursionError):
            return {}
    return {name: float(outcome == "passed") for name, outcome in outcomes.items() if outcome in ("passed", "failed")}


def _short(name: str) -> str:
    """A test without the folder of its file."""
    return (
        name.rpartition("/")[2]
        if "[" not in name
        else name[: name.index("[")].rpartition("/")[2] + name[name.index("[") :]
    )


def _collected_nothing(report: Report, instruction: str) -> str:
    sessions = [note for note in report.notes if "pytest" in note]
    for note in sessions:
        if note["pytest"] in _NOT_COLLECTED and not all(map(_named_in(instruction), note.get("arguments", ()))):
            return f"pytest {_NOT_COLLECTED[note['pytest']]}"
    exits = [note["pytest_exit"] for note in report.notes if "pytest_exit" in note]
    if len(exits) > len(sessions) and exits[-1] in _NOT_COLLECTED:
        return f"pytest {_NOT_COLLECTED[exits[-1]]}"
    if not sessions and re.search(r'^  File "\S*/(_pytest|pluggy|pytest)/', report.said, re.MULTILINE):
        return "pytest did not start"
    if re.search(r"^(ERROR: usage: |\S*: error: unrecognized arguments)", report.said, re.MULTILINE):
        return "pytest was called wrongly"
    ran = re.findall(r"^Ran (\d+) tests? in", report.said, re.MULTILINE)
    return "unittest collected no tests" if ran and not any(map(int, ran)) else ""


def _missing(report: Report, instruction: str) -> Iterator[str]:
    """What the tests themselves lack, unless the instruction has the agent make it."""
    is_agents = _named_in(instruction)
    for note in report.notes:
        if "not_installed" in note:
            yield f"{note['not_installed']} cannot be installed: there is no network"
        elif "not_found" in note and not is_agents(note["not_found"]):
            yield f"{note['not_found']}: command not found"
        elif "no_module" in note and note["file"].startswith(("/tests/", TOOLS)) and not is_agents(note["no_module"]):
            yield f"its Python has no module {note['no_module']}"
    said = report.said
    for tool in re.findall(r"^/tests/\S+: (?:line )?\d+: (.+?): (?:command )?not found$", said, re.MULTILINE):
        if not is_agents(tool):
            yield f"{tool}: command not found"
    unusable = r"No such file or directory|Permission denied|cannot execute.*"
    for path in re.findall(rf"^/tests/\S+: (?:line )?\d+: (/tests/\S+): (?:{unusable})$", said, re.MULTILINE):
        yield f"{path} cannot be run"
    for tool in re.findall(r"^\w+: .*[‘'\"](\S+?)[’'\"]: No such file or directory$", said, re.MULTILINE):
        if "/" not in tool and not is_agents(tool):
            yield f"{tool}: command not found"
    for module in re.findall(r"^\S*python[\d.]*: No module named (\S+)$", said, re.MULTILINE):
        if not is_agents(module):
            yield f"its Python has no module {module}"
    for file, module in _tracebacks(said):
        if file.startswith(("/tests/", TOOLS)) and not is_agents(module):
            yield f"its Python has no module {module}"


def _tracebacks(said: str) -> Iterator[tuple[str, str]]:
    """The last file of each traceback that ends with a missing module, and the module."""
    file = ""
    for line in said.splitlines():
        if match := re.match(r'\s*File "([^"]+)", line \d+', line):
            file = file if match[1].startswith("<frozen") else match[1]
        elif match := re.match(r"ModuleNotFoundError: No module named '([\w.]+)'", line):
            yield file, match[1]


class _named_in:
    """Whether the instruction names a command, module or file, so that it is the agent's to make."""

    def __init__(self, instruction: str) -> None:
        self._instruction = instruction

    def __call__(self, name: str) -> bool:
        stem = name.rstrip("/").rpartition("/")[2] if "/" in name else name.partition(".")[0]
        if not stem or stem in _OWN_TOOLS:
            return False
        return re.search(rf"(?<![\w-]){re.escape(stem)}(?![\w-])", self._instruction) is not None
