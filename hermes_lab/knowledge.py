"""What an episode starts with besides the model's weights: the skills and notes learned so far, frozen."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hermes_lab.memory.notes import Notes
from hermes_lab.skills.library import Library
from hermes_lab.types import SkillWrite


@dataclass(frozen=True)
class Knowledge:
    """The skills and notes an episode starts with: an immutable value, shared by all rollouts of a round.

    `idle` counts the tool-calling iterations since the last review. `state` names the archive with a program's own
    memory (`hermes_lab.harness.state`); it is empty if there is none. `learnt_from` maps each skill to the hidden rules
    of the tasks in which it was written. `label` says what an environment gave the task (`hermes_lab.envs.knowledge`).
    Both are used for telemetry only.
    """

    library: Library = field(default_factory=Library)
    notes: Notes = field(default_factory=Notes)
    idle: int = 0
    state: str = ""
    learnt_from: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    label: str = ""

    @property
    def notes_snapshot(self) -> str:
        """The digest of the notes, or "" without notes."""
        return "" if self.notes == Notes() else self.notes.snapshot

    def learnt(self, writes: Iterable[SkillWrite]) -> dict[str, tuple[str, ...]]:
        """`learnt_from` after these writes."""
        known = dict(self.learnt_from)
        for write in writes:
            known[write.name] = tuple(dict.fromkeys((*known.get(write.name, ()), *write.triggers)))
        return known
