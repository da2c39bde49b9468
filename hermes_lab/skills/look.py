"""Looks at the skills of a source before they are installed."""

from collections.abc import Callable

from msgspec import Struct

from hermes_lab.errors import ConfigError
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.compiled.validate import check_skill
from hermes_lab.skills.storage import hub
from hermes_lab.text.counted import counted
from hermes_lab.types import Skill


class Look(Struct, frozen=True):
    """A skill as an agent would see it, its `files` with their sizes in bytes, and what the scan finds in it: the
    problem with file and line, and the text of the line."""

    name: str
    description: str
    text: str
    files: dict[str, int]
    errors: list[str]
    warnings: list[str]

    @property
    def found(self) -> str:
        """How much the scan finds, such as `1 flagged, 2 warnings`; "" if nothing."""
        flagged = f"{len(self.errors)} flagged" if self.errors else ""
        warned = counted(len(self.warnings), "warning") if self.warnings else ""
        return ", ".join(filter(None, (flagged, warned)))


class Looked(Struct, frozen=True):
    """What was looked at in a source. `whole`: a single skill, to be read. `broken` has an error message for each
    unreadable skill, by the name of its folder."""

    source: str
    commit: str
    skills: list[Look]
    broken: dict[str, str]
    whole: bool


def look(source: str, name: str = "", *, ref: str = "", say: Callable[[str], None]) -> Looked:
    """Fetches a source and looks at its skills, or at the named one. Runs no code of the source.

    Raises `ConfigError` as `hub.fetch`, and for a skill that the source does not have or that cannot be read.
    """
    fetched = hub.fetch(source, say=say, ref=ref)
    whole = bool(name) or (len(fetched.skills) == 1 and not fetched.broken)
    skills = [_look(skill) for skill in fetched.skills if name in ("", skill.name)]
    if not skills and name:
        known = ", ".join(skill.name for skill in fetched.skills)
        raise ConfigError(fetched.broken.get(name, f"{fetched.source}: has no {name}; it has: {known}"))
    return Looked(fetched.source, fetched.commit, skills, {} if whole else fetched.broken, whole)


def _look(skill: Skill) -> Look:
    problems = check_skill(skill)
    return Look(
        skill.name,
        skill.description,
        skill_format.shown(skill),
        {path: len(data) for path, data in skill.files.items()},
        [hub.described(skill, each) for each in problems if each.severity == "error"],
        [hub.described(skill, each) for each in problems if each.severity != "error"],
    )
