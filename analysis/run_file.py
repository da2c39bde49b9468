"""The part of `run.json` that analysis reads."""

from pathlib import Path
from typing import Any

import msgspec

from hermes_lab.errors import ConfigError


class RunFile(msgspec.Struct, frozen=True):
    """What a run set out to do. `wanted` counts episodes; `config` is the resolved configuration."""

    wanted: int
    config: dict[str, Any] = {}
    tasks_digest: str = ""


def read_run_file(run: Path) -> RunFile:
    """Raises `ConfigError` where the file is missing or lacks a field."""
    path = run / "run.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=RunFile)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}; is {run} a run folder?") from None
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path}: {error}") from None
