"""Files of scored groups: JSON Lines, one group per line, validated when read and written."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from hermes_lab.envs.group_checks import validate_group
from hermes_lab.errors import ConfigError
from hermes_lab.records import write_atomic
from hermes_lab.types import ScoredGroup
from hermes_lab.types.group import GROUP_VERSION

_encoder = msgspec.json.Encoder()


def write_groups(groups: Iterable[ScoredGroup], path: Path) -> int:
    """Writes all groups, or none if one is invalid; returns their number."""
    lines: list[bytes] = []
    for number, group in enumerate(groups, 1):
        try:
            validate_group(group)
        except ConfigError as error:
            raise ConfigError(f"{path}: row {number} is not a valid group; nothing was written: {error}") from None
        lines.append(_encoder.encode(group) + b"\n")
    write_atomic(path, b"".join(lines))
    return len(lines)


def read_groups(path: Path) -> list[ScoredGroup]:
    """Every group of a file; older versions are upgraded.

    Raises `ConfigError` with file and line for an invalid group.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    groups = []
    for number, line in enumerate(lines, 1):
        try:
            groups.append(_read(line))
        except ConfigError as error:
            raise ConfigError(f"{path}:{number}: {error}") from None
    return groups


def _read(line: bytes) -> ScoredGroup:
    try:
        row = msgspec.json.decode(line)
        version = row.get("v", 1) if isinstance(row, dict) else 1
        if isinstance(version, int) and version > GROUP_VERSION:
            raise ConfigError(f"record version {version} is newer than this Hermes Lab reads ({GROUP_VERSION})")
        group = msgspec.convert(_upgrade(row) if version == 1 else row, ScoredGroup)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"not a scored group: {error}") from None
    validate_group(group)
    return group


def _upgrade(row: Any) -> Any:
    """Upgrades a group of version 1 to version 2: null log-probabilities for tokens that were not sampled, samples
    from the keys, and defaults of `ScoredGroup` for missing fields. Other input is unchanged."""
    try:
        sampled = [
            [logprob if on else None for on, logprob in zip(*of_sequence, strict=True)]
            for of_sequence in zip(row["masks"], row["logprobs"], strict=True)
        ]
        samples = [int(key.rpartition("|")[2]) for key in row["episodes"]]
    except (KeyError, TypeError, ValueError, AttributeError):
        return row
    unknown = {"split": "", "world": -1, "model": {"provider": "", "name": ""}, "config_digest": ""}
    return {**row, **unknown, "v": GROUP_VERSION, "logprobs": sampled, "samples": samples}
