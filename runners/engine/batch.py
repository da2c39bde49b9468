"""Runs lanes: concurrent rollouts against frozen snapshots; an episode counts once it is on disk."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from hermes_lab.config.schema import RunConfig
from hermes_lab.knowledge import Knowledge
from hermes_lab.records import EpisodeLog
from hermes_lab.rollout import RolloutContext, RolloutSpec, RunEpisode, run_episode
from hermes_lab.runners.engine.budget import Budget
from hermes_lab.runners.engine.episode_summary import EpisodeSummary, read_summaries, summarize
from hermes_lab.runners.engine.garbage import collect_rarely
from hermes_lab.runners.engine.lane_history import keep_merge
from hermes_lab.runners.engine.lanes import LaneState, after_round
from hermes_lab.runners.engine.log_relay import episode_context
from hermes_lab.runners.engine.plan import Lane
from hermes_lab.runners.engine.scheduler import Scheduler
from hermes_lab.runners.engine.snapshots import keep_knowledge

if TYPE_CHECKING:
    from hermes_lab.runners.engine.stopping import Stopping

OnEpisode = Callable[[EpisodeSummary], None]

LEAD = 1
"""Rounds that a lane may be ahead of the slowest one, in runs with a budget."""

Done = dict[str, EpisodeSummary | None]
"""Finished episodes by key. The summary is kept only where merging needs it: learning episodes of learning lanes."""


def read_done(lanes: Sequence[Lane], out: Path, on_episode: OnEpisode) -> Done:
    """The episodes finished so far; calls `on_episode` for each."""
    learning = {lane.name for lane in lanes if lane.learns}
    done: Done = {}
    for episode in read_summaries(out):
        if episode.status == "ok":
            if episode.key not in done:  # a repeated record is the same episode
                on_episode(episode)
            done[episode.key] = episode if episode.lane in learning and episode.phase == "learn" else None
    return done


def has_pending(lanes: Sequence[Lane], done: Done) -> bool:
    """Whether anything is left to run."""
    return any(spec.key not in done for lane in lanes for step in lane.steps for spec in lane.jobs(step))


def finalize_lanes(config: RunConfig, lanes: Sequence[Lane], out: Path, done: Done) -> None:
    """Saves the knowledge of finished lanes: the process may have been killed right after their last episode."""
    for lane in lanes:
        state = LaneState(Knowledge(lane.library, lane.notes))
        for round_ in range(len(lane.rounds)) if lane.learns else ():
            state = _close_round(config, lane, _finished(lane, round_, done), state, out)


async def run_lanes(
    contexts: Sequence[RolloutContext],
    lanes: Sequence[Lane],
    out: Path,
    done: Done,
    on_episode: OnEpisode,
    budget: Budget,
    run_episode: RunEpisode = run_episode,
    stopping: "Stopping | None" = None,
) -> None:
    """Runs the unfinished episodes of all lanes until they are done, have failed, the budget is spent, or `stopping`
    has decided. `contexts` has one entry per adapter; `run_episode` comes from the executor.

    If a learning episode errors, its lane stops after the round, since later rounds would start from an incomplete
    library; a resumed run continues there. An errored held-out episode does not stop its lane.
    """
    log = EpisodeLog(out)
    try:
        # Lanes only wait for each other if a budget or a stopping rule may end the run early.
        lead = LEAD if budget.limited else None
        concurrency = contexts[0].config.run.concurrency
        if stopping:
            lead = stopping.at_once(lanes, concurrency) - 1
        scheduler = Scheduler(concurrency, lead=lead)
        batch = _Batch(contexts, log, out, done, scheduler, budget, on_episode, run_episode, stopping)
        with collect_rarely():
            async with anyio.create_task_group() as group:
                for number, lane in enumerate(lanes):
                    scheduler.join(batch.turn(lane, 0))
                    group.start_soon(batch.run_lane, lane, number)
    finally:
        log.close()


@dataclass
class _Batch:
    contexts: Sequence[RolloutContext]
    log: EpisodeLog
    out: Path
    done: Done
    scheduler: Scheduler
    budget: Budget
    on_episode: OnEpisode
    run_episode: RunEpisode
    stopping: "Stopping | None"

    async def run_lane(self, lane: Lane, number: int) -> None:
        step = 0
        try:
            state = LaneState(Knowledge(lane.library, lane.notes, label=lane.label))
            # The snapshot must be on disk before any episode refers to it.
            await self._keep(lane, state)
            for step in lane.steps:
                if step:
                    self.scheduler.move(self.turn(lane, step - 1), self.turn(lane, step))
                if lane.known and lane.known[lane.block(step)] is not state.knowledge.library:
                    state = LaneState(Knowledge(lane.known[lane.block(step)]))
                    await self._keep(lane, state)
                all_started = await self._run_step(lane, number, step, state.knowledge)
                if lane.learns and step < len(lane.rounds):
                    finished = _finished(lane, step, self.done)
                    if len(finished) < lane.samples * len(lane.rounds[step]):
                        return
                    config = self.contexts[lane.weights].config
                    state = await anyio.to_thread.run_sync(_close_round, config, lane, finished, state, self.out)
                if not all_started:
                    return
        finally:
            self.scheduler.move(self.turn(lane, step), None)

    def turn(self, lane: Lane, step: int) -> int:
        """What the scheduler orders a lane by: its round; its unit if there is a stopping rule."""
        return self.stopping.unit(lane) if self.stopping else step

    async def _keep(self, lane: Lane, state: LaneState) -> None:
        await anyio.to_thread.run_sync(keep_knowledge, self.out, lane.name, state.knowledge)

    async def _run_step(self, lane: Lane, number: int, step: int, knowledge: Knowledge) -> bool:
        """Runs the unfinished episodes of a round; returns False if not all of them were allowed to start."""
        async with anyio.create_task_group() as group:
            for spec in lane.jobs(step):
                if spec.key in self.done:
                    continue
                await self.scheduler.acquire(self.turn(lane, step), number)
                if (self.stopping and self.stopping.decision) or not self.budget.begin():
                    self.scheduler.release()
                    return False
                group.start_soon(self._run_job, lane, spec, knowledge)
        return True

    async def _run_job(self, lane: Lane, spec: RolloutSpec, knowledge: Knowledge) -> None:
        try:
            with episode_context(spec.key):
                episode = await self.run_episode(self.contexts[lane.weights], spec, knowledge)
            await self.log.append(episode)
        finally:
            self.budget.end()
            self.scheduler.release()
        finished = summarize(episode)
        if finished.status == "ok":
            self.done[spec.key] = finished if lane.learns and spec.phase == "learn" else None
        self.on_episode(finished)


def _finished(lane: Lane, round_: int, done: Done) -> list[EpisodeSummary]:
    """The finished episodes of a learning lane's round, in merge order."""
    return [episode for spec in lane.training_jobs(round_) if (episode := done.get(spec.key))]


def _close_round(
    config: RunConfig, lane: Lane, finished: Sequence[EpisodeSummary], state: LaneState, out: Path
) -> LaneState:
    """Merges a round and saves the result; returns the lane's new state."""
    state, merge = after_round(state, lane.arm, finished, config)
    keep_knowledge(out, lane.name, state.knowledge)
    keep_merge(out, lane.name, merge)
    return state
