"""Rollouts for environments: feed an Atropos server, write groups to a file, evaluate on held-out tasks."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import anyio

from hermes_lab.analysis.libraries import load_initial_library
from hermes_lab.config.schema import RunConfig
from hermes_lab.envs.advice import listed
from hermes_lab.envs.atropos.client import AtroposClient, AtroposError
from hermes_lab.envs.atropos.config import EnvConfig, check_sampling, new_file
from hermes_lab.envs.atropos.evaluate import evaluate, greedy
from hermes_lab.envs.atropos.learning import LearningSource, kinds_of, made_groups, rollouts_of
from hermes_lab.envs.atropos.process import process, roll_out, write_made
from hermes_lab.envs.atropos.serve import Feeder
from hermes_lab.envs.atropos.source import GroupSource, Keep, NothingWorks, Source
from hermes_lab.envs.atropos.tally import Tally
from hermes_lab.envs.atropos.watch import Explained, Watch, explained, kind_of
from hermes_lab.envs.learning.config import ReviewWorth
from hermes_lab.envs.learning.groups import learning_groups
from hermes_lab.envs.learning.lanes import Draw
from hermes_lab.envs.learning.records import LearningPlan
from hermes_lab.envs.learning.run import Ended, LaneOutcome
from hermes_lab.envs.refusals import other_reasons
from hermes_lab.envs.rollouts import Rollouts, open_rollouts
from hermes_lab.envs.signal import Rated, Signal, signal_of
from hermes_lab.errors import ConfigError, InfraError
from hermes_lab.models.weights import Say
from hermes_lab.records import EpisodeLog, episode_files, read_episodes, write_json
from hermes_lab.runners.engine.executors import open_executor
from hermes_lab.runners.environments.learning import learn
from hermes_lab.runners.environments.lock import load_locked
from hermes_lab.runners.interrupt import one_interrupt
from hermes_lab.types import Episode


def run_serve(sources: Sequence[str], api_url: str, lock: Path | None, out: Path | None, say: Say) -> None:
    """Feeds the server at `api_url` until its trainer has reached its step count. Raises `InfraError` if the server or
    all rollouts fail."""
    config = load_locked(sources, lock)
    check_sampling(config)
    models = {urlsplit(url).netloc for url in config.model.servers}
    if config.model.provider == "openai" and urlsplit(api_url).netloc in models:
        raise ConfigError(
            f"--api-url: {api_url} is also the address of model.base_url; use another --port for `run-api`"
        )
    anyio.run(partial(_serve, locked=lock is not None), config, api_url, out or _new_folder(), say)


async def _serve(config: EnvConfig, api_url: str, out: Path, say: Say, *, locked: bool) -> None:
    tally = Tally()
    async with one_interrupt():
        try:
            async with (
                AtroposClient(api_url, retry_seconds=config.env.retry_seconds, say=say) as client,
                _opened(config.rollouts, out, say) as (rollouts, log),
            ):
                source = _watched(config, rollouts, tally, log, say, locked=locked)
                await Feeder(client, source, config.env, tally, say).run()
        except (AtroposError, NothingWorks) as error:
            say(str(tally))
            raise InfraError(str(error)) from None
        except anyio.get_cancelled_exc_class():  # Ctrl-C
            say(str(tally))
            raise


def run_process(
    sources: Sequence[str], lock: Path | None, out: Path, *, count: int, scored: bool, html: bool, say: Say
) -> Tally:
    """Writes groups to a file; returns their counts. Raises `InfraError` if all rollouts fail."""
    config = load_locked(sources, lock)
    check_sampling(config)
    page = new_file(out.with_suffix(".html")) if html else None
    if config.env.objective != "solve":
        return _process_learning(config, new_file(out), page, count, scored, say, locked=lock is not None)
    rolled_out = partial(_process, locked=lock is not None)
    return anyio.run(rolled_out, config, new_file(out), page, count, scored, say)


def _process_learning(
    config: EnvConfig, out: Path, page: Path | None, count: int, scored: bool, say: Say, *, locked: bool
) -> Tally:
    """The groups of `count` learning episodes. If it is interrupted or killed, the same command continues."""
    env, suite, tally = config.env, config.suite, Tally()
    assert env.reviews is not None
    draw = Draw(suite.split, suite.seed, suite.world, min(config.learning.worlds, count), count)
    folder = out.with_suffix(".episodes")
    watched = _watched_learning(config, env.reviews, say, locked=locked)
    found = learn(config.rollouts, LearningPlan(env.reviews, draw, env.group_size), folder, say, watched)
    episodes = {episode.key: episode for episode in read_episodes(folder)}
    tally.saw(episodes.values())
    made = made_groups(found, episodes, env, env.max_token_length, tally)
    tally.sent([each.group for each in made])
    write_made(made, out, scored=scored, page=page)
    return tally


def _watched_learning(config: EnvConfig, worth: ReviewWorth, say: Say, *, locked: bool) -> Ended:
    """Judges each learning episode when it has ended, so that the warning comes before all are paid for."""
    tally = Tally()
    watch = Watch(config, tally, say, locked=locked)
    tally.judged = watch.judged

    def ended(outcome: LaneOutcome) -> None:
        episodes = rollouts_of(outcome)
        for episode in episodes.values():
            watch.saw(episode)
        with suppress(ConfigError):  # `learn` raises it, after the last learning episode
            found = learning_groups([outcome], worth, kinds_of(config.env))
            made_groups(found, episodes, config.env, config.env.max_token_length, tally)

    return ended


async def _process(
    config: EnvConfig, out: Path, page: Path | None, count: int, scored: bool, say: Say, *, locked: bool
) -> Tally:
    tally = Tally()
    async with one_interrupt():
        try:
            async with _opened(config.rollouts, out.with_suffix(".episodes"), say) as (rollouts, log):
                source = _watched(config, rollouts, tally, log, say, locked=locked)
                await process(source, tally, count=count, out=out, scored=scored, page=page, say=say)
        except NothingWorks as error:
            raise InfraError(str(error)) from None
    return tally


class Checked(NamedTuple):
    """What the groups of an environment teach, and those of each kind."""

    signal: Signal
    found: list[Explained]
    folder: Path
    interrupted: bool = False
    """Ctrl-C ended it; the figures are of the groups that were complete by then."""

    @property
    def tips(self) -> list[str]:
        """Advice for the kinds of which less than half are usable, or some are refused for another reason than equal
        rewards."""
        needed = [each for each in self.found if each.signal.few or other_reasons(each.signal.refused)]
        return list(dict.fromkeys(tip for each in needed for tip in each.tips))

    def rows(self) -> list[tuple[str, str]]:
        """The lines of a report."""
        return [
            *self.signal.rows(),
            *((each.kind, each.sentence) for each in self.found),
            *([("advice", listed(self.tips))] if self.tips else []),
            ("episodes", str(self.folder)),
            *([("stopped", "interrupted; only the complete groups are measured")] if self.interrupted else []),
        ]


def run_check(
    sources: Sequence[str], lock: Path | None, out: Path | None, *, count: int, say: Say
) -> tuple[EnvConfig, Checked]:
    """Measures how much the groups of `count` tasks, or learning episodes, teach; of those that are complete, after
    Ctrl-C. Raises `InfraError` if all rollouts fail."""
    config = load_locked(sources, lock)
    check_sampling(config)
    if config.env.group_size < 2:
        raise ConfigError("env.group_size: 1 has nothing to compare; give at least 2")
    groups, episodes, interrupted = list[Rated](), list[Episode](), False
    tally, folder = Tally(judged=groups.append), out or _new_folder()
    try:
        anyio.run(_check, config, folder, count, tally, episodes, say)
    except KeyboardInterrupt:
        if not groups:
            raise
        interrupted = True
    signal = signal_of(groups)
    if not signal.groups:
        raise InfraError(f"no group is whole: {tally}")
    by_kind = {kind: [each for each in groups if kind_of(each) == kind] for kind in map(kind_of, groups)}
    found = [
        explained(config, kind, each, episodes, tally, locked=lock is not None)
        for kind, each in sorted(by_kind.items())
    ]
    return config, Checked(signal, found, folder, interrupted)


async def _check(config: EnvConfig, out: Path, count: int, tally: Tally, episodes: list[Episode], say: Say) -> None:
    """Rolls out the groups of `count` items, whose episodes it adds to `episodes`."""
    async with one_interrupt():
        try:
            async with _opened(config.rollouts, out, say) as (rollouts, log):

                async def keep(episode: Episode) -> None:
                    await log.append(episode)
                    episodes.append(episode)

                await roll_out(_source(config, rollouts, tally, keep), tally, count, say)
        except NothingWorks as error:
            raise InfraError(str(error)) from None


def _watched(config: EnvConfig, rollouts: Rollouts, tally: Tally, log: EpisodeLog, say: Say, *, locked: bool) -> Source:
    """The source of an environment, which warns if its first groups teach too little."""
    watch = Watch(config, tally, say, locked=locked)
    tally.judged = watch.judged

    async def keep(episode: Episode) -> None:
        await log.append(episode)
        watch.saw(episode)

    return _source(config, rollouts, tally, keep)


def _source(config: EnvConfig, rollouts: Rollouts, tally: Tally, keep: Keep) -> Source:
    if config.env.objective == "solve":
        return GroupSource(config, rollouts, tally, keep)
    return LearningSource(config, rollouts, tally, keep, load_initial_library(config.skills.library))


def run_evaluate(sources: Sequence[str], lock: Path | None, out: Path | None, say: Say) -> dict[str, Any]:
    """Measures the success rate on held-out tasks; writes it to `out` if given."""
    config = load_locked(sources, lock)
    if out:
        new_file(out)
    report = anyio.run(_evaluate, config, say)
    if out:
        write_json(out, report)
    return report


async def _evaluate(config: EnvConfig, say: Say) -> dict[str, Any]:
    async with one_interrupt(), _opened(greedy(config), _new_folder(), say) as (rollouts, log):
        report, episodes = await evaluate(rollouts, say)
        for episode in episodes:
            await log.append(episode)
    return report


@asynccontextmanager
async def _opened(config: RunConfig, out: Path, say: Say) -> AsyncIterator[tuple[Rollouts, EpisodeLog]]:
    """The rollouts, and the log in `out` that records their episodes.

    Raises `ConfigError` if it has some already, since new ones would have the same keys.
    """
    if any(path.stat().st_size for path in episode_files(out)):
        raise ConfigError(f"{out}: already holds episodes; give another --out, or move the folder away")
    log = EpisodeLog(out)
    try:
        async with open_rollouts(config, log=out / "server.log", say=say, executor=open_executor) as rollouts:
            say(f"episodes: {log.path}")
            yield rollouts, log
    finally:
        log.close()


def _new_folder() -> Path:
    return Path("runs/env") / datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
