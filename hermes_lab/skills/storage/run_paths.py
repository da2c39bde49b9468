"""Protects the folders of runs, which are records and must not be changed."""

import shlex
from pathlib import Path

from hermes_lab.errors import ConfigError
from hermes_lab.skills.storage.store import SkillStore


def is_run(folder: Path) -> bool:
    """Whether a folder is a run."""
    return (folder / "run.json").is_file()


def run_of(folder: Path) -> Path | None:
    """Returns the run that contains a folder (or is it), after resolving links; None if there is none."""
    folder = folder.resolve()
    return next((path for path in (folder, *folder.parents) if is_run(path)), None)


def store_in(folder: Path) -> SkillStore:
    """Opens the library in a folder for changes. Raises `ConfigError` if it is inside a run."""
    if run := run_of(folder):
        raise ConfigError(
            f"{folder}: a run ({run}) cannot be changed; copy its skills to your own with: "
            f"hermes-lab skills install {shlex.quote(str(folder.resolve()))}"
        )
    return SkillStore(folder)
