"""What a person may choose for one training; everything else is locked."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field, field_validator

from hermes_lab.config import Section, load_section
from hermes_lab.errors import ConfigError
from training.lock import HOW_TO_CHANGE, LockedConfig, load_lock

ADAPTERS = "runs/adapters"


class Gate(Section):
    """Which episodes may be trained on."""

    splits: Annotated[tuple[str, ...], Field(min_length=1)] = ("train",)
    """Splits of the suite; tasks of any other split are held out."""
    held_out: tuple[str, ...] = ()
    """Run folders that the adapter will be judged by: none of their tasks is trained on."""


class TrainConfig(Section):
    """One training."""

    lock: str
    """The locked file."""
    data: Annotated[tuple[str, ...], Field(min_length=1)]
    """Run folders whose episodes are the data."""
    gate: Gate = Gate()
    """Which of the episodes."""
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")] = "sft"
    """The adapter's name; each training makes the next version `<name>-v<N>`."""
    adapters: str = ADAPTERS
    """The folder of all adapters."""
    parent: str = ""
    """An adapter to continue from, its folder or name; empty starts a new one."""
    resume: bool = False
    """Continue the newest version from its last checkpoint, after a kill."""

    @field_validator("data")
    @classmethod
    def _runs_exist(cls, data: tuple[str, ...]) -> tuple[str, ...]:
        for run in data:
            if not (Path(run) / "episodes").is_dir():
                raise ValueError(f"{run} is no run folder: it holds no episodes/")
        return data


class _Given(Section):
    """Takes any field, to see what a source tries to set."""

    model_config = ConfigDict(extra="allow")


def load_train_config(sources: Sequence[str]) -> TrainConfig:
    """YAML files and `key=value` overrides, merged left to right.

    Raises `ConfigError` for a mistake, and for every attempt to set what the lock holds.
    """
    lock = ""
    attempts: list[tuple[str, str]] = []
    for source in sources:
        given = dict(load_section(_Given, [source]).model_extra or {})
        if isinstance(given.get("lock"), dict):
            given |= given.pop("lock")
        lock = str(given.get("lock") or lock)
        attempts += [(source, field) for field in given if field in LockedConfig.model_fields]
    if attempts:
        source, field = attempts[0]
        value = f" at {getattr(load_lock(Path(lock)), field)!r} by {lock}" if lock else ""
        raise ConfigError(f"{source}: {field} is locked{value}; {HOW_TO_CHANGE}")
    return load_section(TrainConfig, sources)
