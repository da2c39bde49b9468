"""Runs the tests that ship with skills, in a local sandbox."""

from collections.abc import Iterable, Mapping

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import SandboxError
from hermes_lab.sandbox import open_sandbox, probe
from hermes_lab.skills import waiting
from hermes_lab.skills.compiled.security import Problem
from hermes_lab.skills.compiled.validate import TestRun, is_test, test_skill
from hermes_lab.types import Skill


def has_tests(skill: Skill) -> bool:
    """Whether tests ship with the skill."""
    return any(map(is_test, skill.files))


def failures(skills: Iterable[Skill], *, instead: str) -> Mapping[str, Problem]:
    """The problems of skills whose `scripts/test_*.py` fail, by name. Blocks while the tests run, in a fresh sandbox
    per skill. Raises `SandboxError`, with the advice `instead`, if no sandbox works on this machine."""
    tested = [skill for skill in skills if has_tests(skill)]
    try:
        runs = waiting.run(_run, tested) if tested else {}
    except SandboxError as error:
        raise SandboxError(f"{error}; {instead}") from None
    return {name: Problem("error", _where(run), 0, _why(run)) for name, run in runs.items() if not run.ok}


async def _run(skills: Iterable[Skill]) -> dict[str, TestRun]:
    config = SandboxConfig()
    await probe(config)
    runs = {}
    for skill in skills:
        async with open_sandbox(config) as sandbox:
            runs[skill.name] = await test_skill(skill, sandbox)
    return runs


def _where(run: TestRun) -> str:
    return run.tests[0] if len(run.tests) == 1 else "scripts/test_*.py"


def _why(run: TestRun) -> str:
    if run.missing:
        return f"its tests need the module {run.missing}, which is not installed in the sandbox"
    if run.timed_out:
        return "its tests took too long"
    last = run.output.rstrip().rpartition("\n")[2].strip()
    return f"its tests fail: {last or f'exit code {run.exit_code}'}"
