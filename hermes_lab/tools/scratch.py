"""Helpers for tools that run their own scripts in the sandbox."""

from hermes_lab.errors import ToolError
from hermes_lab.protocols import Sandbox
from hermes_lab.tools.registry import ToolContext

_SECONDS = 60.0
_HEADER_CHARS = 64


class Scratch:
    """The episode's own folder outside the workspace, created at first use. Its name is random and must not be shown to
    the model."""

    def __init__(self) -> None:
        self._folder = ""

    async def folder(self, sandbox: Sandbox) -> str:
        """Returns the absolute path, which needs no shell quoting."""
        if not self._folder:
            self._folder = (await run_script(sandbox, "mktemp -d /tmp/.hermes-lab-XXXXXXXXXX")).strip()
        return self._folder


async def run_script(sandbox: Sandbox, script: str) -> str:
    """Runs a tool's script in the workspace, in a fresh shell without the agent's variables, and returns its output.

    Background processes are paused, so files do not change while it runs. Raises `ToolError` if the script fails.
    """
    result = await sandbox.exec(script, timeout=_SECONDS, fresh=True)
    if result.timed_out:
        raise ToolError(f"gave up after {_SECONDS:g} seconds")
    if result.exit_code:
        raise ToolError(result.output.strip() or f"failed with exit code {result.exit_code}")
    return result.output


def room(ctx: ToolContext) -> int:
    """Returns the number of bytes of text, after a header line, that `run_script` returns without truncation."""
    return max(ctx.config.output_chars - _HEADER_CHARS, 1)
