"""Learning episodes in a run folder: their rollouts, the log, and what the reviews in it are worth."""

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from hermes_lab.analysis.libraries import load_initial_library
from hermes_lab.config.schema import RunConfig
from hermes_lab.envs.groups import write_groups
from hermes_lab.envs.learning.config import check_learning
from hermes_lab.envs.learning.groups import LearningGroups, learning_groups
from hermes_lab.envs.learning.lanes import LearningLane, draw_lanes
from hermes_lab.envs.learning.records import GROUPS, LearningPlan, check_plan, write_learned
from hermes_lab.envs.learning.run import Ended, LaneOutcome, LearningRun
from hermes_lab.envs.rollouts import open_rollouts
from hermes_lab.errors import InfraError
from hermes_lab.knowledge import Knowledge
from hermes_lab.models.weights import Say
from hermes_lab.records import EpisodeLog, read_episodes
from hermes_lab.runners.engine.execute import run_blocking
from hermes_lab.runners.engine.executors import open_executor
from hermes_lab.runners.engine.folder import keep_suite, lock_folder, open_folder
from hermes_lab.runners.engine.open_files import raise_open_file_limit
from hermes_lab.runners.engine.plan import Lane, tasks_digest
from hermes_lab.runners.engine.snapshots import keep_knowledge, remove_partial_snapshots, save_knowledge
from hermes_lab.runners.engine.weights import weights_digest
from hermes_lab.runners.interrupt import one_interrupt
from hermes_lab.sandbox import missing_guarantees
from hermes_lab.tasks import load_suite
from hermes_lab.tasks.registry import wrap_suite_errors
from hermes_lab.text.counted import counted
from hermes_lab.types import Episode

COMMAND = "reviews"
"""The command in `run.json`."""
_BEAT = 15
"""Seconds between two lines of progress, as in a run."""


def learn(
    config: RunConfig, plan: LearningPlan, folder: Path, say: Say, watched: Ended | None = None
) -> LearningGroups:
    """Runs the learning episodes that are missing in `folder`, and writes their values and groups there; without token
    ids (`model.token_ids`) there are no groups. `watched` is called after each learning episode.

    A folder of a killed run is continued: finished episodes are kept, and none runs twice. Raises `ConfigError` for a
    folder of another run, and `InfraError` if the model or sandbox cannot start.
    """
    check_learning(config)
    suite, library = load_suite(config.suite, config.sandbox), load_initial_library(config.skills.library)
    with wrap_suite_errors(suite):
        lanes = draw_lanes(suite, config, plan.worth, plan.draw, Knowledge(library))
    with lock_folder(folder):
        remark = open_folder(
            folder,
            command=COMMAND,
            config=config,
            tasks_digest=tasks_digest(list(map(_as_lane, lanes))),
            library=library.snapshot,
            adapter_digest=weights_digest([config.model.adapter]),
            wanted=0,  # how many follow-ups there are depends on what the reviews write
            resume=(folder / "run.json").exists(),
        )
        if remark:
            say(remark)
        check_plan(folder, plan)
        keep_suite(folder, config)
        remove_partial_snapshots(folder)
        for promise in missing_guarantees(config.sandbox):
            say(f"warning: sandbox.backend={config.sandbox.backend}: {promise}")
        raise_open_file_limit(config.run.concurrency)
        outcomes = run_blocking(partial(_run, config, plan, lanes, folder, say, watched))
        _report_errors(outcomes, say)
        for outcome in outcomes:
            keep_knowledge(folder, outcome.lane.name, outcome.knowledge)
        found = learning_groups(outcomes, plan.worth, ("review", "solve") if config.model.token_ids else ())
        write_groups(found.groups, folder / GROUPS)
        write_learned(folder, found)
    return found


def _report_errors(outcomes: Sequence[LaneOutcome], say: Say) -> None:
    """Says how many rollouts errored. Raises `InfraError` if no work finished: the next start tries it again."""
    errors = [error for outcome in outcomes for error in outcome.errors]
    if errors and not any(outcome.reviewed for outcome in outcomes):
        raise InfraError(f"the work of all {len(outcomes)} learning episodes errored; the last: {errors[-1]}")
    if errors:
        say(f"warning: {counted(len(errors), 'rollout')} of learning episodes errored; the last: {errors[-1]}")


class _Progress:
    """Says every `_BEAT` seconds, and after each learning episode, how far the rollouts are."""

    def __init__(self, lanes: int, say: Say, watched: Ended | None) -> None:
        self._lanes = lanes
        self._watched = watched
        self._say = say
        self._ended = self._rollouts = self._errored = 0
        self._told = time.monotonic()

    def kept(self, episode: Episode) -> None:
        """After each rollout."""
        self._rollouts += 1
        self._errored += episode.error is not None
        if time.monotonic() - self._told >= _BEAT:
            self._tell()

    def ended(self, outcome: LaneOutcome) -> None:
        """After each learning episode."""
        self._ended += 1
        self._tell()
        if self._watched:
            self._watched(outcome)

    def _tell(self) -> None:
        self._told = time.monotonic()
        errored = f", {self._errored} errored" if self._errored else ""
        self._say(f"{self._ended}/{self._lanes} learning episodes, {self._rollouts} rollouts{errored}")


async def _run(
    config: RunConfig,
    plan: LearningPlan,
    lanes: Sequence[LearningLane],
    folder: Path,
    say: Say,
    watched: Ended | None,
) -> list[LaneOutcome]:
    done = {episode.key: episode for episode in read_episodes(folder) if episode.status == "ok"}
    log, progress = EpisodeLog(folder), _Progress(len(lanes), say, watched)

    async def keep(episode: Episode) -> None:
        await log.append(episode)
        progress.kept(episode)

    try:
        async with one_interrupt():
            opened = open_rollouts(config, log=folder / "server.log", say=say, executor=open_executor)
            async with opened as rollouts:
                run = LearningRun(
                    rollouts.run,
                    plan.worth,
                    config.memory,
                    forks=plan.forks,
                    keep=keep,
                    ended=progress.ended,
                    save=partial(save_knowledge, folder),
                    done=done,
                )
                return await run.run(lanes)
    finally:
        log.close()


def _as_lane(lane: LearningLane) -> Lane:
    """The tasks, as the digest of a run's tasks reads them."""
    return Lane(lane.name, lane.arm, lane.start.library, 1, [lane.tasks], heldout=[lane.followups])
