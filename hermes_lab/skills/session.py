"""An agent's view of a library: a frozen snapshot plus the agent's own writes."""

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
"""Applies edits atomically to the library on disk, which others may have changed, and returns its new state."""
Gate = Callable[[Library, SkillEdit], SkillEdit]
"""Accepts an edit, replaces it by another one, or rejects it with a `ToolError`."""


class SkillSession:
    """The state behind the skill tools.

    Later calls of the same session see its writes. In an experiment, writes reach the lane's library when the round is
    merged. With `commit` they reach the library on disk immediately, and prompts from the next session on.

    `loaded` has one entry for each time a skill's own text reached the model or its compiled tool was called.
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
        self._unconfirmed: list[str] = []

    def fork(self, origin: Origin, gate: Gate | None = None) -> "SkillSession":
        """Returns a session over the same library that counts its own writes and loads."""
        return SkillSession(
            self.library, origin=origin, episode=self._episode, model=self._model, commit=self._commit, gate=gate
        )

    def view(self, name: str) -> Skill:
        """Like `find`, but counts as a load; for text that is shown to the model."""
        skill = self.find(name)
        self.loaded.append(skill.name)
        return skill

    def find(self, name: str) -> Skill:
        """Finds a skill by exact name or a single close match. Raises `ToolError` listing the known names."""
        known = self.library.skills
        match = name if name in known else _close_match(name, known)
        if not match:
            raise ToolError(f"no skill {name!r}; available: {named(name, known)}")
        return known[match]

    def note_load(self, name: str) -> None:
        """Records that a tool result has the skill's own text; `confirm_loads` checks whether it reached the model."""
        self.loaded.append(name)
        self._unconfirmed.append(name)

    def confirm_loads(self, results: Iterable[ToolResult]) -> None:
        """Replaces the loads noted since the last call by those in `results`, the tool results that the model got.

        The two differ if a result was discarded, or replaced by a recorded one in a replay.
        """
        for name in self._unconfirmed:
            del self.loaded[len(self.loaded) - 1 - self.loaded[::-1].index(name)]
        self._unconfirmed.clear()
        self.loaded += filter(None, map(shown_skill, results))

    def take_back(self, results: Iterable[ToolResult]) -> None:
        """Removes loads counted by `confirm_loads` for results that did not reach the model after all."""
        for name in filter(self.loaded.__contains__, map(shown_skill, results)):
            del self.loaded[len(self.loaded) - 1 - self.loaded[::-1].index(name)]

    def manage(self, edit: SkillEdit) -> SkillWrite:
        """Applies an edit and records it. Raises `ToolError` if it is rejected."""
        return self.manage_all([edit])[0]

    def manage_all(self, edits: Sequence[SkillEdit]) -> list[SkillWrite]:
        """Applies edits to one skill atomically and records each. Raises `ToolError` if one is rejected."""
        if self._gate is not None:
            edits = [self._gate(self.library, edit) for edit in edits]
        if self._commit is not None:
            self.library, writes = self._commit(edits, self._origin)
        else:
            by = {"episode": self._episode, "model": self._model}
            self.library, writes = apply_all(self.library, edits, origin=self._origin, **by)
        self.writes += writes
        return writes


def _close_match(name: str, known: Collection[str]) -> str:
    """Returns the only close match of `name`, or "" if there are none or several."""
    name = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")
    near = [name] if name in known else difflib.get_close_matches(name, known, n=2, cutoff=0.87)
    return near[0] if len(near) == 1 else ""
