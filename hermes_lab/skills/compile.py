"""Compiled skills: the agent drafts a Python function and its tests, the harness checks and registers them.

A draft is read first, then its tests are run in the episode's sandbox. What fails goes back to the agent with the
output, so that it heals its draft, a limited number of times. What passes becomes a skill, and a tool.
"""

import ast
import logging
import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import anyio.to_thread

from hermes_lab.errors import ToolError
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library
from hermes_lab.skills.signature import Function, check_function_name, read_function
from hermes_lab.skills.validate import check_skill, test_skill
from hermes_lab.types import Skill, SkillEdit
from hermes_lab.types.skill import Action

if TYPE_CHECKING:
    from hermes_lab.protocols import Sandbox
    from hermes_lab.skills.session import SkillSession

_log = logging.getLogger(__name__)
_MAX_CHARS = 100_000
_TEXT = """\
# {name}

{doc}

## When to use
{purpose}

## How
Call the tool `{name}` where there is one. In a script:

```python
import sys
sys.path.insert(0, "/app/skills/{skill}/scripts")
from {name} import {name}
{example}
```

Its first line is `{shown}`; it lies in `scripts/{name}.py`.

## Verification
`python3 /app/skills/{skill}/scripts/test_{name}.py`: exit code 0. It passed in the sandbox before this was registered.
"""


class Draft(NamedTuple):
    """What the agent drafted: a function `name` in `code`, and `tests` that import it as `from NAME import NAME`."""

    name: str
    purpose: str
    code: str
    tests: str

    @property
    def skill(self) -> str:
        """The name of the skill that it becomes."""
        return self.name.replace("_", "-")


@dataclass
class Compiler:
    """The drafts of one episode (`ToolContext.state`): how often each name was tried, the modules found missing."""

    tries: dict[str, int] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)


class Failed(ToolError):
    """A draft that failed its tests, with what they said."""

    def __init__(self, message: str, output: str) -> None:
        super().__init__(message)
        self.output = output


async def compile_skill(
    draft: Draft, compiler: Compiler, session: "SkillSession", sandbox: "Sandbox", heal_attempts: int
) -> Function:
    """Checks, tests and registers a draft. A compiled skill of that name is replaced.

    Raises `ToolError` that tells the agent what to mend, or that it has tried too often: 1 + `heal_attempts` times.
    """
    check_function_name(draft.name)
    _may_take(session.library, draft)
    tried = compiler.tries.get(draft.name, 0)
    if tried > heal_attempts:
        raise ToolError(f"{draft.name} was given up after {tried} tries; do the task without it")
    compiler.tries[draft.name] = tried + 1
    if not tried:
        _log.info("[Core] No tool found for task...")
    _log.info("[Compiler] Drafting '%s.py'...", draft.name)
    try:
        function = await _validated(draft, compiler, sandbox)
    except ToolError as error:
        left = heal_attempts - tried
        more = f"heal it and try again, {left} of {heal_attempts} times" if left else "do the task without it"
        error.args = (f"{error}; {more}",)
        raise
    await anyio.to_thread.run_sync(_register, _skill(draft, function), session)  # it may wait for a lock
    _log.info("[Core] Skill '%s' successfully registered.", draft.name)
    return function


async def _validated(draft: Draft, compiler: Compiler, sandbox: "Sandbox") -> Function:
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
        compiler.missing.add(run.missing)
        raise ToolError(_not_installed(run.missing))
    if run.timed_out:
        raise Failed("the validation suite took too long, and was killed", run.output)
    if not run.ok:
        raise Failed(f"the validation suite failed with exit code {run.exit_code}", run.output)
    return function


def _read(draft: Draft, missing: set[str]) -> Function:
    """The drafted function, as far as it can be judged without a look at what it does."""
    if not draft.purpose.strip():
        raise ToolError("purpose: say when to use it")
    if max(len(draft.code), len(draft.tests)) > _MAX_CHARS:
        raise ToolError(f"code: longer than {_MAX_CHARS} characters, or the tests are")
    function = read_function(draft.code, draft.name)
    try:
        tests = ast.parse(draft.tests)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ToolError(f"tests: no valid Python: {error}") from None
    if not any(_judges(node) for node in ast.walk(tests)):
        raise ToolError("tests: they assert nothing")
    for module in sorted(_imported(ast.parse(draft.code)) | _imported(tests)):
        if module in missing:
            raise ToolError(_not_installed(module))
    return function


def _judges(node: ast.AST) -> bool:
    """Whether a test can fail here: `assert`, `raise`, or an `assert...` method."""
    if isinstance(node, ast.Attribute):
        return node.attr.startswith("assert")
    return isinstance(node, ast.Raise) or (isinstance(node, ast.Assert) and not isinstance(node.test, ast.Constant))


def _imported(tree: ast.Module) -> set[str]:
    """The top-level modules that a script imports."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def _not_installed(module: str) -> str:
    return f"missing dependency: {module} is not installed in the sandbox; use the standard library"


def _may_take(library: Library, draft: Draft) -> None:
    from hermes_lab.tools.registry import known_tools

    if draft.name in known_tools():
        raise ToolError(f"name: there is a tool {draft.name!r} already; use it, or choose another name")
    there = library.skills.get(draft.skill)
    if there is not None and skill_format.compiled(there) != draft.name:
        raise ToolError(f"name: there is a skill {draft.skill!r} already; load it, or choose another name")


def _skill(draft: Draft, function: Function) -> Skill:
    """The draft as a skill, the harness's own words around the agent's."""
    purpose = " ".join(draft.purpose.split())
    body = _TEXT.format(
        name=draft.name,
        skill=draft.skill,
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
        raise ToolError("code: holds half a character, which cannot be written") from None
    text = skill_format.render(draft.skill, description, body, compiled=draft.name)
    return skill_format.parse(text, encoded)


def _example(draft: Draft) -> str:
    """The first call in the tests."""
    for node in ast.walk(ast.parse(draft.tests)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == draft.name:
            return ast.unparse(node)
    return f"help({draft.name})"


def _register(skill: Skill, session: "SkillSession") -> None:
    action: Action = "edit" if skill.name in session.library.skills else "create"
    name = skill_format.compiled(skill)
    session.manage(SkillEdit(action, skill.name, content=skill.text, compiled=name))
    for path, data in skill.files.items():
        session.manage(SkillEdit("write_file", skill.name, path=path, content=data.decode()))
