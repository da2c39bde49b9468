"""The processes that an update starts."""

import os
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from hermes_lab.errors import InfraError
from hermes_lab.processes import NotStarted, started
from hermes_lab.runners.updates.screen import Screen

_LAST = 3
_NO_PROGRAM = 127
_NOT_OURS = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT")
"""Variables that would mix this installation with the new one."""
_GIT = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")


def run(command: Sequence[str | Path], screen: Screen, what: str, *, cwd: Path | None = None) -> str:
    """Runs a program, with its output in the log; returns its stdout and stderr. Reads no input.

    Raises `InfraError` with its last lines if it fails.
    """
    code, output = attempt(command, screen, cwd=cwd)
    if code == 0:
        return output
    lines = deque((line.strip() for line in output.splitlines() if line.strip()), _LAST)
    raise InfraError(f"{what} failed (exit code {code}): {' / '.join(lines) or 'no output'}; see {screen.log}")


def attempt(
    command: Sequence[str | Path],
    screen: Screen,
    *,
    cwd: Path | None = None,
    home: Path | None = None,
    log_output: bool = True,
) -> tuple[int, str]:
    """Runs a program as `run`, with that Hermes home; returns its exit code and its output. The code of one that cannot
    be started is 127, as in a shell."""
    words = [str(word) for word in command]
    screen.note(f"$ {' '.join(words)}")
    environment = {name: value for name, value in os.environ.items() if name not in (*_NOT_OURS, *_GIT)}
    environment |= {"GIT_TERMINAL_PROMPT": "0", "PIP_NO_INPUT": "1", "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"}
    environment["PIP_USER"] = "0"  # whatever pip's configuration says
    if home:
        environment["HERMES_HOME"] = str(home)
    if screen.temporary:
        environment["TMPDIR"] = screen.temporary
    kept: list[str] = []
    try:
        with started(words, environment=environment, cwd=cwd, one_output=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if log_output:
                    screen.note(f"  {line}")
                kept.append(line)
    except NotStarted as error:
        said = f"{words[0]}: {error}"
        screen.note(f"  {said}")
        return _NO_PROGRAM, said
    return process.returncode, "".join(kept)
