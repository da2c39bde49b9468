"""Copies a skill's files, and the runner of compiled skills, into a sandbox."""

import functools
import shlex
from pathlib import Path

from hermes_lab.protocols import Sandbox
from hermes_lab.types import Skill

_RUNNER = ".hermes/sandbox_runner.py"  # no skill name starts with a dot


async def install_skill(skill: Skill, sandbox: Sandbox) -> str:
    """Copies the skill's current files; returns the path of its folder inside the sandbox."""
    for path, data in skill.files.items():
        await sandbox.provide(f"{skill.name}/{path}", data)
    return f"{sandbox.skills_path}/{skill.name}"


async def runner(sandbox: Sandbox, *arguments: str) -> str:
    """Returns the command that runs `sandbox_runner.py` with these arguments, isolated (`-I`) from the agent's
    environment variables and user packages."""
    await sandbox.provide(_RUNNER, _runner_source())
    return shlex.join(["python3", "-I", "-B", f"{sandbox.skills_path}/{_RUNNER}", *arguments])


@functools.cache
def _runner_source() -> bytes:
    return Path(__file__).with_name("sandbox_runner.py").read_bytes()
