"""`run.json`: what was asked of a run, so that anyone can ask for it again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from pydantic import ValidationError

from hermes_lab.config.schema import RunConfig, decisive
from hermes_lab.errors import ConfigError

WITHOUT_OBJECTS = "2:"
"""Begins a digest of tasks that leaves out objects of the lab's own classes. Earlier ones had their names in it."""


class RunManifest(msgspec.Struct, frozen=True, kw_only=True):
    """`config` is resolved, with every default; `wanted` counts the episodes of the whole run.

    `tasks_digest`, `library` (a snapshot) and `adapter_digest` are of what the configuration only points to.
    """

    v: int = 1
    command: str
    config: dict[str, Any]
    config_digest: str
    tasks_digest: str
    library: str = ""
    adapter_digest: str = ""
    wanted: int
    created_at: str
    versions: dict[str, str]


def read_manifest(run: Path) -> RunManifest:
    """Reads `run.json`. Raises `ConfigError` where the folder holds no run."""
    path = run / "run.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=RunManifest)
    except (FileNotFoundError, NotADirectoryError):
        raise no_run(run) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: not a run manifest: {error}") from None


def no_run(folder: Path) -> ConfigError:
    """What is said of a folder that holds no run."""
    why = "no run.json" if folder.is_dir() else "not a folder" if folder.exists() else "no such folder"
    return ConfigError(f"{folder}: no run here ({why})")


def same_tasks(earlier: str, now: str) -> bool:
    """Whether two digests of tasks are of the same ones. One from before `WITHOUT_OBJECTS` cannot be compared where the
    tasks have such objects; their suite and seed are compared as a part of the configuration."""
    return earlier == now or (now.startswith(WITHOUT_OBJECTS) and not earlier.startswith(WITHOUT_OBJECTS))


def config_differences(a: RunManifest, b: RunManifest) -> Iterator[tuple[str, Any, Any]]:
    """The fields that decide a run's rows and differ: name, value in `a`, value in `b`. A field that was not there yet
    when a run began had its default."""
    yield from _differences(decisive(_whole(a.config)), decisive(_whole(b.config)))


def _whole(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration with every field of today's; one that is no valid one today stays as it is."""
    try:
        return RunConfig.model_validate(config).model_dump(mode="json")
    except ValidationError:
        return config


def _differences(a: dict[str, Any], b: dict[str, Any], at: str = "") -> Iterator[tuple[str, Any, Any]]:
    for key in {**a, **b}:
        x, y = a.get(key), b.get(key)
        if isinstance(x, dict) and isinstance(y, dict):
            yield from _differences(x, y, f"{at}{key}.")
        elif x != y:
            yield f"{at}{key}", x, y
