"""The skills of a run: when they were written and loaded, and their text."""

from collections import Counter
from dataclasses import dataclass, field

from hermes_lab.lane import lane_key
from hermes_lab.types import Episode

TEXT = 4000
"""Characters of a skill's text shown on the page."""


@dataclass
class SkillLine:
    """One skill in one arm. `written` and `loaded` count episodes by round; `lanes` are those that wrote it."""

    arm: str
    name: str
    written: Counter[int] = field(default_factory=Counter)
    loaded: Counter[int] = field(default_factory=Counter)
    lanes: set[str] = field(default_factory=set)
    text: str = ""
    """The last version, truncated to `TEXT` characters."""
    triggers: set[str] = field(default_factory=set)
    """The hidden rules of the tasks it was learned from."""


class SkillBook:
    """Accumulates one line per skill from a stream of episodes."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str], SkillLine] = {}
        self.rounds = 0

    def add(self, episode: Episode) -> None:
        """Adds the skills that the episode wrote and loaded, held-out tasks included."""
        place = lane_key(episode.lane)
        arm = place.arm if place else episode.lane
        self.rounds = max(self.rounds, episode.round + 1)
        for name in episode.skills.loaded:
            self._line(arm, name).loaded[episode.round] += 1
        for write in (*episode.skills.writes, *(episode.review.writes if episode.review else ())):
            line = self._line(arm, write.name)
            line.written[episode.round] += 1
            line.lanes.add(episode.lane)
            line.triggers.update(write.triggers)
            if not write.path and write.text:
                line.text = write.text[:TEXT]

    def lines(self) -> list[SkillLine]:
        """All lines, most loaded first."""
        return sorted(self._lines.values(), key=lambda line: (-line.loaded.total(), line.arm, line.name))

    def _line(self, arm: str, name: str) -> SkillLine:
        return self._lines.setdefault((arm, name), SkillLine(arm, name))
