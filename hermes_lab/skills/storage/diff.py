"""Diffs two libraries by skill and file."""

import difflib
from typing import Literal

from msgspec import Struct

from hermes_lab.skills.library import Library
from hermes_lab.types import Skill

Kind = Literal["added", "removed", "changed"]


class FileDiff(Struct, frozen=True):
    """A file that differs. `text` is a unified diff, or one line for binary files."""

    path: str
    kind: Kind
    text: str


class SkillDiff(Struct, frozen=True):
    """A skill that differs."""

    name: str
    kind: Kind
    files: tuple[FileDiff, ...]


def diff(before: Library, after: Library) -> list[SkillDiff]:
    """Returns the skills that differ, by name."""
    found = []
    for name in sorted({*before.skills, *after.skills}):
        old, new = before.skills.get(name), after.skills.get(name)
        if old != new:
            a, b = _files(old), _files(new)
            paths = [path for path in sorted({*a, *b}, key=_main_first) if a.get(path) != b.get(path)]
            files = tuple(_file(name, path, a.get(path), b.get(path)) for path in paths)
            found.append(SkillDiff(name, _kind(old, new), files))
    return found


def _files(skill: Skill | None) -> dict[str, bytes]:
    return {} if skill is None else {"SKILL.md": skill.text.encode(), **skill.files}


def _main_first(path: str) -> tuple[bool, str]:
    return path != "SKILL.md", path


def _kind(old: object, new: object) -> Kind:
    return "added" if old is None else "removed" if new is None else "changed"


def _file(name: str, path: str, old: bytes | None, new: bytes | None) -> FileDiff:
    try:
        lines = [(data or b"").decode().splitlines(keepends=True) for data in (old, new)]
    except UnicodeDecodeError:
        sizes = " -> ".join("-" if data is None else f"{len(data)} bytes" for data in (old, new))
        return FileDiff(path, _kind(old, new), f"binary file: {name}/{path}: {sizes}\n")
    a, b = ("/dev/null" if data is None else f"{side}/{name}/{path}" for side, data in (("a", old), ("b", new)))
    hunks = difflib.unified_diff(lines[0], lines[1], a, b)
    text = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in hunks)
    return FileDiff(path, _kind(old, new), text)
