"""The folder through which the harness and the sandbox's process 1 pass commands, outputs and state.

No path inside the sandbox leads there: process 1 reaches it by a descriptor that no command gets. What a
command says of its directory and variables is text that only the next command runs, never process 1.
"""

import os
import shlex
from pathlib import Path

from hermes_lab.errors import SandboxError, ToolError
from hermes_lab.sandbox.output import Clipped, read_clipped
from hermes_lab.sandbox.workspace import WORKSPACE

_LONGEST_COMMAND = 131_071  # the kernel's MAX_ARG_STRLEN, less the final NUL
_LARGEST_STATE = 1_000_000
_END = b"#\n"

# A verifier's command must not load what an agent left in its home, such as Python's user site.
_FIRST_VARIABLES = b"export HOME=/"

_PRELUDE = r"""unset BASH_ENV
exec 198<&-
{
%(variables)s
} 2>/dev/null
cd -- %(directory)s 2>/dev/null || cd -- %(workspace)s
%(workdir)s
trap '{ printf "%%s\0" "$PWD"; export -p; echo "#"; } >&199' EXIT
"""


class Exchange:
    """One command at a time: `ask`, then `answer` once process 1 has told its status, then `clear`."""

    def __init__(self, folder: Path) -> None:
        self._command = folder / "command"
        self._prelude = folder / "prelude"
        self._output = folder / "output"
        self._state = folder / "state"
        self._directory = str(WORKSPACE).encode()
        self._variables = b":"
        self._keep_directory = False
        self._fresh = False

    def ask(self, command: str, workdir: str, fresh: bool) -> None:
        """Lays out the next command; `ToolError` where bash cannot take it. A fresh one has and leaves no state."""
        encoded = command.encode(errors="replace")
        if b"\0" in encoded or "\0" in workdir:
            raise ToolError("a command holds no NUL character")
        if len(encoded) > _LONGEST_COMMAND:
            raise ToolError(f"the command is longer than {_LONGEST_COMMAND} bytes; write it to a file and run that")
        self._keep_directory = bool(workdir)
        self._fresh = fresh
        self._command.write_bytes(encoded)
        self._prelude.write_bytes(
            _PRELUDE.encode()
            % {
                b"variables": _FIRST_VARIABLES if fresh else self._variables,
                b"directory": _quote(str(WORKSPACE).encode() if fresh else self._directory),
                b"workspace": _quote(str(WORKSPACE).encode()),
                b"workdir": _enter(workdir) if workdir else b"",
            }
        )

    def output_bytes(self) -> int:
        """The size of the command's output; `SandboxError` where the command could not be started."""
        try:
            return self._output.stat().st_size
        except OSError as error:
            raise SandboxError(f"sandbox: the command did not start: {error.strerror}") from None

    def answer(self, limit: int) -> Clipped:
        """The command's output; its directory and variables are kept, where it lived to tell them."""
        with self._output.open("rb") as file:
            output = read_clipped(file, limit)
        if not self._fresh:
            self._take_state()
        return output

    def clear(self) -> None:
        """Unlinks what the command wrote: its background processes keep writing to files of their own."""
        self._output.unlink(missing_ok=True)
        self._state.unlink(missing_ok=True)

    def _take_state(self) -> None:
        with self._state.open("rb") as file:
            if os.fstat(file.fileno()).st_size > _LARGEST_STATE:
                return
            state = file.read(_LARGEST_STATE)
        directory, nul, variables = state.partition(b"\0")
        if nul and variables.endswith(_END):
            self._variables = variables
            if not self._keep_directory:
                self._directory = directory


def _enter(workdir: str) -> bytes:
    path = _quote(workdir.encode(errors="replace"))
    return b"cd -- %s 2>/dev/null || { printf 'workdir: no such folder: %%s\\n' %s; exit 1; }" % (path, path)


def _quote(path: bytes) -> bytes:
    return os.fsencode(shlex.quote(os.fsdecode(path)))
