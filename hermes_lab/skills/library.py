"""An immutable library of skills; its snapshot id is a digest of its content."""

import difflib
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
from hermes_lab.skills.conditions import Place, listed
from hermes_lab.skills.storage.folder import Transfer, files_of, read_skill, skill_folders
from hermes_lab.types import Skill, SkillWrite


class _Facts(NamedTuple):
    """Values computed once per skill and passed on to derived libraries."""

    digest: str
    listed: bool


class Library:
    """Skills by name. Changes return a new library; equal content has an equal `snapshot`."""

    def __init__(self, skills: Iterable[Skill] = ()) -> None:
        self.skills: Mapping[str, Skill] = MappingProxyType({s.name: s for s in sorted(skills, key=lambda s: s.name)})
        self.place: Place | None = None
        self._facts: dict[str, _Facts] = {}

    def __getstate__(self) -> tuple[list[Skill], dict[str, _Facts]]:
        """`MappingProxyType` cannot be pickled."""
        return list(self.skills.values()), self._facts

    def __setstate__(self, state: tuple[list[Skill], dict[str, _Facts]]) -> None:
        skills, self._facts = state
        self.place = None  # only batches send libraries to other processes
        self.skills = MappingProxyType({skill.name: skill for skill in skills})

    @cached_property
    def digests(self) -> Mapping[str, str]:
        """SHA-256 of each skill including its files, in hex."""
        return MappingProxyType({name: self._facts_of(skill).digest for name, skill in self.skills.items()})

    @cached_property
    def snapshot(self) -> str:
        """Digest of all skills including their files: 16 hex digits."""
        return snapshot_of(self.digests)

    @cached_property
    def listed(self) -> Mapping[str, Skill]:
        """The skills that prompts list: for a batch those without conditions on a chat, else those for its `place`."""
        place = self.place

        def shown(skill: Skill) -> bool:
            return self._facts_of(skill).listed or (place is not None and listed(skill, place))

        return MappingProxyType({name: skill for name, skill in self.skills.items() if shown(skill)})

    def at(self, place: Place) -> "Library":
        """Returns this library as a chat at this place lists it; its content and snapshot are the same."""
        there = self.with_changes({})
        there.place = place
        return there

    def with_skill(self, skill: Skill) -> "Library":
        """Returns this library with one skill added or replaced."""
        return self.with_changes({skill.name: skill})

    def without(self, name: str) -> "Library":
        """Returns this library without one skill."""
        return self.with_changes({name: None})

    def with_changes(self, changes: Mapping[str, Skill | None]) -> "Library":
        """Returns this library with skills added or replaced; None removes a skill."""
        changed = Library(skill for skill in {**self.skills, **changes}.values() if skill is not None)
        changed.place = self.place
        changed._facts = {name: facts for name, facts in self._facts.items() if name not in changes}
        return changed

    def after(self, write: SkillWrite) -> "Library":
        """Returns this library after `write`; a write to a file of a skill that no longer exists has no effect."""
        if write.action == "delete":
            return self.without(write.name)
        before = self.skills.get(write.name)
        if not write.path:
            return self.with_skill(skill_format.read(write.text, before.files if before else None, name=write.name))
        if before is None:
            return self
        files = {path: data for path, data in before.files.items() if path != write.path}
        if write.action != "remove_file":
            files[write.path] = write.text.encode()
        return self.with_skill(msgspec.structs.replace(before, files=files))

    def index(self) -> str:
        """Returns one line per listed skill, for a prompt."""
        return index(self.listed.values())

    @classmethod
    def load(cls, folder: Path) -> "Library":
        """Reads `<folder>/<name>/SKILL.md` and the files beside it, without following links. Raises `ConfigError`
        naming every file that is not valid."""
        library, broken = read_library(folder)
        if broken:
            raise ConfigError("; ".join(broken.values()))
        return library

    def save(self, folder: Path) -> None:
        """Writes the library atomically as `<folder>/<name>/SKILL.md`. Does nothing if `folder` exists."""
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
        """Serializes the library with its computed values, which are valid for this platform only."""
        facts = [self._facts_of(skill) for skill in self.skills.values()]
        return msgspec.msgpack.encode((sys.platform, list(self.skills.values()), facts))

    @classmethod
    def unpack(cls, data: bytes) -> "Library":
        """Deserializes the output of `pack`. Raises `ValueError` for other data, or data from another platform."""
        platform, skills, facts = _unpack(data)
        if platform != sys.platform or len(skills) != len(facts):
            raise ValueError("packed on another platform, or damaged")
        library = cls(skills)
        library._facts = dict(zip(library.skills, facts, strict=True))
        return library

    def _facts_of(self, skill: Skill) -> _Facts:
        if (facts := self._facts.get(skill.name)) is None:
            facts = self._facts[skill.name] = _Facts(_digest(skill), listed(skill))
        return facts


_unpack = msgspec.msgpack.Decoder(tuple[str, list[Skill], list[_Facts]]).decode


def check_skill_name(library: Library, name: str, broken: Mapping[str, str] = MappingProxyType({})) -> str:
    """Returns `name` if the library has this skill. Raises `ConfigError` with suggestions if not, or with the problem
    of a broken skill."""
    if name in library.skills:
        return name
    if name in broken:
        raise ConfigError(broken[name])
    near = [known for known in library.skills if name in known] or difflib.get_close_matches(name, library.skills)
    hint = f"did you mean {', '.join(near)}?" if near else "`hermes-lab skills list` lists them"
    raise ConfigError(f"no skill {name!r}; {hint}")


def snapshot_of(digests: Mapping[str, str]) -> str:
    """Returns the snapshot id of a library, given the digests of its skills by name."""
    return hashlib.sha256("".join(f"{digests[name]}\n" for name in sorted(digests)).encode()).hexdigest()[:16]


def index(skills: Iterable[Skill]) -> str:
    """Returns one line per skill, for a prompt."""
    # Names are quoted, as in tool call arguments: after a space the same name would have different tokens.
    return "\n".join(f'- "{skill.name}": {skill.description}' for skill in skills)


def read_library(folder: Path) -> tuple[Library, dict[str, str]]:
    """Reads the skills of a folder. Returns the valid ones, and an error message for each broken one, by folder name.

    Raises `ConfigError` if the folder does not exist.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder")
    skills: dict[str, Skill] = {}
    broken: dict[str, str] = {}
    for path in skill_folders(folder):
        try:
            skill = load_skill(path)
        except ConfigError as error:
            broken[path.name] = str(error)
            continue
        if skills.setdefault(skill.name, skill) is not skill:
            broken[path.name] = f"{path}: there is another skill {skill.name!r}; rename one of the folders"
    return Library(skills.values()), broken


def load_snapshot(folder: Path) -> Library:
    """Loads a library that a run saved under its snapshot id. Raises `ConfigError` if it was changed since."""
    folder = folder.resolve()  # a lane links to its snapshot
    library = Library.load(folder)
    if library.snapshot != folder.name:
        raise ConfigError(f"{folder}: was changed since the run wrote it")
    return library


def load_skill(folder: Path) -> Skill:
    """Reads a skill's folder. Raises `ConfigError` naming the invalid file; symbolic links are invalid."""
    return read_skill(folder).skill


def save_skill(skill: Skill, folder: Path) -> None:
    """Writes a skill to a new folder."""
    files = files_of(skill)
    folder.mkdir()
    Transfer(folder.parent, folder, {folder.name: ({}, files)}).carry_out()


def merge(library: Library, writes: Iterable[SkillWrite]) -> Library:
    """Returns the library after these writes, in order."""
    for write in writes:
        library = library.after(write)
    return library


def _digest(skill: Skill) -> str:
    content = hashlib.sha256(f"{skill.name}\0{hashlib.sha256(skill.text.encode()).hexdigest()}\n".encode())
    for path, data in sorted(skill.files.items()):
        content.update(f"{path}\0{hashlib.sha256(data).hexdigest()}\n".encode())
    return content.hexdigest()
