"""Links at the top of a library to the scripts of its compiled skills, for people who look for `NAME.py` there."""

from contextlib import suppress
from pathlib import Path

from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library

LINKS = "links"
"""The file that asks for them."""


def link_scripts(root: Path, library: Library) -> None:
    """Makes missing links, and removes those to nothing. A file of another kind with that name stays; so does all else
    if the disk refuses, since links are only a convenience."""
    with suppress(OSError):
        for path in root.glob("*.py"):
            if path.is_symlink() and not path.exists():
                path.unlink()
        for skill in library.skills.values():
            if name := skill_format.compiled(skill):
                link = root / f"{name}.py"
                if not link.is_symlink() and not link.exists():
                    link.symlink_to(Path(skill.name, "scripts", link.name))
