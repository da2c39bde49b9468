"""Episode records reduced to what progress, resume and learning need, so that long logs load in seconds."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes_lab.records import read_attempts
from hermes_lab.types import Episode, EpisodeError, MemoryWrite, SkillWrite, Usage
from hermes_lab.types.episode import EpisodeKey, Phase


class _Skills(Struct, frozen=True):
    loaded: tuple[str, ...] = ()
    writes: tuple[SkillWrite, ...] = ()


class _Memory(Struct, frozen=True):
    writes: tuple[MemoryWrite, ...] = ()


class _Spent(Struct, frozen=True):
    stop_reason: str = ""
    usage: Usage = Usage()


class _Review(Struct, frozen=True):
    trajectory: _Spent | None = None
    writes: tuple[SkillWrite, ...] = ()
    memory: tuple[MemoryWrite, ...] = ()
    error: EpisodeError | None = None


class _Program(Struct, frozen=True):
    state_after: str = ""


class EpisodeSummary(EpisodeKey, frozen=True, kw_only=True):
    """A subset of the fields of `Episode`, decoded from the same line without messages and tokens."""

    status: str
    phase: Phase = "learn"
    started_at: str = ""
    success: bool | None = None
    error: EpisodeError | None = None
    metrics: dict[str, float] = msgspec.field(default_factory=dict)
    trajectory: _Spent | None = None
    skills: _Skills = _Skills()
    memory: _Memory = _Memory()
    review: _Review | None = None
    program: _Program | None = None

    @property
    def writes(self) -> tuple[SkillWrite, ...]:
        """Skill writes for the lane's library: the episode's own, then those of its review."""
        return self.skills.writes + (self.review.writes if self.review else ())

    @property
    def notes(self) -> tuple[MemoryWrite, ...]:
        """Writes to the lane's notes, in the same order."""
        return self.memory.writes + (self.review.memory if self.review else ())

    @property
    def stop_reason(self) -> str:
        """The trajectory's stop reason; "" without a trajectory."""
        return self.trajectory.stop_reason if self.trajectory else ""

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens, including the review's."""
        return self._usage.prompt_tokens + self._usage.completion_tokens

    @property
    def uncounted(self) -> int:
        """Model calls whose tokens are unknown and not among `tokens`."""
        return self._usage.uncounted

    @property
    def _usage(self) -> Usage:
        spent = [self.trajectory, self.review.trajectory if self.review else None]
        return sum((part.usage for part in spent if part), Usage())


def summarize(episode: Episode) -> EpisodeSummary:
    """The summary of an episode in memory."""
    return msgspec.convert(episode, EpisodeSummary, from_attributes=True)


def read_summaries(run: Path) -> Iterator[EpisodeSummary]:
    """Every record of a run's log, including superseded ones. Raises `ConfigError` for an invalid line."""
    return read_attempts(run, EpisodeSummary)
