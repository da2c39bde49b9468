"""`sandbox.volumes`: folders that sandboxes have beside their workspace."""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import ConfigError
from hermes_lab.sandbox.workspace import SKILLS, WORKSPACE

_TAKEN = (PurePosixPath("/"), WORKSPACE, SKILLS, WORKSPACE.parent)
_OWN = tuple(map(PurePosixPath, ("/proc", "/sys", "/dev", "/run/hermes-lab")))


class Volume(NamedTuple):
    """A volume: `source` is a folder of this machine, or the name of a volume of a hosted service."""

    source: str
    target: PurePosixPath
    read_only: bool


def volumes_of(config: SandboxConfig) -> Sequence[Volume]:
    """The configured volumes. Raises `ConfigError` for one that is malformed, hides what sandboxes need, or does not
    exist."""
    return tuple(_volume(text) for text in config.volumes)


def named_volumes_of(config: SandboxConfig) -> Sequence[Volume]:
    """The configured volumes of a hosted service, by their names there. Raises `ConfigError` for one that is malformed
    or hides what sandboxes need."""
    return tuple(_parsed(text) for text in config.volumes)


def _wrong(text: str, why: str) -> ConfigError:
    return ConfigError(f"sandbox.volumes: {text}: {why}")


def _parsed(text: str) -> Volume:
    parts = text.split(":")
    if len(parts) not in (2, 3) or not all(parts):
        raise _wrong(text, "give SOURCE:TARGET or SOURCE:TARGET:ro")
    mode = parts[2] if len(parts) == 3 else "rw"
    if mode not in ("ro", "rw"):
        raise _wrong(text, f"{mode!r} is no mode; give ro or rw")
    target = PurePosixPath(parts[1])
    if not target.is_absolute() or ".." in target.parts:
        raise _wrong(text, f"{parts[1]} must be an absolute path in the sandbox")
    if target in _TAKEN or any(target.is_relative_to(each) for each in (*_OWN, WORKSPACE, SKILLS)):
        raise _wrong(text, f"{target} is the sandbox's own; choose another target")
    return Volume(parts[0], target, mode == "ro")


def _volume(text: str) -> Volume:
    volume = _parsed(text)
    source = Path(volume.source).expanduser()
    if not source.is_absolute():
        raise _wrong(text, f"{volume.source} must be an absolute path of this machine, or begin with ~")
    if not source.exists():
        raise _wrong(text, f"{volume.source}: no such file or folder")
    return volume._replace(source=str(source))
