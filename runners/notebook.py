"""Runs `hermes-lab` commands from a notebook, in a subprocess with the kernel's Python."""

import subprocess
import sys
from pathlib import Path

from hermes_lab.errors import ConfigError


def lab(*words: str | Path) -> str:
    """Runs `hermes-lab` with these arguments and returns its stdout.

    Raises `ConfigError` with the error message if the exit code is not 0. That includes 3, unfinished episodes.
    """
    command = [sys.executable, "-m", "hermes_lab", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ConfigError(f"hermes-lab {' '.join(map(str, words))}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.rstrip()
