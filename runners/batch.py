"""Runs lanes: rounds against frozen snapshots, many rollouts at once, every episode on disk before it counts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

from hermes_lab.records import EpisodeLog
from hermes_lab.rollout import Job, Lab, run_episode
from hermes_lab.skills.library import Library, merge
from hermes_lab.types import SkillWrite
from runners.brief import Brief, brief, read_briefs
from runners.plan import Lane

OnEpisode = Callable[[Brief], None]

Done = dict[str, tuple[SkillWrite, ...]]
"""Finished episodes by key, and what each adds to its lane's library: all that resume and merging need."""


def read_done(out: Path, on_episode: OnEpisode) -> Done:
    """What earlier starts finished; `on_episode` is told of each."""
    done: Done = {}
    for episode in read_briefs(out):
        if episode.status == "ok":
            done[episode.key] = episode.writes
            on_episode(episode)
    return done


def owes(lanes: Sequence[Lane], done: Done) -> bool:
    """Whether anything is left to run."""
    return any(job.key not in done for lane in lanes for round_ in range(len(lane.rounds)) for job in lane.jobs(round_))


async def run_lanes(
    lab: Lab, lanes: Sequence[Lane], out: Path, start: Library, done: Done, on_episode: OnEpisode
) -> None:
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
                group.start_soon(batch.run_lane, lane, start)
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

    async def run_lane(self, lane: Lane, library: Library) -> None:
        for round_ in range(len(lane.rounds)):
            library.save(self.out / "skills" / library.snapshot)
            jobs = [job for job in lane.jobs(round_) if job.key not in self.done]
            await self._run_round(jobs, library)
            if lane.learn:
                keys = [job.key for job in lane.jobs(round_)]
                if not all(key in self.done for key in keys):
                    return
                library = merge(library, (self.done[key] for key in keys))
                _keep_home(self.out, lane.name, library)

    async def _run_round(self, jobs: Sequence[Job], library: Library) -> None:
        async with anyio.create_task_group() as group:
            for job in jobs:
                await self.slots.acquire()
                group.start_soon(self._run_job, job, library)

    async def _run_job(self, job: Job, library: Library) -> None:
        try:
            episode = await run_episode(self.lab, job, library)
            await self.log.append(episode)
        finally:
            self.slots.release()
        finished = brief(episode)
        if finished.status == "ok":
            self.done[job.key] = finished.writes
        self.on_episode(finished)


def _keep_home(out: Path, lane: str, library: Library) -> None:
    """`lanes/<lane>/home/skills` points to the lane's newest snapshot."""
    library.save(out / "skills" / library.snapshot)
    link = out / "lanes" / lane / "home" / "skills"
    link.parent.mkdir(parents=True, exist_ok=True)
    temporary = link.with_name(".skills.tmp")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(Path("../../../skills") / library.snapshot)
    temporary.replace(link)
