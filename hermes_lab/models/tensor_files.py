"""Names, shapes and metadata of safetensors files, read from their headers without torch."""

import json
from pathlib import Path
from typing import NamedTuple

from hermes_lab.errors import ConfigError


class Header(NamedTuple):
    """What a safetensors file says at its beginning: the shapes by tensor name, and its metadata."""

    shapes: dict[str, tuple[int, ...]]
    metadata: dict[str, str]


def read_header(path: Path) -> Header:
    """The header of a safetensors file: 8 bytes with its length, then JSON. Raises `ConfigError`."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > path.stat().st_size:
                raise ValueError("its header is longer than the file")
            found = json.loads(file.read(length))
        if not isinstance(found, dict):
            raise TypeError("its header is not a mapping")
        metadata = {str(name): str(value) for name, value in found.pop("__metadata__", {}).items()}
        return Header({str(name): tuple(map(int, each["shape"])) for name, each in found.items()}, metadata)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ConfigError(f"{path}: not a safetensors file: {error}") from None
