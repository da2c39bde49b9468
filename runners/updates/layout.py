"""An installation that can be updated: a folder with versions side by side, of which one is current.

    bin/hermes-lab    a link to ../current/bin/hermes-lab: what a person runs
    current           a link to the folder of the current version; replaced by one rename
    versions/         a virtual environment for each version, never changed once its install.json is there
    update.lock       held by the process that updates

A process keeps the version that it was started with: the program in `bin` names its own environment by its full path.
"""

import os
import secrets
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from hermes_lab.durable import sync_folder
from hermes_lab.errors import ConfigError
from hermes_lab.records import write_json

PROGRAM = "hermes-lab"
_RECORD = "install.json"
TEMPORARY = ".tmp-"
"""Begins the names of folders below `versions` that the next update removes."""


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """What is installed in one folder below `versions`; its install.json, written once it is complete and checked.

    `source` is where it came from (a repository, a wheel, or `index`), `ref` the branch that is followed, `wheel` the
    sha256 of the installed wheel. `replaced` is the folder of the version that was current before it.
    """

    v: int = 1
    version: str
    commit: str = ""
    source: str
    ref: str = ""
    wheel: str = ""
    extras: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    python: str = ""
    installed_at: str
    replaced: str = ""

    @property
    def shown(self) -> str:
        """The version, for people."""
        return f"{self.version} ({self.commit[:12]})" if self.commit else self.version


class Installation:
    """The installation in a folder, which is created by the first update."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.versions = root / "versions"
        self.lock = root / "update.lock"
        self.program = root / "bin" / PROGRAM
        self._link = root / "current"

    @property
    def current(self) -> Path | None:
        """The folder of the current version; None before the first one."""
        try:
            return self.versions / self._link.readlink().name
        except OSError:
            return None

    def read(self, folder: Path) -> Version | None:
        """What is in a version's folder; None if it is not complete. Raises `ConfigError` if its record is damaged."""
        path = folder / _RECORD
        try:
            return msgspec.json.decode(path.read_bytes(), type=Version)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise ConfigError(f"{path}: damaged: {error}; install again with `hermes-lab update`") from None

    def complete(self) -> Iterator[tuple[Path, Version]]:
        """The complete versions, the latest first."""
        folders = (folder for folder in self._folders() if not folder.name.startswith(TEMPORARY))
        found = [(folder, known) for folder in folders if (known := self.read(folder))]
        yield from sorted(found, key=lambda each: each[1].installed_at, reverse=True)

    def new_folder(self, version: str) -> Path:
        """A folder for a version that nothing has ever written to, not even an interrupted update of it."""
        return self.versions / f"{version}-{secrets.token_hex(3)}"

    def record(self, folder: Path, version: Version) -> None:
        """Marks a version as complete."""
        write_json(folder / _RECORD, version)
        sync_folder(folder)

    def switch(self, folder: Path) -> None:
        """Makes a complete version the current one, by one rename."""
        os.sync()  # a version is on the disk before it is pointed to
        self._point(self._link, Path("versions", folder.name))
        self.program.parent.mkdir(exist_ok=True)
        target = Path("..", "current", "bin", PROGRAM)
        if not self.program.is_symlink() or self.program.readlink() != target:
            self._point(self.program, target)

    def leftovers(self) -> Sequence[Path]:
        """The folders that an interrupted update left: not complete, or not removed."""
        return [folder for folder in self._folders() if folder.name.startswith(TEMPORARY) or self.read(folder) is None]

    def remove(self, folder: Path) -> None:
        """Removes a version, or what is left of one."""
        aside = folder
        if not folder.name.startswith(TEMPORARY):  # a version that is only half there never looks complete
            aside = folder.with_name(f"{TEMPORARY}{folder.name}")
            folder.replace(aside)
        shutil.rmtree(aside, ignore_errors=True)

    def is_used(self, folder: Path) -> bool:
        """Whether a process runs from a version, as far as can be seen."""
        marks = f"{folder}/".encode()
        for process in Path("/proc").glob("[0-9]*"):
            for name in ("cmdline", "maps"):
                try:
                    if marks in (process / name).read_bytes():
                        return True
                except OSError:  # it has ended, or is another user's
                    continue
        return False

    def _folders(self) -> Sequence[Path]:
        try:
            return sorted(self.versions.iterdir())
        except FileNotFoundError:
            return []

    def _point(self, link: Path, target: Path) -> None:
        temporary = link.with_name(f".{link.name}.{secrets.token_hex(3)}")
        temporary.symlink_to(target)
        temporary.replace(link)
        sync_folder(link.parent)


def installation_here() -> Installation | None:
    """The installation that this process runs from; None if it runs from something else."""
    folder = Path(sys.prefix)
    if folder.parent.name == "versions" and (folder / _RECORD).is_file():
        return Installation(folder.parents[1])
    return None
