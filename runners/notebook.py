"""The commands from a notebook: the same program, in a process of its own, with this kernel's Python."""

import subprocess
import sys
from pathlib import Path

from hermes_lab.errors import ConfigError


def lab(*words: str | Path) -> str:
    """Runs `hermes-lab` with these words and gives what it printed.

    Raises `ConfigError` with its error line where it fails. An exit code of 3, owed episodes, is a failure too.
    """
    command = [sys.executable, "-m", "hermes_lab", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ConfigError(f"hermes-lab {' '.join(map(str, words))}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.rstrip()
