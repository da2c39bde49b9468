"""What tools do inside the sandbox beside the agent's own commands."""

from hermes_lab.errors import ToolError
from hermes_lab.protocols import Sandbox
from hermes_lab.tools.registry import ToolContext

_SECONDS = 60.0
_HEADER_CHARS = 64


class Scratch:
    """A folder outside the workspace that no other episode has, made at first use. Its name is random: keep it out of
    what the model sees."""

    def __init__(self) -> None:
        self._folder = ""

    async def folder(self, sandbox: Sandbox) -> str:
        """The absolute path; no character of it needs quoting."""
        if not self._folder:
            self._folder = (await inside(sandbox, "mktemp -d /tmp/.hermes-lab-XXXXXXXXXX")).strip()
        return self._folder


async def inside(sandbox: Sandbox, script: str) -> str:
    """Runs a tool's own script in the workspace, whatever the agent's commands exported, and gives its output.

    Background processes stand still meanwhile, so what it sees does not change under it. Raises `ToolError` where the
    script fails.
    """
    result = await sandbox.exec(script, timeout=_SECONDS, fresh=True)
    if result.timed_out:
        raise ToolError(f"gave up after {_SECONDS:g} seconds")
    if result.exit_code:
        raise ToolError(result.output.strip() or f"failed with exit code {result.exit_code}")
    return result.output


def room(ctx: ToolContext) -> int:
    """Bytes of text that pass through `inside` uncut, below a line of its own."""
    return max(ctx.config.output_chars - _HEADER_CHARS, 1)
