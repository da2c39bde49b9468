"""A library of skills as an immutable value; its snapshot id is a digest of its content."""

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

import msgspec

from hermes_lab.errors import ConfigError, ToolError
from hermes_lab.skills import format as skill_format
from hermes_lab.types import Skill, SkillWrite

_SKILL = "SKILL.md"


class Library:
    """Skills by name. A change makes a new library; equal content has an equal `snapshot`."""

    def __init__(self, skills: Iterable[Skill] = ()) -> None:
        self.skills: Mapping[str, Skill] = MappingProxyType({s.name: s for s in sorted(skills, key=lambda s: s.name)})

    @cached_property
    def snapshot(self) -> str:
        """The digest of all skills with their files: 16 hexadecimal digits."""
        content = hashlib.sha256()
        for skill in self.skills.values():
            content.update(f"{skill.name}\0{hashlib.sha256(skill.text.encode()).hexdigest()}\n".encode())
            for path, data in sorted(skill.files.items()):
                content.update(f"{skill.name}/{path}\0{hashlib.sha256(data).hexdigest()}\n".encode())
        return content.hexdigest()[:16]

    @cached_property
    def listed(self) -> Mapping[str, Skill]:
        """The skills that prompts name."""
        return MappingProxyType({name: skill for name, skill in self.skills.items() if skill_format.listed(skill)})

    def with_skill(self, skill: Skill) -> "Library":
        """This library with one skill added or replaced."""
        return Library({**self.skills, skill.name: skill}.values())

    def without(self, name: str) -> "Library":
        """This library less one skill."""
        return Library(skill for skill in self.skills.values() if skill.name != name)

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
        if not folder.is_dir():
            raise ConfigError(f"{folder}: no folder of skills")
        return cls(load_skill(path.parent) for path in sorted(folder.glob(f"[!.]*/{_SKILL}")))

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
            temporary.rename(folder)
        except OSError:
            shutil.rmtree(temporary, ignore_errors=True)
            if not folder.exists():
                raise


def index(skills: Iterable[Skill]) -> str:
    """One line a skill, for a prompt."""
    return "\n".join(f"- {skill.name}: {skill.description}" for skill in skills)


def load_skill(folder: Path) -> Skill:
    """Reads a skill's folder. Raises `ConfigError` naming the file with the mistake; a link is one."""
    path = folder / _SKILL
    try:
        text = _read(path).decode()
        files = {str(found.relative_to(folder)): _read(found) for found in _other_files(folder)}
        for name in files:
            skill_format.check_path(name)
        skill = skill_format.parse(text, files)
    except (ToolError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    except OSError as error:
        raise ConfigError(f"{error.filename}: cannot be read: {error.strerror}") from None
    if skill.name != folder.name:
        raise ConfigError(f"{path}: name: {skill.name!r} is not its folder's name")
    return skill


def save_skill(skill: Skill, folder: Path) -> None:
    """Writes a skill into a folder that is not there yet."""
    folder.mkdir()
    (folder / _SKILL).write_bytes(skill.text.encode())
    for path, data in skill.files.items():
        skill_format.check_path(path)
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)


def _other_files(folder: Path) -> list[Path]:
    found = []
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(at, name)
            if not name.startswith(".") and path != folder / _SKILL and path.parent != folder:
                found.append(path)
    return found


def _read(path: Path) -> bytes:
    """A regular file's bytes, through no link at its end; folders that are links are never walked into."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > skill_format.MAX_FILE:
            raise ConfigError(f"{path}: no regular file of at most {skill_format.MAX_FILE >> 20} MiB")
        return file.read()


def merge(library: Library, episodes: Iterable[Iterable[SkillWrite]]) -> Library:
    """The library after a round: every episode's writes, in the order given.

    All of them were made against the same snapshot, unaware of each other, so the first episode that writes a name
    keeps it; a later episode's version of the same name is left out.
    """
    owners: dict[str, int] = {}
    for number, writes in enumerate(episodes):
        for write in writes:
            if owners.setdefault(write.name, number) == number:
                library = library.after(write)
    return library
