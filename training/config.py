"""Training configuration. All other hyperparameters are in the lock."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import Field, field_validator

from hermes_lab.config.paths import InputPath, NameOrPath, OutputPath
from hermes_lab.config.section import Section
from hermes_lab.config.sources import load_section, read_values
from hermes_lab.errors import ConfigError
from hermes_lab.training.lock_enforcement import Given, locked_fields, refusal

ADAPTERS = "runs/adapters"

T = TypeVar("T", bound="Training")


class Gate(Section):
    """Which episodes may be trained on."""

    splits: Annotated[tuple[str, ...], Field(min_length=1)] = ("train",)
    """Splits of the suite; tasks of any other split are held out."""
    held_out: tuple[InputPath, ...] = ()
    """Run folders of held-out evaluations: none of their tasks is trained on."""
    compress: bool = False
    """Drop middle turns of conversations longer than the locked max_token_length instead of refusing them."""
    consent: bool = False
    """Also train on turns of chats that were recorded without `chat.consent`: everyone who wrote in them agrees."""


class Training(Section):
    """Fields of every training."""

    lock: InputPath
    """The lock file."""
    gate: Gate = Gate()
    """Which episodes to train on."""
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")] = "sft"
    """The adapter's name; each training creates the next version `<name>-v<N>`."""
    adapters: OutputPath = ADAPTERS
    """The folder of all adapters."""
    parent: NameOrPath = ""
    """An adapter to continue from, its folder or name; empty starts a new one."""
    resume: bool = False
    """Continue the newest version from its last checkpoint, after a kill. On the command line: `--resume`."""


class TrainConfig(Training):
    """A training on existing run folders."""

    data: Annotated[tuple[InputPath, ...], Field(min_length=1)]
    """Run folders with the training episodes."""

    @field_validator("data")
    @classmethod
    def _runs_exist(cls, data: tuple[str, ...]) -> tuple[str, ...]:
        for run in data:
            if not (Path(run) / "episodes").is_dir():
                raise ValueError(f"{run} is no run folder: it holds no episodes/")
        return data


def load_train_config(sources: Sequence[str]) -> TrainConfig:
    """`load_training` for a training on run folders."""
    return load_training(TrainConfig, sources)


def load_training(schema: type[T], sources: Sequence[str]) -> T:
    """Loads YAML files and `key=value` overrides, merged left to right.

    Raises `ConfigError` for invalid values, and for any attempt to set a locked field.
    """
    lock = ""
    attempts: list[tuple[str, str]] = []
    for source in sources:
        given = Given.by(source)
        if isinstance(given.get("lock"), str):
            lock = str(read_values(schema, [source])["lock"]) or lock
        attempts += [(source, field) for field in locked_fields(given)]
    if attempts:
        source, field = attempts[0]
        raise ConfigError(f"{source}: {refusal(field, lock)}")
    return load_section(schema, sources)
