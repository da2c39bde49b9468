"""The folder through which the harness and the sandbox's process 1 exchange commands, outputs and state.

No path inside the sandbox leads to it: process 1 uses a file descriptor that commands do not inherit. The directory and
variables that a command reports are only ever evaluated by the next command, never by process 1.
"""

import fcntl
import os
import shlex
import signal
from pathlib import Path

from hermes_lab.errors import SandboxError, ToolError
from hermes_lab.sandbox.workspace import WORKSPACE
from hermes_lab.text.clip import Clipped, read_clipped

_LONGEST_COMMAND = 131_071  # the kernel's MAX_ARG_STRLEN without the final NUL
_LARGEST_STATE = 1_000_000
_END = b"#\n"
_SMALL_FILE_KB = 64

# A verifier's command must not load what the agent left in its home, such as Python's user site.
_FIRST_VARIABLES = b"export HOME=/"

_PRELUDE = r"""unset BASH_ENV
exec 198<&-
%(limit)s
{
%(variables)s
} 2>/dev/null
cd -- %(directory)s 2>/dev/null || cd -- %(workspace)s
%(workdir)s
trap '{ printf "%%s\0" "$PWD"; export -p; echo "#"; } >&199' EXIT
"""


class Exchange:
    """Handles one command at a time: `ask`, then `answer` once process 1 has reported its status, then `clear`."""

    def __init__(self, folder: Path, workspace: str = str(WORKSPACE), *, appended: bool = False) -> None:
        """`workspace`: its path as seen by commands. `appended`: process 1 lets commands append to the files of earlier
        ones if nobody else has them open, since creating and truncating files is slow."""
        self._appended = appended
        self._output_begins = self._state_begins = 0
        self._workspace = workspace.encode()
        # As text: every command looks at them a dozen times, and a `Path` is slow to become one.
        self._command, self._prelude = f"{folder}/command", f"{folder}/prelude"
        self._output, self._state = f"{folder}/output", f"{folder}/state"
        self._directory = self._workspace
        self._variables = b":"
        self._keep_directory = False
        self._fresh = False

    def ask(self, command: str, workdir: str, fresh: bool, full: bool = False) -> None:
        """Writes the next command. Raises `ToolError` if bash cannot run it. A fresh command has and leaves no state.

        In a `full` workspace a command can write only small files, but remove anything.
        """
        encoded = command.encode(errors="replace")
        if b"\0" in encoded or "\0" in workdir:
            raise ToolError("a command must not contain a NUL character")
        if len(encoded) > _LONGEST_COMMAND:
            raise ToolError(f"the command is longer than {_LONGEST_COMMAND} bytes; write it to a file and run the file")
        if fresh:  # its output goes to files that no process of the agent has open, not even for reading
            self._unlink()
        if self._appended:
            self._output_begins, self._state_begins = _size(self._output), _size(self._state)
        self._keep_directory = bool(workdir)
        self._fresh = fresh
        _write(self._command, encoded)
        _write(
            self._prelude,
            _PRELUDE.encode()
            % {
                b"limit": b"ulimit -f %d" % _SMALL_FILE_KB if full else b"",
                b"variables": _FIRST_VARIABLES if fresh else self._variables,
                b"directory": _quote(self._workspace if fresh else self._directory),
                b"workspace": _quote(self._workspace),
                b"workdir": _enter(workdir) if workdir else b"",
            },
        )

    def output_bytes(self) -> int:
        """The size of the command's output. Raises `SandboxError` if the command could not be started."""
        try:
            return os.stat(self._output).st_size - self._output_begins  # noqa: PTH116
        except OSError as error:
            raise SandboxError(f"sandbox: the command did not start: {error.strerror}") from None

    def answer(self, limit: int) -> Clipped:
        """The command's output. Stores its directory and variables, if it lived to report them."""
        with open(self._output, "rb") as file:  # noqa: PTH123
            output = read_clipped(file, limit, self._output_begins)
        if not self._fresh:
            self._take_state()
        return output

    def touch(self) -> None:
        """Creates the empty output of a command that was killed immediately."""
        Path(self._output).touch()
        Path(self._state).touch()

    def clear(self, *, last: bool = False) -> None:
        """Unlinks files held open by background processes, which keep writing to their own copies, and the output of a
        verifier's command or of an episode's `last` one, since the agent may read what it may write."""
        files = (self._output, self._state)
        if not self._appended or last or self._fresh or any(_size(f) > _LARGEST_STATE or _is_held(f) for f in files):
            self._unlink()

    def _unlink(self) -> None:
        for path in (self._output, self._state):
            Path(path).unlink(missing_ok=True)

    def _take_state(self) -> None:
        with open(self._state, "rb") as file:  # noqa: PTH123
            if os.fstat(file.fileno()).st_size - self._state_begins > _LARGEST_STATE:
                return
            file.seek(self._state_begins)
            state = file.read(_LARGEST_STATE)
        directory, nul, variables = state.partition(b"\0")
        if nul and variables.endswith(_END):
            self._variables = variables
            if not self._keep_directory:
                self._directory = directory


def _is_held(path: str) -> bool:
    """Whether a process may still write to a file: the kernel grants a read lease only if none can."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)  # another process opening the file now must not kill the harness
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError:
        return True
    finally:
        os.close(fd)  # also releases the lease
    return False


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except FileNotFoundError:
        return 0


def _write(path: str, content: bytes) -> None:
    """Overwrites a file with `content`, with a NUL after it if it would be empty.

    ext4 flushes a file that is truncated to zero and rewritten, but not one that shrinks.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.write(fd, content or b"\0")
        os.ftruncate(fd, len(content) or 1)
    finally:
        os.close(fd)


def _enter(workdir: str) -> bytes:
    path = _quote(workdir.encode(errors="replace"))
    return b"cd -- %s 2>/dev/null || { printf 'workdir: no such folder: %%s\\n' %s; exit 1; }" % (path, path)


def _quote(path: bytes) -> bytes:
    return os.fsencode(shlex.quote(os.fsdecode(path)))
