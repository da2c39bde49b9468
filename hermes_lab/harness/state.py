"""Memory of a program that only the program can read, such as a database: carried as an archive (`agent.carry_state`).

Skills and notes are carried by the records instead, which say what was written and by whom.
"""

import gzip
import io
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from hermes_lab.config.schema import RunConfig
from hermes_lab.errors import StoreError, ToolError
from hermes_lab.kept import keep, read_kept
from hermes_lab.protocols import Home

FOLDER = "homes"
"""In the run folder. An archive is named by its sha256."""
MAX_BYTES = 256_000_000
"""The most that is carried, before compression."""


@dataclass(frozen=True)
class States:
    """The archives of a run, below `folder`. A replay reads them, and `keeps` none."""

    folder: Path
    keeps: bool = True

    def keep(self, data: bytes) -> str:
        """Keeps an archive; returns its name. Raises `StoreError`. Blocks."""
        return keep(self.folder, data, ".tar.gz") if self.keeps else ""

    def restore(self, home: Home, name: str) -> None:
        """Writes the files of an archive into a home. Raises `StoreError` if it is missing or was changed. Blocks."""
        unpack_state(home, read_kept(self.folder, name))


def states_of(config: RunConfig, run: Path, *, keeps: bool = True) -> States | None:
    """The archives of a run; None if it carries none."""
    return States(run / FOLDER, keeps) if config.agent.carry_state else None


def pack_state(home: Home, patterns: Sequence[str]) -> bytes:
    """The files below the home that match one of the patterns, in which `*` stands for folders too, as a gzipped tar;
    empty if there are none. The same content gives the same bytes.

    Raises `ToolError` for more than `MAX_BYTES`, and for a file that cannot be read. Blocks.
    """
    left, packed = MAX_BYTES, io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=6, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        paths = _matching(home, patterns)
        for path in paths:
            data = home.read(path, left)
            left -= len(data)
            info = tarfile.TarInfo(path)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return packed.getvalue() if paths else b""


def unpack_state(home: Home, data: bytes) -> None:
    """Writes the files of an archive of `pack_state` into a home. Raises `StoreError` if it is none. Blocks."""
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
            for info in archive:
                content = archive.extractfile(info)
                assert content is not None  # only files are packed
                home.write(info.name, content.read())
    except (tarfile.TarError, ToolError, EOFError, OSError) as error:
        raise StoreError(f"the program's memory cannot be restored: {error}") from None


def _matching(home: Home, patterns: Sequence[str]) -> list[str]:
    found: set[str] = set()
    for pattern in patterns:
        parts = PurePosixPath(pattern).parent.parts
        fixed = next((index for index, part in enumerate(parts) if "*" in part), len(parts))
        below = "/".join(parts[:fixed])
        paths = (f"{below}/{path}" if below else path for path in home.files(below))
        found |= {path for path in paths if fnmatchcase(path, pattern)}
    return sorted(found)
