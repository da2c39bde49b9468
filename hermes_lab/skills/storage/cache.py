"""A library on disk is read once: afterwards only what was changed since, which the files' times tell."""

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
"""A file that was changed later than this before it was looked at may be changed once more without its time telling:
the clock of a file system advances in steps of some milliseconds."""
_VERSION = 1


class Seen(NamedTuple):
    """A library as it was read, and the times (ns) at which what it was read from had last been changed, by path below
    its folder; 0 where that was just now. `size` is that of its history then. `broken` tells what is wrong with each
    folder that is not in the library though it has a SKILL.md: such a one is always read again."""

    library: Library
    stamps: Mapping[str, int]
    size: int = 0
    broken: Mapping[str, str] = MappingProxyType({})


def look(root: Path, before: Seen | None) -> Seen:
    """The library in the folder `root` now, of which only what changed since `before` is read."""
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
    """The folders in `root` in which something is not as old as its stamp; `.` where it is `root` itself."""
    found = set()
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for path, stamp in stamps.items():
            try:
                same = os.stat(path, dir_fd=descriptor, follow_symlinks=False).st_ctime_ns == stamp
            except OSError:  # gone, or a folder no more
                same = False
            if not same:
                found.add(path.partition("/")[0])
    finally:
        os.close(descriptor)
    return found


def keep(path: Path, seen: Seen) -> None:
    """Puts what was read into a file, for the next process; without it that one reads everything, so a full disk is no
    failure."""
    data = _encode((_VERSION, seen.library.pack(), dict(seen.stamps), seen.size))
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    with suppress(OSError):
        try:
            temporary.write_bytes(zlib.crc32(data).to_bytes(4) + data)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def kept(path: Path) -> Seen | None:
    """What `keep` put there; None where nothing is, or what is there is damaged."""
    try:
        data = path.read_bytes()
        if zlib.crc32(data[4:]).to_bytes(4) != data[:4]:
            return None
        _, library, stamps, size = _decode(data[4:])
        return Seen(Library.unpack(library), stamps, size)
    except (OSError, ValueError):  # msgspec's errors are such
        return None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[Literal[1], bytes, dict[str, int], int]).decode


def _read(root: Path, name: str, stamps: dict[str, int]) -> Skill | None:
    """The skill in a folder, if there is one; takes down its stamps."""
    try:
        stamp = (root / name).lstat().st_ctime_ns
    except FileNotFoundError:
        return None
    stamps[name] = stamp
    if not os.path.lexists(root / name / SKILL):
        return None
    reading = read_skill(root / name)
    stamps |= {f"{name}/{path}" if path else name: stamp for path, stamp in reading.stamps.items()}
    return reading.skill
