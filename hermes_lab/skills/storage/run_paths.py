"""Which folders are a run's: whatever is in a run is a record, and stays as it is."""

import shlex
from pathlib import Path

from hermes_lab.errors import ConfigError
from hermes_lab.skills.storage.store import SkillStore


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run."""
    return (folder / "run.json").is_file()


def run_of(folder: Path) -> Path | None:
    """The run that a folder is, or lies in, also by a link."""
    folder = folder.resolve()
    return next((place for place in (folder, *folder.parents) if is_run(place)), None)


def store_in(folder: Path) -> SkillStore:
    """The library in a folder, to be changed. Raises `ConfigError` for one inside a run."""
    if run := run_of(folder):
        raise ConfigError(
            f"{folder}: a run ({run}) cannot be changed; copy its skills to your own with: "
            f"hermes-lab skills install {shlex.quote(str(folder.resolve()))}"
        )
    return SkillStore(folder)
