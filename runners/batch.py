"""Runs lanes: rounds against frozen snapshots, many rollouts at once, every episode on disk before it counts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

from hermes_lab.records import EpisodeLog, read_attempts
from hermes_lab.rollout import Job, Lab, run_episode
from hermes_lab.skills.library import Library, merge
from hermes_lab.types import Episode, SkillWrite
from runners.plan import Lane

OnEpisode = Callable[[Episode], None]


@dataclass(frozen=True)
class Recall:
    """What resume and merging need of a finished episode; the rest stays on the disk."""

    status: str
    writes: tuple[SkillWrite, ...]


async def run_lanes(lab: Lab, lanes: Sequence[Lane], out: Path, start: Library, on_episode: OnEpisode) -> None:
    """Runs whatever the lanes still owe, and ends when everything is done or owed to a failure.

    `on_episode` is called for every episode that counts, those of an earlier start first. A round in which an episode
    errored ends its lane here: later rounds would learn from a library that lacks it. Resume takes it up there.
    """
    log = EpisodeLog(out)
    try:
        done = {}
        for episode in read_attempts(out):
            if episode.status == "ok":
                done[episode.key] = Recall("ok", _writes(episode))
                on_episode(episode)
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
    done: dict[str, Recall]
    slots: anyio.Semaphore
    on_episode: OnEpisode

    async def run_lane(self, lane: Lane, library: Library) -> None:
        for round_ in range(len(lane.rounds)):
            library.save(self.out / "skills" / library.snapshot)
            jobs = [job for job in lane.jobs(round_) if job.key not in self.done]
            await self._run_round(jobs, library)
            recalls = [self.done[job.key] for job in lane.jobs(round_)]
            if any(recall.status != "ok" for recall in recalls):
                return
            if lane.learn:
                library = merge(library, (recall.writes for recall in recalls))
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
        self.done[job.key] = Recall(episode.status, _writes(episode))
        self.on_episode(episode)


def _writes(episode: Episode) -> tuple[SkillWrite, ...]:
    """What an episode adds to its lane's library: its own writes, then those of its review."""
    return episode.skills.writes + (episode.review.writes if episode.review else ())


def _keep_home(out: Path, lane: str, library: Library) -> None:
    """`lanes/<lane>/home/skills` points to the lane's newest snapshot."""
    library.save(out / "skills" / library.snapshot)
    link = out / "lanes" / lane / "home" / "skills"
    link.parent.mkdir(parents=True, exist_ok=True)
    temporary = link.with_name(".skills.tmp")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(Path("../../../skills") / library.snapshot)
    temporary.replace(link)
