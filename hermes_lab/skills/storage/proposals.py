"""Proposals: skills that the agent wrote and that no prompt lists before they are promoted.

They lie in `<library>/.hermes/proposed/`, a store of its own. A proposal has a new skill, or the new text of a skill of
the library.
"""

from collections.abc import Mapping, Sequence

from hermes_lab.errors import ToolError
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library
from hermes_lab.skills.storage.store import SkillStore
from hermes_lab.types import Skill, SkillEdit, SkillWrite
from hermes_lab.types.skill import Origin


class Proposals:
    """The proposals for the library in a store. Methods raise as those of `SkillStore` do."""

    def __init__(self, live: SkillStore) -> None:
        self.live = live
        self.store = SkillStore(live.root / ".hermes" / "proposed")

    def pending(self) -> Mapping[str, Skill]:
        """The proposed skills by name, in their new text."""
        if not self.store.root.is_dir():
            return {}
        live = self.live.load().skills
        proposed = self.store.load().skills
        return {name: skill for name, skill in proposed.items() if name not in live or not same_text(skill, live[name])}

    def library(self) -> Library:
        """The library as it would be with all proposals."""
        return self.live.load().with_changes(self.pending())

    def commit(
        self, edits: Sequence[SkillEdit], origin: Origin, *, episode: str, model: str
    ) -> tuple[Skill | None, list[SkillWrite]]:
        """Applies edits to one skill as a proposal. Returns it, None if it was deleted, and the writes.

        Raises `ToolError` as `SkillStore.commit` does, and for the deletion of a skill of the library.
        """
        name = edits[0].name
        live = self.live.load().skills.get(name)
        if live is not None and name not in self.pending():
            if any(edit.action == "delete" for edit in edits):
                raise ToolError(f"{name!r} cannot be deleted by a proposal: ask a person to archive it")
            self._put({name: live})
        after, writes = self.store.commit(edits, origin, episode=episode, model=model)
        return after.skills.get(name), writes

    def promote(self, skills: Mapping[str, Skill], reason: str) -> list[str]:
        """Moves proposals with these texts to the library; returns their names. One with another text by now stays a
        proposal."""
        chosen = {name: skill for name, skill in self.pending().items() if _is_still(skill, skills.get(name))}
        if not chosen:
            return []
        self.live.change(lambda now: now.with_changes(chosen), origin="user", reason=reason)
        self.store.change(
            lambda now: now.with_changes(
                {name: None for name, skill in chosen.items() if _is_still(skill, now.skills.get(name))}
            ),
            origin="user",
            reason="the library",
        )
        return list(chosen)

    def _put(self, skills: Mapping[str, Skill | None]) -> None:
        self.store.change(lambda now: now.with_changes(skills), origin="user", reason="the library")


def _is_still(one: Skill, other: Skill | None) -> bool:
    return other is not None and same_text(one, other)


def same_text(one: Skill, other: Skill) -> bool:
    """Whether an agent sees the same in two skills."""
    return skill_format.shown(one) == skill_format.shown(other) and one.files == other.files
