"""Ends an experiment once its registered comparison is decided."""

from collections.abc import Sequence

from hermes_lab.analysis.comparison.sequential import Decision, Monitor
from hermes_lab.lane import lane_key
from hermes_lab.registration import Primary
from hermes_lab.runners.engine.episode_summary import EpisodeSummary
from hermes_lab.runners.engine.plan import Lane
from hermes_lab.runners.engine.registration import units_at_once


class Stopping:
    """The stopping rule of a run. Rollouts in flight at the decision are finished and kept, but do not count."""

    def __init__(self, primary: Primary) -> None:
        self._monitor = Monitor(primary)

    def add(self, episode: EpisodeSummary) -> None:
        """Counts a finished episode."""
        task = (episode.suite, episode.task_id, episode.sample)
        self._monitor.add(episode.lane, episode.phase, episode.round, task, episode.success)

    @property
    def decision(self) -> Decision | None:
        """The decision; None while the run goes on."""
        return self._monitor.decision

    @property
    def progress(self) -> str:
        """`7 of 20 worlds compared`."""
        primary = self._monitor.primary
        return f"{self._monitor.units} of {primary.units} {primary.over} compared"

    def at_once(self, lanes: Sequence[Lane], concurrency: int) -> int:
        """The number of units that run at the same time, as `units_at_once`."""
        return units_at_once(lanes, self._monitor.primary.units, concurrency)

    def unit(self, lane: Lane) -> int:
        """The unit of a lane: those with lower numbers run first."""
        place = lane_key(lane.name)
        return self._monitor.primary.unit(place.replicate, place.world) if place else 0
