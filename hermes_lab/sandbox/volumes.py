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
    """A volume: `source` is a folder of this machine, or the name of a volume at a service."""

    source: str
    target: PurePosixPath
    read_only: bool


def volumes_of(config: SandboxConfig) -> Sequence[Volume]:
    """The configured volumes. Raises `ConfigError` for one that is malformed, hides what sandboxes need, or does not
    exist."""
    return tuple(_volume(text) for text in config.volumes)


def named_volumes_of(config: SandboxConfig) -> Sequence[Volume]:
    """As `volumes_of`, for volumes that the backend's service has: whether one exists is not checked."""
    return tuple(_volume(text, service=config.backend) for text in config.volumes)


def _volume(text: str, *, service: str = "") -> Volume:
    def wrong(why: str) -> ConfigError:
        return ConfigError(f"sandbox.volumes: {text}: {why}")

    parts = text.split(":")
    if len(parts) not in (2, 3) or not all(parts):
        raise wrong("give SOURCE:TARGET or SOURCE:TARGET:ro")
    mode = parts[2] if len(parts) == 3 else "rw"
    if mode not in ("ro", "rw"):
        raise wrong(f"{mode!r} is not a mode; give ro or rw")
    target = PurePosixPath(parts[1])
    if not target.is_absolute() or ".." in target.parts:
        raise wrong(f"{parts[1]} must be an absolute path in the sandbox")
    if target in _TAKEN or any(target.is_relative_to(each) for each in (*_OWN, WORKSPACE, SKILLS)):
        raise wrong(f"{target} is the sandbox's own; choose another target")
    if service:
        if "/" in parts[0] or parts[0].startswith("~"):
            raise wrong(f"{parts[0]} must be the name of a volume at {service}, not a folder of this machine")
        return Volume(parts[0], target, mode == "ro")
    source = Path(parts[0]).expanduser()
    if not source.is_absolute():
        raise wrong(f"{parts[0]} must be an absolute path of this machine, or begin with ~")
    if not source.exists():
        raise wrong(f"{parts[0]}: no such file or folder")
    return Volume(str(source), target, mode == "ro")
