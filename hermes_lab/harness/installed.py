"""An installation of a program: what is run, and what identifies it in records."""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hermes_lab.config.schema import AgentConfig
from hermes_lab.errors import ConfigError
from hermes_lab.harness.program import Program, Settings
from hermes_lab.harness.programs import find_program
from hermes_lab.sandbox.installation import installation, seen_executable
from hermes_lab.types import ProgramUse

_SKIPPED = ("__pycache__",)


@dataclass(frozen=True)
class Installed:
    """A program as it is installed here. `folders` are what it needs of this machine besides /usr: first its own one,
    whose files `digest` is the sha256 of, then that of its interpreter. An upgraded program is another one."""

    name: str
    executable: Path
    folders: tuple[Path, ...]
    version: str
    digest: str
    settings: dict[str, Any]

    @property
    def program(self) -> Program:
        """What the lab knows of it."""
        return find_program(self.name)

    def use(self) -> ProgramUse:
        """Its part of a record."""
        return ProgramUse(self.name, self.version, self.digest)

    def read_settings(self) -> Settings:
        """Its own settings (`agent.settings`)."""
        return read_settings(self.program, self.settings)


def find_installed(config: AgentConfig) -> Installed | None:
    """The installation of `agent.program`; None for the lab's own loop.

    Reads the whole installation, which takes about a second. Raises `ConfigError` if there is none, or for settings
    that the program does not have.
    """
    if not config.program:
        return None
    program = find_program(config.program)
    read_settings(program, config.settings)
    executable = find_executable(program, config.at)
    folders = installation(executable)
    return Installed(
        config.program,
        seen_executable(executable),
        folders,
        version_of(program, executable, folders),
        digest_of(_own_folders(executable, folders)),
        dict(config.settings),
    )


def read_settings(program: Program, settings: dict[str, Any]) -> Settings:
    """The program's settings. Raises `ConfigError` naming the field."""
    try:
        return program.settings(**settings)
    except (ValidationError, TypeError) as error:
        if not isinstance(error, ValidationError):
            raise ConfigError(f"agent.settings: {error}") from None
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        known = ", ".join(program.settings.model_fields) or "none"
        unknown = first["type"] == "extra_forbidden"
        why = f"{program.name} has no such setting (it has: {known})" if unknown else first["msg"]
        raise ConfigError(f"agent.settings.{field}: {why}") from None


def find_executable(program: Program, at: str) -> Path:
    """The program's command: in the folder `at` or its bin folders, or on the PATH. Raises `ConfigError`."""
    name = program.executable
    if not at:
        if found := shutil.which(name):
            return Path(found).absolute()
        place = installed_by_make(program)
        where = f"set agent.at={place}" if place else f"install it with `{program.install}`, or set agent.at"
        raise ConfigError(f"agent.program: {program.name} is not found ({name} is not on the PATH): {where}")
    try:
        folder = Path(at).expanduser().absolute()
    except RuntimeError:
        raise ConfigError(f"agent.at: {at}: there is no such user") from None
    if not folder.exists():
        raise ConfigError(f"agent.at: {folder} does not exist")
    if folder.is_file():
        return folder
    if below := _executable_in(folder, name):
        return below
    raise ConfigError(
        f"agent.at: {folder} has no executable {name} (looked for bin/{name}, node_modules/.bin/{name} and {name})"
    )


def installed_by_make(program: Program) -> Path | None:
    """The folder in which `make programs` has installed a program, beside the lab; None if it has not."""
    folders = sorted(Path(sys.prefix, "programs").glob("*/"))
    return next((folder for folder in folders if _executable_in(folder, program.executable)), None)


def _executable_in(folder: Path, name: str) -> Path | None:
    places = (folder / below / name for below in ("bin", "node_modules/.bin", ".bin", ".venv/bin", "venv/bin", "."))
    return next((place for place in places if place.is_file() and os.access(place, os.X_OK)), None)


def version_of(program: Program, executable: Path, folders: tuple[Path, ...]) -> str:
    """The version in the package's metadata; "" if none is found."""
    wanted = program.package.replace("-", "_").lower()
    for folder in (*folders, *executable.resolve().parents[:4]):
        for found in folder.glob("lib/python*/site-packages/*.dist-info/METADATA"):
            name, _, version = found.parent.name.removesuffix(".dist-info").rpartition("-")
            if name.lower() == wanted:
                return version
        for package in (folder / "node_modules" / program.package, folder / program.package, folder):
            try:
                about = json.loads((package / "package.json").read_text())
            except (OSError, ValueError):
                continue
            if isinstance(about, dict) and about.get("name") == program.package:
                return str(about.get("version", ""))
    return ""


def _own_folders(executable: Path, folders: tuple[Path, ...]) -> tuple[Path, ...]:
    """What of an installation is the program: its folder, and the one that its command leads to by links. The others
    are its interpreter's."""
    real = executable.resolve()
    led_to = [folder for folder in folders if real.is_relative_to(folder)]
    return tuple(dict.fromkeys((*folders[:1], *led_to))) or (real,)


def digest_of(roots: tuple[Path, ...]) -> str:
    """The sha256 of all files below `roots`, with their paths relative to their root. Caches of bytecode are left
    out."""
    digest = hashlib.sha256()
    for root in roots:
        for path in _files(root):
            digest.update(f"{path.relative_to(root)}\0".encode(errors="surrogateescape"))
            if path.is_symlink():
                digest.update(os.fsencode(path.readlink()))
                continue
            with path.open("rb", buffering=0) as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _files(root: Path) -> Iterator[Path]:
    if not root.is_dir():
        yield root
        return
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if name not in _SKIPPED)
        for name in sorted(files):
            path = Path(folder, name)
            if path.is_file() or path.is_symlink():
                yield path
