"""Runs a program once for each prompt."""

from collections.abc import Mapping, Sequence

import anyio

from hermes_lab.errors import ProgramError
from hermes_lab.harness.program import Ended, Program, Start
from hermes_lab.protocols import Process, Sandbox

_LONGEST_ARGUMENT = (128 << 10) - 1
"""Bytes of one argument of a command, at most, by Linux (MAX_ARG_STRLEN)."""
_KEPT = 1 << 16
"""Bytes that are kept of the end of a program's output."""


class CommandConversation:
    """One conversation with a program that is run anew for each prompt, and continues its session (`Conversation`)."""

    def __init__(
        self, program: Program, start: Start, sandbox: Sandbox, executable: str, environment: Mapping[str, str]
    ) -> None:
        self._program = program
        self._start = start
        self._sandbox = sandbox
        self._executable = executable
        self._environment = environment
        self._last: Ended | None = None

    async def turn(self, prompt: str) -> Ended:
        """See `Conversation.turn`."""
        command = self._program.command(self._start, prompt, self._session())
        if max(len(part.encode(errors="replace")) for part in command) > _LONGEST_ARGUMENT:
            raise ProgramError(
                f"{self._program.name}: the prompt is longer than the {_LONGEST_ARGUMENT:,} bytes that an argument of "
                "a command may have"
            )
        process = await self._sandbox.start([self._executable, *command], self._environment)
        try:
            await process.close_stdin()
            ended = await ended_of(process)
        finally:
            with anyio.CancelScope(shield=True):
                await process.kill()
        self._last = ended
        return ended

    def _session(self) -> str:
        """The session of the earlier prompts."""
        if self._last is None:
            return ""
        try:
            return self._program.session(self._last)
        except Exception as error:
            raise ProgramError(
                f"{self._program.name}: {type(error).__name__} while its session was read from the output of the "
                f"prompt before (status {self._last.status}): {error}"
            ) from error

    async def aclose(self) -> None:
        """See `Conversation.aclose`."""


async def ended_of(process: Process) -> Ended:
    """Waits for a process to end."""
    output = b""
    while data := await process.receive():
        output = (output + data)[-_KEPT:]
    status = await process.wait()
    return Ended(status, output.decode(errors="replace"), process.errors())


def shell_environment(home: str, variables: Mapping[str, str], folders: Sequence[str]) -> dict[str, str]:
    """A program's whole environment. Its own `folders` come first on the PATH, then those in `variables`."""
    path = ":".join((*folders, variables.get("PATH", "/usr/local/bin:/usr/bin:/bin")))
    return {"LANG": "C.UTF-8", "TERM": "dumb", **variables, "PATH": path, "HOME": home}
