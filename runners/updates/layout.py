"""An installation that can be updated: a folder with versions side by side, of which one is current.

    bin/hermes-lab    a link to ../current/bin/hermes-lab: what a person runs
    current           a link to the folder of the current version; replaced by one rename
    versions/         a virtual environment for each version, never changed once its install.json is there
    update.lock       held by the process that updates; marks the folder as an installation

A process keeps the version that it was started with: the program in `bin` names its own environment by its full path.
"""

import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from hermes_lab.commit import INSTALLATION
from hermes_lab.durable import sync_folder
from hermes_lab.errors import ConfigError, InfraError
from hermes_lab.records import write_json

PROGRAM = "hermes-lab"
_NAME = re.compile(r".+-[0-9a-f]{6}")
"""The names of versions' folders."""
_TARGET = Path("..", "current", "bin", PROGRAM)
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

    def check(self) -> None:
        """Raises `ConfigError` if the folder has something else in it, which an update might remove or replace."""
        try:
            foreign = any(self.root.iterdir()) and not self.lock.exists()
        except FileNotFoundError:
            return
        except OSError as error:
            raise ConfigError(f"{self.root}: {error.strerror}; choose a folder with --at") from None
        if foreign:
            raise ConfigError(
                f"{self.root}: is not empty, and no installation of {PROGRAM}; choose a new or empty folder with --at"
            )
        if os.path.lexists(self.program) and not self._is_linked():
            raise ConfigError(f"{self.program}: is not the link that an update makes; move it away")

    def read(self, folder: Path) -> Version | None:
        """What is in a version's folder; None if it is not complete, or its record is damaged."""
        path = folder / INSTALLATION
        try:
            return msgspec.json.decode(path.read_bytes(), type=Version)
        except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
            return None
        except OSError as error:
            raise InfraError(f"{path}: cannot be read: {error.strerror}") from None

    def complete(self) -> Iterator[tuple[Path, Version]]:
        """The complete versions, the latest first."""
        folders = (folder for folder in self._folders() if not folder.name.startswith(TEMPORARY))
        found = [(folder, known) for folder in folders if (known := self.read(folder))]
        yield from sorted(found, key=lambda each: each[1].installed_at, reverse=True)

    def new_folder(self, version: str) -> Path:
        """A folder for a version that nothing has ever written to, not even an interrupted update of it."""
        return self.versions / f"{version}-{secrets.token_hex(3)}"

    def record(self, folder: Path, version: Version) -> None:
        """Marks a version as complete. What is marked is on the disk: the next update may take it as it is."""
        if not (folder / INSTALLATION).exists():
            os.sync()
        write_json(folder / INSTALLATION, version)
        sync_folder(folder)

    def switch(self, folder: Path) -> None:
        """Makes a complete version the current one, by one rename."""
        self.link_program()  # first, so that the rename is the last step
        self._point(self._link, Path("versions", folder.name))

    def link_program(self) -> None:
        """Makes the link to the current version's program, if it is not there."""
        if not self._is_linked():
            self.program.parent.mkdir(exist_ok=True)
            self._point(self.program, _TARGET)

    def leftovers(self) -> Sequence[Path]:
        """The folders that an interrupted update left, not complete or not removed, and those with a damaged record.
        The current version, and what a process runs from, are never among them."""
        return [folder for folder in self._folders() if self._is_left(folder)]

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

    def _is_left(self, folder: Path) -> bool:
        if folder.name.startswith(TEMPORARY):
            return True
        ours = _NAME.fullmatch(folder.name) and folder != self.current and folder.is_dir()
        return bool(ours) and self.read(folder) is None and not self.is_used(folder)

    def _is_linked(self) -> bool:
        return self.program.is_symlink() and self.program.readlink() == _TARGET

    def _folders(self) -> Sequence[Path]:
        try:
            return sorted(self.versions.iterdir())
        except FileNotFoundError:
            return []

    def _point(self, link: Path, target: Path) -> None:
        temporary = link.with_name(f".{link.name}.new")
        temporary.unlink(missing_ok=True)  # of a killed update
        temporary.symlink_to(target)
        temporary.replace(link)
        sync_folder(link.parent)


def installation_here() -> Installation | None:
    """The installation that this process runs from; None if it runs from something else."""
    folder = Path(sys.prefix).resolve()  # of `current/bin/python` it is the link
    if folder.parent.name == "versions" and (folder / INSTALLATION).is_file():
        return Installation(folder.parents[1])
    return None
