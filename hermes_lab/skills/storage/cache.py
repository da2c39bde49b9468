"""Caches a library read from disk, and rereads only the skills whose files changed, by their ctime."""

import os
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

import msgspec

from hermes_lab.errors import ConfigError
from hermes_lab.skills.library import Library
from hermes_lab.skills.storage.folder import SKILL, read_skill
from hermes_lab.types import Skill

_ROOT = "."
_TICK_NS = 50_000_000
"""If a file was changed less than this before it was read, a second change may leave its ctime the same, since the
clock of a file system advances in steps of some milliseconds."""
_VERSION = 1


class Seen(NamedTuple):
    """A library as read from disk.

    `stamps` are the ctimes (ns) of its files and folders, by path relative to the library's folder; 0 for those changed
    just before they were read. `size` is the size of the history at that time. `broken` has an error message for each
    folder with an invalid SKILL.md; these are left out of the library and read again every time.
    """

    library: Library
    stamps: Mapping[str, int]
    size: int = 0
    broken: Mapping[str, str] = MappingProxyType({})


def look(root: Path, before: Seen | None) -> Seen:
    """Returns the current library in the folder `root`, reading only what changed since `before`."""
    past = time.time_ns() - _TICK_NS
    library, known = (before.library, before.stamps) if before else (Library(), {})
    dirty = changed(root, known) if before else {_ROOT}
    found: dict[str, int] = {}
    if _ROOT in dirty:
        found[_ROOT] = root.stat().st_ctime_ns
        names = {path.name for path in root.iterdir() if not path.name.startswith(".")}
        dirty |= names ^ {path for path in known if "/" not in path and path != _ROOT}
    changes: dict[str, Skill | None] = {}
    broken: dict[str, str] = {}
    for name in sorted(dirty - {_ROOT}):
        try:
            changes[name] = _read(root, name, found)
        except ConfigError as error:
            changes[name], found[name], broken[name] = None, 0, str(error)
    stamps = {path: stamp for path, stamp in known.items() if path.partition("/")[0] not in dirty}
    stamps |= {path: stamp if stamp < past else 0 for path, stamp in found.items()}
    return Seen(library.with_changes(changes) if changes else library, stamps, broken=broken)


def changed(root: Path, stamps: Mapping[str, int]) -> set[str]:
    """Returns the folders in `root` with a changed ctime in them; `.` stands for `root` itself."""
    found = set()
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for path, stamp in stamps.items():
            try:
                same = os.stat(path, dir_fd=descriptor, follow_symlinks=False).st_ctime_ns == stamp
            except OSError:  # removed, or no longer a folder
                same = False
            if not same:
                found.add(path.partition("/")[0])
    finally:
        os.close(descriptor)
    return found


def keep(path: Path, seen: Seen) -> None:
    """Saves the cache for the next process. Errors such as a full disk are ignored, since the cache is optional."""
    data = _encode((_VERSION, seen.library.pack(), dict(seen.stamps), seen.size))
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    with suppress(OSError):
        try:
            temporary.write_bytes(zlib.crc32(data).to_bytes(4) + data)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def kept(path: Path) -> Seen | None:
    """Loads what `keep` saved; None if the file is missing or damaged."""
    try:
        data = path.read_bytes()
        if zlib.crc32(data[4:]).to_bytes(4) != data[:4]:
            return None
        _, library, stamps, size = _decode(data[4:])
        return Seen(Library.unpack(library), stamps, size)
    except (OSError, ValueError):  # msgspec's errors are ValueErrors
        return None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[Literal[1], bytes, dict[str, int], int]).decode


def _read(root: Path, name: str, stamps: dict[str, int]) -> Skill | None:
    """Reads the skill in a folder, if there is one, and adds to `stamps`."""
    try:
        stamp = (root / name).lstat().st_ctime_ns
    except FileNotFoundError:
        return None
    stamps[name] = stamp
    if not os.path.lexists(root / name / SKILL):
        return None
    reading = read_skill(root / name)
    if reading.skill.name != name:  # what is written later goes to the folder of the skill's name
        raise ConfigError(f"{root / name}: the folder's name is not valid; rename it to {reading.skill.name}")
    stamps |= {f"{name}/{path}" if path else name: stamp for path, stamp in reading.stamps.items()}
    return reading.skill
