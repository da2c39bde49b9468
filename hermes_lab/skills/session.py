"""One episode's view of a library: it reads the frozen snapshot and keeps its own writes apart."""

import difflib

from hermes_lab.errors import ToolError
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library
from hermes_lab.types import Skill, SkillWrite
from hermes_lab.types.skill import Origin


class SkillSession:
    """What `skill_view` and `skill_manage` act on.

    Writes are seen by later calls of the same session, but reach the library only when the round is merged.
    """

    def __init__(self, library: Library, *, origin: Origin, episode: str, model: str) -> None:
        self._base = library.snapshot
        self._library = library
        self._origin = origin
        self._episode = episode
        self._model = model
        self.loaded: list[str] = []
        self.writes: list[SkillWrite] = []

    def fork(self, origin: Origin) -> "SkillSession":
        """A session over the same state whose writes and loads are counted by themselves."""
        return SkillSession(self._library, origin=origin, episode=self._episode, model=self._model)

    def view(self, name: str) -> Skill:
        """The skill of that name, or of the one name that is nearly it. Raises `ToolError` listing what there is."""
        known = self._library.skills
        match = name if name in known else next(iter(difflib.get_close_matches(name, known, n=1, cutoff=0.87)), None)
        if match is None:
            raise ToolError(f"no skill {name!r}; there are: {', '.join(known) or 'none yet'}")
        self.loaded.append(match)
        return known[match]

    def create(self, name: str, description: str, content: str) -> SkillWrite:
        """Adds a skill. `content` is its body, or a whole SKILL.md whose frontmatter then says name and description."""
        text = content if content.startswith("---\n") else skill_format.render(name, description, content)
        skill = skill_format.parse(text)
        if skill.name != name:
            raise ToolError(f"name: {name!r}, but the frontmatter says {skill.name!r}")
        if name in self._library.skills:
            raise ToolError(f"a skill {name!r} exists; use action=patch to change it")
        return self._write("create", skill)

    def patch(self, name: str, old_string: str, new_string: str) -> SkillWrite:
        """Replaces one passage of a skill's SKILL.md."""
        if name not in self._library.skills:
            raise ToolError(f"no skill {name!r} to patch")
        text = self._library.skills[name].text
        found = text.count(old_string) if old_string else 0
        if found != 1:
            raise ToolError(f"old_string: found {found} times in {name!r}, must be there exactly once")
        skill = skill_format.parse(text.replace(old_string, new_string))
        if skill.name != name:
            raise ToolError("a patch cannot rename a skill")
        return self._write("patch", skill)

    def _write(self, action: str, skill: Skill) -> SkillWrite:
        write = SkillWrite(
            action="create" if action == "create" else "patch",
            name=skill.name,
            text=skill.text,
            origin=self._origin,
            episode=self._episode,
            model=self._model,
            snapshot=self._base,
        )
        self._library = self._library.with_skill(skill)
        self.writes.append(write)
        return write
