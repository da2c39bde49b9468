"""Validates skills with static checks, and with their tests in a sandbox."""

import ast
import re
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

from hermes_lab.errors import ToolError
from hermes_lab.protocols import Sandbox
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.compiled.install import install_skill, runner
from hermes_lab.skills.compiled.piped import scan_texts
from hermes_lab.skills.compiled.problems import Problem
from hermes_lab.skills.compiled.security import scan_python
from hermes_lab.skills.compiled.shell import scan_shell
from hermes_lab.skills.snippets import snippets
from hermes_lab.types import Skill
from hermes_lab.types.skill import BY_AGENTS

__all__ = ["Problem", "TestRun", "check_skill", "test_skill"]

_SKILL = "SKILL.md"
_SECONDS = 60.0
_CHARS = 4000
_KINDS = {
    "injection": "instructions that turn the agent against its user or its own instructions",
    "hidden": "invisible characters",
    "exfiltration": "sends private data elsewhere",
    "backdoor": "opens a way in, or makes itself permanent",
    "secrets": "reads credentials",
}
_TEXTS = (
    ".md",
    ".txt",
    ".html",
    ".sh",
    ".bash",
    ".py",
    ".js",
    ".mjs",
    ".cjs",
    ".ts",
    ".rb",
    ".pl",
    ".php",
    ".ps1",
    ".lua",
    ".fish",
    ".bat",
)
_REFERENCE = re.compile(rf"(?<![\w./-])(?:{'|'.join(skill_format.FOLDERS)})/[\w./-]*\w")
_MISSING = re.compile(r"missing dependency: (\w+)\s*\Z")  # the last line of sandbox_runner.py
_BASH_LINE = re.compile(r"line (\d+): (.*)")
_SHEBANG = re.compile(rb"#!\s*\S*?(?:env\s+)?\S*?(python3?|bash|sh)\b")


class TestRun(NamedTuple):
    """The result of a skill's tests. `missing` is the module that the sandbox lacks, if that made them fail."""

    exit_code: int
    output: str
    tests: tuple[str, ...]
    missing: str = ""
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        """Whether there are tests and all passed."""
        return bool(self.tests) and self.exit_code == 0


def check_skill(skill: Skill) -> list[Problem]:
    """Checks conformance to the Agent Skills standard, script syntax and security, and suspicious text.

    What the sandbox prevents, such as use of the network, is an error in a skill that an agent wrote or compiled, and a
    warning in others. Runs no code of the skill. Blocks for a few milliseconds per shell script.
    """
    problems = [*_standard(skill), *_suspicious_text(skill), *_snippets(skill), *_references(skill)]
    problems += [each for each in _commands(skill) if each._replace(kind="") not in problems]
    for path, data in sorted(skill.files.items()):
        try:
            skill_format.check_path(path)
        except ToolError as error:
            problems.append(Problem("error", path, 0, str(error)))
        problems += _script(path, data)
    own = skill_format.origin(skill) in BY_AGENTS or skill_format.compiled(skill)
    return problems if own else [each._replace(severity="warning") if each.kind else each for each in problems]


async def test_skill(skill: Skill, sandbox: Sandbox) -> TestRun:
    """Runs a skill's `scripts/test_*.py` in the sandbox until the first failure, with a timeout of a minute each.

    The tests of a compiled skill must call its function.
    """
    folder = await install_skill(skill, sandbox)
    name = skill_format.compiled(skill)
    tests = tuple(sorted(path for path in skill.files if is_test(path)))
    outputs: list[str] = []
    for path in tests:
        command = await runner(sandbox, "test", name, f"{folder}/scripts/{name}.py", f"{folder}/{path}")
        # A fresh shell has none of the agent's exported variables, and pauses its background processes.
        result = await sandbox.exec(command, timeout=_SECONDS, fresh=True)
        outputs.append(result.output)
        if result.exit_code:
            missing = _MISSING.search(result.output) if result.exit_code == 1 else None
            return TestRun(result.exit_code, _tail(outputs), tests, missing[1] if missing else "", result.timed_out)
    return TestRun(0, _tail(outputs), tests)


def is_test(path: str) -> bool:
    """Whether this path of a skill is a test file."""
    return re.fullmatch(r"scripts/test_\w+\.py", path) is not None


def _tail(outputs: list[str]) -> str:
    text = "\n".join(filter(None, (output.strip() for output in outputs)))
    return text if len(text) <= _CHARS else f"[...]\n{text[-_CHARS:]}"


def _standard(skill: Skill) -> Iterator[Problem]:
    """Violations of the Agent Skills standard, which reading overlooks, and of our own requirements."""
    try:
        skill_format.read(skill.text, skill.files, name=skill.name)
        for note in skill_format.warnings(skill):
            yield Problem("warning", _SKILL, note.line, note.text)
    except ToolError as error:
        yield Problem("error", _SKILL, 0, str(error).removeprefix(f"{_SKILL}: "))
    if name := skill_format.compiled(skill):
        if f"scripts/{name}.py" not in skill.files:
            yield Problem("error", _SKILL, 0, f"is compiled, but scripts/{name}.py is missing")
        elif not any(map(is_test, skill.files)):
            yield Problem("error", _SKILL, 0, "is compiled, but has no scripts/test_*.py")


def _suspicious_text(skill: Skill) -> Iterator[Problem]:
    from hermes_lab.memory.scan import scan

    texts = {_SKILL: skill.text.encode()} | {
        path: data for path, data in sorted(skill.files.items()) if path.endswith(_TEXTS)
    }
    for path, data in texts.items():
        for finding in scan(data.decode(errors="replace")):
            line, _, disguise = finding.where.removeprefix("line ").partition(", ")
            said = f"{finding.kind}: {_KINDS[finding.kind]}"
            yield Problem("error", path, int(line), f"{said} ({disguise})" if disguise else said)


def _commands(skill: Skill) -> Iterator[Problem]:
    """Commands in its texts that run what they download or decode."""
    files = {
        path: data.decode(errors="replace") for path, data in skill.files.items() if path.endswith((".md", ".txt"))
    }
    yield from scan_texts({_SKILL: skill.text, **files}, [skill_format.body(skill), *files.values()])


def _snippets(skill: Skill) -> Iterator[Problem]:
    """Problems of the commands that run when a person loads the skill."""
    for snippet in snippets(skill.text):
        yield from scan_shell(snippet.command, _SKILL, snippet.line)


def _references(skill: Skill) -> Iterator[Problem]:
    for number, line in enumerate(skill.text.splitlines(), 1):
        for path in dict.fromkeys(_REFERENCE.findall(line)):
            if not any(known == path or known.startswith(f"{path}/") for known in skill.files):
                yield Problem("warning", _SKILL, number, f"refers to {path}, which does not exist")


def _script(path: str, data: bytes) -> list[Problem]:
    """Returns the problems of a Python or shell script, recognized by its name or shebang line."""
    shebang = _SHEBANG.match(data)
    program = shebang[1].decode() if shebang else ""
    if not path.endswith((".py", ".sh", ".bash")) and not program:
        return []
    try:
        text = data.decode()
        if path.endswith(".py") or program.startswith("python"):
            return scan_python(ast.parse(text), path)
    except UnicodeDecodeError:
        return [Problem("error", path, 0, "the script is not UTF-8 text")]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return [Problem("error", path, getattr(error, "lineno", 0) or 0, f"not valid Python: {error}")]
    return [*_bash_syntax(path, text), *scan_shell(text, path)]


def _bash_syntax(path: str, text: str) -> list[Problem]:
    """The first syntax error of `bash -n`, which does not run the script."""
    command = ["/bin/bash", "--norc", "-n"]
    ended = subprocess.run(command, input=text, env={}, capture_output=True, text=True, check=False, timeout=_SECONDS)
    if ended.returncode == 0:
        return []
    line = _BASH_LINE.search(ended.stderr)
    return [Problem("error", path, int(line[1]) if line else 0, f"not valid bash: {line[2] if line else ended.stderr}")]
