"""What a tracker does."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol


class Start(NamedTuple):
    """A run that starts or resumes. `config` is without secrets."""

    folder: Path
    project: str
    name: str
    command: str
    config: Mapping[str, Any]
    resumed: bool


class Tracker(Protocol):
    """One tracked run. Any method may raise; the run goes on."""

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Adds the metrics of a moment; `step` is the number of finished episodes."""

    def finish(self, summary: Mapping[str, float], verdict: str, report: Path | None, *, complete: bool) -> None:
        """Adds the result and the report, and ends the tracked run."""
