"""What an episode begins with besides its weights: all that was learnt before it, frozen."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hermes_lab.memory.notes import Notes
from hermes_lab.skills.library import Library


@dataclass(frozen=True)
class Knowledge:
    """The skills and notes that an episode begins with; an immutable value, shared by all rollouts of a round.

    `idle` counts the tool-calling iterations since the last review. `learnt_from` gives for each skill the hidden rules
    of the tasks that it was written in, for telemetry alone.
    """

    library: Library = field(default_factory=Library)
    notes: Notes = field(default_factory=Notes)
    idle: int = 0
    learnt_from: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def notes_snapshot(self) -> str:
        """The digest of the notes; empty where there are none."""
        return "" if self.notes == Notes() else self.notes.snapshot
