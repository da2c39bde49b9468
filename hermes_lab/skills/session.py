"""An agent's view of a library: it begins with a frozen snapshot and sees its own writes."""

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Sequence

from hermes_lab.errors import ToolError
from hermes_lab.skills.learning.loads import shown_skill
from hermes_lab.skills.library import Library
from hermes_lab.skills.manage import apply_all, named
from hermes_lab.types import Skill, SkillEdit, SkillWrite, ToolResult
from hermes_lab.types.skill import Origin

Commit = Callable[[Sequence[SkillEdit], Origin], tuple[Library, list[SkillWrite]]]
"""Does edits, all or none, to a library on disk, in which others may have written meanwhile; gives that anew."""
Gate = Callable[[Library, SkillEdit], SkillEdit]
"""Lets an edit pass, or makes another of it; raises `ToolError` where it may not be."""


class SkillSession:
    """What the skill tools act on.

    Writes are seen by later calls of the same session. In a batch they reach the lane's library only when the round is
    merged; with `commit` they reach the library on disk at once, and prompts from the next session on.

    `loaded` names the skills whose own text reached the model, and those that were called as compiled tools, each time.
    """

    def __init__(
        self,
        library: Library,
        *,
        origin: Origin,
        episode: str,
        model: str,
        commit: Commit | None = None,
        gate: Gate | None = None,
    ) -> None:
        self.library = library
        self.loaded: list[str] = []
        self.writes: list[SkillWrite] = []
        self._origin = origin
        self._episode = episode
        self._model = model
        self._commit = commit
        self._gate = gate
        self._unsettled: list[str] = []

    def fork(self, origin: Origin, gate: Gate | None = None) -> "SkillSession":
        """A session over the same state whose writes and loads are counted by themselves."""
        return SkillSession(
            self.library, origin=origin, episode=self._episode, model=self._model, commit=self._commit, gate=gate
        )

    def view(self, name: str) -> Skill:
        """`find`, for a text that is shown to the model: it counts as a load."""
        skill = self.find(name)
        self.loaded.append(skill.name)
        return skill

    def find(self, name: str) -> Skill:
        """The skill of that name, or of the one name that is nearly it. Raises `ToolError` listing what there is."""
        known = self.library.skills
        match = name if name in known else _nearly(name, known)
        if not match:
            raise ToolError(f"no skill {name!r}; there are: {named(name, known)}")
        return known[match]

    def note_load(self, name: str) -> None:
        """A tool answers with the skill's own text; `settle` tells whether that reached the model."""
        self.loaded.append(name)
        self._unsettled.append(name)

    def confirm_loads(self, results: Iterable[ToolResult]) -> None:
        """Counts the loads since the last call by the `results` that the model was given for them: an answer may have
        been thrown away, or be a recorded one."""
        for name in self._unsettled:
            del self.loaded[len(self.loaded) - 1 - self.loaded[::-1].index(name)]
        self._unsettled.clear()
        self.loaded += filter(None, map(shown_skill, results))

    def take_back(self, results: Iterable[ToolResult]) -> None:
        """Loads that `settle` counted by results which then never reached the model."""
        for name in filter(self.loaded.__contains__, map(shown_skill, results)):
            del self.loaded[len(self.loaded) - 1 - self.loaded[::-1].index(name)]

    def manage(self, edit: SkillEdit) -> SkillWrite:
        """Does an edit, and keeps its record. Raises `ToolError` where it may not be."""
        return self.manage_all([edit])[0]

    def manage_all(self, edits: Sequence[SkillEdit]) -> list[SkillWrite]:
        """Does edits to one skill, all of them or none, and keeps a record of each. Raises `ToolError` as `manage`."""
        if self._gate is not None:
            edits = [self._gate(self.library, edit) for edit in edits]
        if self._commit is not None:
            self.library, writes = self._commit(edits, self._origin)
        else:
            by = {"episode": self._episode, "model": self._model}
            self.library, writes = apply_all(self.library, edits, origin=self._origin, **by)
        self.writes += writes
        return writes


def _nearly(name: str, known: Collection[str]) -> str:
    """The one name that is nearly `name`; "" where there is none, or several."""
    name = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")
    near = [name] if name in known else difflib.get_close_matches(name, known, n=2, cutoff=0.87)
    return near[0] if len(near) == 1 else ""
