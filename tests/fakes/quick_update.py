"""`hermes-lab update`, but a virtual environment gets its pip as links to files that are ready: ensurepip takes
longer than all the rest. What it makes is the same; `test_faults_update_real.py` has it made as a person's is.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hermes_lab.runners.cli import main
from hermes_lab.runners.updates import build
from hermes_lab.runners.updates.processes import run

READY = "READY_ENVIRONMENT"


def quick(command: Sequence[str | Path], screen: Any, what: str) -> str:
    """Runs a program of an update; `-m venv FOLDER` with links."""
    if "venv" not in command:
        return run(command, screen, what)
    *venv, folder = command
    said = run([*venv, "--without-pip", folder], screen, what)
    shutil.copytree(Path(os.environ[READY], "lib"), Path(folder, "lib"), copy_function=os.link, dirs_exist_ok=True)
    return said


def start() -> None:
    """The command line."""
    build.run = quick
    main()


if __name__ == "__main__":
    start()
