"""A library of skills as an immutable value; its snapshot id is a digest of its content."""

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from hermes_lab.durable import sync_folder
from hermes_lab.errors import ConfigError
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.storage.folder import Transfer, files_of, read_skill, skill_folders
from hermes_lab.types import Skill, SkillWrite


class _Facts(NamedTuple):
    """What is worked out of a skill once, and handed on from library to library."""

    digest: str
    listed: bool


class Library:
    """Skills by name. A change makes a new library; equal content has an equal `snapshot`."""

    def __init__(self, skills: Iterable[Skill] = ()) -> None:
        self.skills: Mapping[str, Skill] = MappingProxyType({s.name: s for s in sorted(skills, key=lambda s: s.name)})
        self._facts: dict[str, _Facts] = {}

    def __getstate__(self) -> tuple[list[Skill], dict[str, _Facts]]:
        """For pickle, which takes no read-only mapping."""
        return list(self.skills.values()), self._facts

    def __setstate__(self, state: tuple[list[Skill], dict[str, _Facts]]) -> None:
        skills, self._facts = state
        self.skills = MappingProxyType({skill.name: skill for skill in skills})

    @cached_property
    def digests(self) -> Mapping[str, str]:
        """The digest of each skill with its files: 64 hexadecimal digits."""
        return MappingProxyType({name: self._of(skill).digest for name, skill in self.skills.items()})

    @cached_property
    def snapshot(self) -> str:
        """The digest of all skills with their files: 16 hexadecimal digits."""
        return snapshot_of(self.digests)

    @cached_property
    def listed(self) -> Mapping[str, Skill]:
        """The skills that prompts name."""
        return MappingProxyType({name: skill for name, skill in self.skills.items() if self._of(skill).listed})

    def with_skill(self, skill: Skill) -> "Library":
        """This library with one skill added or replaced."""
        return self.with_changes({skill.name: skill})

    def without(self, name: str) -> "Library":
        """This library less one skill."""
        return self.with_changes({name: None})

    def with_changes(self, changes: Mapping[str, Skill | None]) -> "Library":
        """This library with skills added or replaced, or, where None is given, left out."""
        changed = Library(skill for skill in {**self.skills, **changes}.values() if skill is not None)
        changed._facts = {name: facts for name, facts in self._facts.items() if name not in changes}
        return changed

    def after(self, write: SkillWrite) -> "Library":
        """This library once `write` is done to it, as far as it can be: a file of a skill that is gone is left out."""
        if write.action == "delete":
            return self.without(write.name)
        before = self.skills.get(write.name)
        if not write.path:
            return self.with_skill(skill_format.parse(write.text, before.files if before else None))
        if before is None:
            return self
        files = {path: data for path, data in before.files.items() if path != write.path}
        if write.action != "remove_file":
            files[write.path] = write.text.encode()
        return self.with_skill(msgspec.structs.replace(before, files=files))

    def index(self) -> str:
        """One line a listed skill, for a prompt."""
        return index(self.listed.values())

    @classmethod
    def load(cls, folder: Path) -> "Library":
        """Reads `<folder>/<name>/SKILL.md` and the files beside it, following no link. Raises `ConfigError` naming the
        file that is no skill's."""
        library, broken = read_library(folder)
        if broken:
            raise ConfigError("; ".join(broken.values()))
        return library

    def save(self, folder: Path) -> None:
        """Writes the library as `<folder>/<name>/SKILL.md`, whole or not at all; one that exists stays as it is."""
        if folder.exists():
            return
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".saving-"))
        try:
            temporary.chmod(0o755)
            for skill in self.skills.values():
                save_skill(skill, temporary / skill.name)
            sync_folder(temporary)
            temporary.rename(folder)
            sync_folder(folder.parent)
        except BaseException as error:
            shutil.rmtree(temporary, ignore_errors=True)
            if not (isinstance(error, OSError) and folder.exists()):
                raise

    def pack(self) -> bytes:
        """The library in one piece, with what was worked out of it, for this platform."""
        facts = [self._of(skill) for skill in self.skills.values()]
        return msgspec.msgpack.encode((sys.platform, list(self.skills.values()), facts))

    @classmethod
    def unpack(cls, data: bytes) -> "Library":
        """What `pack` packed. Raises `ValueError` for anything else, and on another platform."""
        platform, skills, facts = _unpack(data)
        if platform != sys.platform or len(skills) != len(facts):
            raise ValueError("packed elsewhere")
        library = cls(skills)
        library._facts = dict(zip(library.skills, facts, strict=True))
        return library

    def _of(self, skill: Skill) -> _Facts:
        if (facts := self._facts.get(skill.name)) is None:
            facts = self._facts[skill.name] = _Facts(_digest(skill), skill_format.listed(skill))
        return facts


_unpack = msgspec.msgpack.Decoder(tuple[str, list[Skill], list[_Facts]]).decode


def snapshot_of(digests: Mapping[str, str]) -> str:
    """The snapshot id of a library with skills of these digests, by name."""
    return hashlib.sha256("".join(f"{digests[name]}\n" for name in sorted(digests)).encode()).hexdigest()[:16]


def index(skills: Iterable[Skill]) -> str:
    """One line a skill, for a prompt."""
    # Names stand in quotes, as in the arguments of a call: after a space, the same name is other tokens to a model.
    return "\n".join(f'- "{skill.name}": {skill.description}' for skill in skills)


def read_library(folder: Path) -> tuple[Library, dict[str, str]]:
    """The skills of a folder that can be read, and what is wrong with each other one, by the name of its folder. Raises
    `ConfigError` where there is no folder."""
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no folder of skills")
    skills, broken = [], {}
    for path in skill_folders(folder):
        try:
            skills.append(load_skill(path))
        except ConfigError as error:
            broken[path.name] = str(error)
    return Library(skills), broken


def load_snapshot(folder: Path) -> Library:
    """The library that a run keeps under its snapshot id. Raises `ConfigError` where it is another one now."""
    folder = folder.resolve()  # a lane's is a link
    library = Library.load(folder)
    if library.snapshot != folder.name:
        raise ConfigError(f"{folder}: was changed since the run wrote it")
    return library


def load_skill(folder: Path) -> Skill:
    """Reads a skill's folder. Raises `ConfigError` naming the file with the mistake; a link is one."""
    return read_skill(folder).skill


def save_skill(skill: Skill, folder: Path) -> None:
    """Writes a skill into a folder that is not there yet."""
    files = files_of(skill)
    folder.mkdir()
    Transfer(folder.parent, folder, {folder.name: ({}, files)}).carry_out()


def merge(library: Library, writes: Iterable[SkillWrite]) -> Library:
    """The library after these writes, in the order given."""
    for write in writes:
        library = library.after(write)
    return library


def _digest(skill: Skill) -> str:
    content = hashlib.sha256(f"{skill.name}\0{hashlib.sha256(skill.text.encode()).hexdigest()}\n".encode())
    for path, data in sorted(skill.files.items()):
        content.update(f"{path}\0{hashlib.sha256(data).hexdigest()}\n".encode())
    return content.hexdigest()
