"""Runs lanes: rounds against frozen snapshots, many rollouts at once, every episode on disk before it counts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread

from hermes_lab.config import RunConfig
from hermes_lab.knowledge import Knowledge
from hermes_lab.records import EpisodeLog
from hermes_lab.rollout import Job, Lab, run_episode
from runners.brief import Brief, brief, read_briefs
from runners.lane_history import keep_border
from runners.lanes import LaneState, after_round
from runners.narration import within
from runners.plan import Lane
from runners.snapshots import keep_knowledge

OnEpisode = Callable[[Brief], None]

Done = dict[str, Brief | None]
"""Finished episodes by key, and what a lane that learns makes of them: all that resume and merging need."""


def read_done(lanes: Sequence[Lane], out: Path, on_episode: OnEpisode) -> Done:
    """What earlier starts finished; `on_episode` is told of each."""
    learning = {lane.name for lane in lanes if lane.learns}
    done: Done = {}
    for episode in read_briefs(out):
        if episode.status == "ok":
            done[episode.key] = episode if episode.lane in learning else None
            on_episode(episode)
    return done


def owes(lanes: Sequence[Lane], done: Done) -> bool:
    """Whether anything is left to run."""
    return any(job.key not in done for lane in lanes for round_ in range(len(lane.rounds)) for job in lane.jobs(round_))


def settle(config: RunConfig, lanes: Sequence[Lane], out: Path, done: Done) -> None:
    """Puts on the disk what lanes that owe nothing know: a kill may have come right after their last episode."""
    for lane in lanes:
        state = LaneState(Knowledge(lane.library))
        for round_ in range(len(lane.rounds)) if lane.learns else ():
            state = _close_round(config, lane, _finished(lane, round_, done), state, out)


async def run_lanes(lab: Lab, lanes: Sequence[Lane], out: Path, done: Done, on_episode: OnEpisode) -> None:
    """Runs whatever the lanes still owe, and ends when everything is done or owed to a failure.

    Where an episode of a learning lane errored, the lane ends with its round: later ones would learn from a library
    that lacks it. Resume takes it up there.
    """
    log = EpisodeLog(out)
    try:
        slots = anyio.Semaphore(lab.config.run.concurrency)
        batch = _Batch(lab, log, out, done, slots, on_episode)
        async with anyio.create_task_group() as group:
            for lane in lanes:
                group.start_soon(batch.run_lane, lane)
    finally:
        log.close()


@dataclass
class _Batch:
    lab: Lab
    log: EpisodeLog
    out: Path
    done: Done
    slots: anyio.Semaphore
    on_episode: OnEpisode

    async def run_lane(self, lane: Lane) -> None:
        state = LaneState(Knowledge(lane.library))
        # a snapshot has to be there before an episode names it
        await anyio.to_thread.run_sync(keep_knowledge, self.out, lane.name, state.knowledge)
        for round_ in range(len(lane.rounds)):
            jobs = list(lane.jobs(round_))
            await self._run_round(lane, [job for job in jobs if job.key not in self.done], state.knowledge)
            if lane.learns:
                finished = _finished(lane, round_, self.done)
                if len(finished) < len(jobs):
                    return
                state = await anyio.to_thread.run_sync(_close_round, self.lab.config, lane, finished, state, self.out)

    async def _run_round(self, lane: Lane, jobs: Sequence[Job], knowledge: Knowledge) -> None:
        async with anyio.create_task_group() as group:
            for job in jobs:
                await self.slots.acquire()
                group.start_soon(self._run_job, lane, job, knowledge)

    async def _run_job(self, lane: Lane, job: Job, knowledge: Knowledge) -> None:
        try:
            with within(job.key):
                episode = await run_episode(self.lab, job, knowledge)
            await self.log.append(episode)
        finally:
            self.slots.release()
        finished = brief(episode)
        if finished.status == "ok":
            self.done[job.key] = finished if lane.learns else None
        self.on_episode(finished)


def _finished(lane: Lane, round_: int, done: Done) -> list[Brief]:
    """The finished episodes of a round of a lane that learns, in the order in which they are merged."""
    return [episode for job in lane.jobs(round_) if (episode := done.get(job.key))]


def _close_round(config: RunConfig, lane: Lane, finished: Sequence[Brief], state: LaneState, out: Path) -> LaneState:
    """What a lane knows after a round, once that is on the disk."""
    state, border = after_round(state, lane.arm, finished, config)
    keep_knowledge(out, lane.name, state.knowledge)
    keep_border(out, lane.name, border)
    return state
