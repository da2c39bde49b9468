"""A skill's files where the commands of a sandbox find them, and the program that runs compiled skills there."""

import functools
import shlex
from pathlib import Path

from hermes_lab.protocols import Sandbox
from hermes_lab.types import Skill

_RUNNER = ".hermes/sandbox_runner.py"  # no skill's name begins so


async def install_skill(skill: Skill, sandbox: Sandbox) -> str:
    """Provides the skill's files as they are now; the path of its folder, as commands see it."""
    for path, data in skill.files.items():
        await sandbox.provide(f"{skill.name}/{path}", data)
    return f"{sandbox.seen_skills}/{skill.name}"


async def runner(sandbox: Sandbox, *arguments: str) -> str:
    """The command that runs `sandbox_runner.py` with these arguments. Neither the agent's variables nor what is
    installed in its home are seen by it (-I)."""
    await sandbox.provide(_RUNNER, _inside())
    return shlex.join(["python3", "-I", "-B", f"{sandbox.seen_skills}/{_RUNNER}", *arguments])


@functools.cache
def _inside() -> bytes:
    return Path(__file__).with_name("sandbox_runner.py").read_bytes()
