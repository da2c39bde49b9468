"""Compiled skills: the agent drafts a Python function with tests, and the harness validates and registers it.

A draft is checked statically, then its tests run in the episode's sandbox. On failure the agent gets the output and has
a limited number of retries, under any name. A draft that passes becomes a skill and a tool.
"""

import ast
import logging
import textwrap
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

import anyio.to_thread

from hermes_lab.errors import ToolError
from hermes_lab.protocols import Sandbox
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.compiled.signature import Function, check_function_name, read_function
from hermes_lab.skills.compiled.validate import check_skill, test_skill
from hermes_lab.skills.library import Library
from hermes_lab.skills.session import SkillSession
from hermes_lab.types import Skill, SkillEdit
from hermes_lab.types.skill import Action

_log = logging.getLogger(__name__)
_MAX_CHARS = 100_000
_MAX_NAMES = 3  # total tries per episode / tries per name; limits retries under new names
_TEXT = """\
# {name}

{doc}

## When to use
{purpose}

## How
Call the tool `{name}` if it is available. In a script:

```python
import sys
sys.path.insert(0, "${{HERMES_SKILL_DIR}}/scripts")
from {name} import {name}
{example}
```

It is defined as `{shown}` in `scripts/{name}.py`.

## Verification
`python3 ${{HERMES_SKILL_DIR}}/scripts/test_{name}.py` must exit with 0. It passed before this skill was registered.
"""


class SkillDraft(NamedTuple):
    """The agent's draft: a function `name` in `code`, and `tests` that import it as `from NAME import NAME`."""

    name: str
    purpose: str
    code: str
    tests: str

    @property
    def skill(self) -> str:
        """The name of the resulting skill."""
        return self.name.replace("_", "-")


@dataclass
class Compiler:
    """The drafts of one episode (`ToolContext.state`).

    `failed`: failed or pending tries by name. `given_up`: names given up before their tries ran out. `missing`: modules
    that the sandbox lacks. `searching`: whether the agent is looking for a tool (for the log only).
    """

    failed: Counter[str] = field(default_factory=Counter)
    given_up: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    searching: bool = False

    def left(self, name: str, tries: int) -> int:
        """Returns how many of `tries` drafts under this name are left."""
        if name in self.given_up:
            return 0
        return max(0, min(tries - self.failed[name], _MAX_NAMES * tries - self.failed.total()))


class Failed(ToolError):
    """A draft failed its tests; `output` is what they printed."""

    def __init__(self, message: str, output: str) -> None:
        super().__init__(message)
        self.output = output


async def compile_skill(
    draft: SkillDraft,
    compiler: Compiler,
    session: SkillSession,
    sandbox: Sandbox,
    heal_attempts: int,
    taken: Collection[str],
) -> Function:
    """Checks, tests and registers a draft. It replaces a compiled skill of the same name; names in `taken`, the
    installed tools, are refused.

    Raises `ToolError` saying what to fix, or if no tries are left: there are 1 + `heal_attempts` per name, and three
    times as many over all names.
    """
    check_function_name(draft.name)
    _check_name_is_free(session.library, draft, taken)
    tries = 1 + heal_attempts
    if not compiler.left(draft.name, tries):
        if failed := compiler.failed[draft.name]:
            raise ToolError(f"{draft.name} failed {failed} times and cannot be tried again; do the task without it")
        raise ToolError(
            f"{compiler.failed.total()} drafts have failed, and no more are accepted; do the task without a new tool"
        )
    if not compiler.searching:
        _log.info("[Core] No tool found for task...")
        compiler.searching = True
    _log.info("[Compiler] Drafting '%s.py'...", draft.name)
    compiler.failed[draft.name] += 1  # undone once it is registered
    try:
        function = await _validated(draft, compiler, sandbox)
    except ToolError as error:
        left = compiler.left(draft.name, tries)
        compiler.searching = left > 0
        more = f"fix it and try again ({left} of {heal_attempts} retries left)" if left else "do the task without it"
        error.args = (f"{error}; {more}",)
        raise
    await anyio.to_thread.run_sync(_register, _skill(draft, function), session)  # may wait for the store lock
    _log.info("[Core] Skill '%s' successfully registered.", draft.name)
    compiler.failed[draft.name] -= 1
    compiler.searching = False
    return function


async def _validated(draft: SkillDraft, compiler: Compiler, sandbox: Sandbox) -> Function:
    try:
        function = _read(draft, compiler.missing)
        skill = _skill(draft, function)
        problems = await anyio.to_thread.run_sync(check_skill, skill)
        if errors := [str(problem) for problem in problems if problem.severity == "error"]:
            raise ToolError(f"refused: {'; '.join(errors)}")
    except ToolError as error:
        _log.warning("[Compiler] Refused '%s.py': %s", draft.name, error)
        raise
    run = await test_skill(skill, sandbox)
    _log.info("[Sandbox] Executing validation suite... Exit code: %d", run.exit_code)
    if run.missing:
        if run.missing in compiler.missing:
            compiler.given_up.add(draft.name)
        compiler.missing.add(run.missing)
        raise Failed(_not_installed(run.missing, draft.name), run.output)
    if run.timed_out:
        raise Failed("the tests took too long and were killed", run.output)
    if not run.ok:
        raise Failed(f"the tests failed with exit code {run.exit_code}", run.output)
    return function


def _read(draft: SkillDraft, missing: set[str]) -> Function:
    """Parses the drafted function and checks code and tests statically."""
    if not draft.purpose.strip():
        raise ToolError("purpose: say when to use it")
    if max(len(draft.code), len(draft.tests)) > _MAX_CHARS:
        raise ToolError(f"code or tests: longer than {_MAX_CHARS} characters")
    function = read_function(draft.code, draft.name)
    try:
        tests = ast.parse(draft.tests)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ToolError(f"tests: not valid Python: {error}") from None
    if not any(_can_fail(node) for node in ast.walk(tests)):
        raise ToolError("tests: must contain an assertion")
    for module in sorted(_imported(ast.parse(draft.code).body) | _imported(tests.body)):
        if module in missing:
            raise ToolError(_not_installed(module, draft.name))
    return function


def _can_fail(node: ast.AST) -> bool:
    """Whether the code can fail a test: `assert`, `raise`, or an `assert...` method."""
    if isinstance(node, ast.Attribute):
        return node.attr.startswith("assert")
    return isinstance(node, ast.Raise) or (isinstance(node, ast.Assert) and not isinstance(node.test, ast.Constant))


def _imported(body: list[ast.stmt]) -> set[str]:
    """Returns the top-level modules that are imported unconditionally, i.e. not in a `try` or `if`."""
    found: set[str] = set()
    for node in body:
        match node:
            case ast.Import(names=names):
                found |= {name.name.partition(".")[0] for name in names}
            case ast.ImportFrom(module=str(module), level=0):
                found.add(module.partition(".")[0])
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found |= _imported(node.body)
    return found


def _not_installed(module: str, name: str) -> str:
    own = f"use the standard library, and import the function in the tests with `from {name} import {name}`"
    return f"missing dependency: {module} is not installed in the sandbox; {own}"


def _check_name_is_free(library: Library, draft: SkillDraft, taken: Collection[str]) -> None:
    if draft.name in taken:
        raise ToolError(f"name: a tool {draft.name!r} already exists; use it, or choose another name")
    there = library.skills.get(draft.skill)
    if there is not None and skill_format.compiled(there) != draft.name:
        raise ToolError(f"name: a skill {draft.skill!r} already exists; load it, or choose another name")


def _skill(draft: SkillDraft, function: Function) -> Skill:
    """Renders the draft as a skill, with the harness's template."""
    purpose = " ".join(draft.purpose.split())
    body = _TEXT.format(
        name=draft.name,
        doc=function.doc,
        purpose=purpose,
        shown=function.shown,
        example=_example(draft),
    )
    description = textwrap.shorten(purpose, skill_format.MAX_DESCRIPTION, placeholder="...")
    files = {f"scripts/{draft.name}.py": draft.code, f"scripts/test_{draft.name}.py": draft.tests}
    try:
        encoded = {path: f"{text.rstrip()}\n".encode() for path, text in files.items()}
    except UnicodeEncodeError:
        raise ToolError("code: contains half a character (a lone surrogate), which cannot be saved") from None
    text = skill_format.render(draft.skill, description, body, compiled=draft.name)
    return skill_format.parse(text, encoded)


def _example(draft: SkillDraft) -> str:
    """Returns the first call of the function in the tests, as a usage example."""
    for node in ast.walk(ast.parse(draft.tests)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == draft.name:
            return ast.unparse(node)
    return f"help({draft.name})"


def _register(skill: Skill, session: SkillSession) -> None:
    action: Action = "edit" if skill.name in session.library.skills else "create"
    name = skill_format.compiled(skill)
    edits = [SkillEdit(action, skill.name, content=skill.text, compiled=name)]
    files = skill.files.items()
    edits += [SkillEdit("write_file", skill.name, path=path, content=data.decode()) for path, data in files]
    session.manage_all(edits)
