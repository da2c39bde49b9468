"""A library of skills as an immutable value; its snapshot id is a digest of its content."""

import hashlib
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from hermes_lab.errors import ConfigError, ToolError
from hermes_lab.skills import format as skill_format
from hermes_lab.types import Skill, SkillWrite


class Library:
    """Skills by name. A change makes a new library; equal content has an equal `snapshot`."""

    def __init__(self, skills: Iterable[Skill] = ()) -> None:
        self.skills: Mapping[str, Skill] = MappingProxyType({s.name: s for s in sorted(skills, key=lambda s: s.name)})
        content = hashlib.sha256()
        for skill in self.skills.values():
            content.update(f"{skill.name}\0{hashlib.sha256(skill.text.encode()).hexdigest()}\n".encode())
        self.snapshot = content.hexdigest()[:16]

    def with_skill(self, skill: Skill) -> "Library":
        """This library with one skill added or replaced."""
        return Library({**self.skills, skill.name: skill}.values())

    def index(self) -> str:
        """One line a skill, for a prompt."""
        return "\n".join(f"- {skill.name}: {skill.description}" for skill in self.skills.values())

    @classmethod
    def load(cls, folder: Path) -> "Library":
        """Reads `<folder>/<name>/SKILL.md`. Raises `ConfigError` naming the file that is no skill."""
        if not folder.is_dir():
            raise ConfigError(f"{folder}: no folder of skills")
        skills = []
        for path in sorted(folder.glob("*/SKILL.md")):
            try:
                skill = skill_format.parse(path.read_text())
            except (ToolError, UnicodeDecodeError) as error:
                raise ConfigError(f"{path}: {error}") from None
            if skill.name != path.parent.name:
                raise ConfigError(f"{path}: name: {skill.name!r} is not its folder's name")
            skills.append(skill)
        return cls(skills)

    def save(self, folder: Path) -> None:
        """Writes the library as `<folder>/<name>/SKILL.md`, whole or not at all; one that exists stays as it is."""
        if folder.exists():
            return
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".saving-"))
        try:
            temporary.chmod(0o755)
            for skill in self.skills.values():
                (temporary / skill.name).mkdir()
                (temporary / skill.name / "SKILL.md").write_text(skill.text)
            temporary.rename(folder)
        except OSError:
            shutil.rmtree(temporary, ignore_errors=True)
            if not folder.exists():
                raise


def merge(library: Library, episodes: Iterable[Iterable[SkillWrite]]) -> Library:
    """The library after a round: every episode's writes, in the order given.

    All of them were made against the same snapshot, unaware of each other, so the first episode that writes a name
    keeps it; a later episode's version of the same name is left out.
    """
    owners: dict[str, int] = {}
    for number, writes in enumerate(episodes):
        for write in writes:
            if owners.setdefault(write.name, number) == number:
                library = library.with_skill(skill_format.parse(write.text))
    return library
