"""`run.json`: what was asked of a run, so that anyone can ask for it again."""

from pathlib import Path
from typing import Any

import msgspec

from hermes_lab.errors import ConfigError


class RunManifest(msgspec.Struct, frozen=True, kw_only=True):
    """`config` is resolved, with every default; `wanted` counts the episodes of the whole run."""

    v: int = 1
    command: str
    config: dict[str, Any]
    config_digest: str
    tasks_digest: str
    wanted: int
    created_at: str
    versions: dict[str, str]


def read_manifest(run: Path) -> RunManifest:
    """Reads `run.json`. Raises `ConfigError` where the folder holds no run."""
    path = run / "run.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=RunManifest)
    except (FileNotFoundError, NotADirectoryError):
        raise ConfigError(f"{run}: no run here (no run.json)") from None
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path}: not a run manifest: {error}") from None
