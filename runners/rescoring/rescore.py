"""Rescores a run into a new run folder, which every command reads like any other."""

import os
import shutil
from collections.abc import Awaitable, Callable, Collection
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import anyio
import msgspec

from hermes_lab.analysis.data.runs import open_runs
from hermes_lab.config.digest import config_digest
from hermes_lab.errors import ConfigError
from hermes_lab.manifest import RescoredRun, read_manifest
from hermes_lab.models.weights import Say
from hermes_lab.records import EpisodeLog, read_episodes, write_json
from hermes_lab.registration import FILE as PLAN
from hermes_lab.registration import read_plan
from hermes_lab.runners.engine.folder import check_folder, keep_suite, lock_folder
from hermes_lab.runners.interrupt import one_interrupt
from hermes_lab.runners.rescoring.source import Source
from hermes_lab.runners.rescoring.tally import Changes
from hermes_lab.runners.rescoring.verdicts import ERRORED, Rescorer, SilentJudge
from hermes_lab.sandbox import open_sandbox, probe
from hermes_lab.types import Episode
from hermes_lab.verification import Grader, open_judge
from hermes_lab.verification.workspaces import FOLDER

OnEpisode = Callable[[Episode], None]
_BESIDE = ("skills", "memory", "lanes", FOLDER)
"""What records refer to, and a rescoring does not change."""


async def count_changes(source: Source) -> Changes:
    """What rescoring would change. Writes nothing and does not ask the judge."""
    changes = Changes()

    async def add(episode: Episode) -> None:
        changes.add(episode)

    await _rescore_each(source, (), SilentJudge(), add)
    return changes


async def rescore(source: Source, out: Path, *, resume: bool, on_episode: OnEpisode, say: Say) -> Changes:
    """Writes the run `out` with the same episodes and new verdicts; never changes the source.

    An episode counts once it is on disk. So a killed rescoring is continued by `resume`, which also retries episodes
    whose verifier or judge failed. Raises `ConfigError` if `out` is the source or holds something else.
    """
    _check_out(source, out, resume=resume)
    with lock_folder(out):
        _open_folder(source, out, resume=resume)
        done = {episode.key for episode in read_episodes(out) if _is_done(episode)}
        log = EpisodeLog(out)

        async def add(episode: Episode) -> None:
            await log.append(episode)
            on_episode(episode)

        try:
            async with open_judge(source.config, say=say) as judge:
                await _rescore_each(source, done, judge, add)
        finally:
            log.close()
        return Changes(read_episodes(out))


def _check_out(source: Source, out: Path, *, resume: bool) -> None:
    if out.resolve() == source.run.resolve():
        raise ConfigError(f"--out: {out} is the run itself, which is never changed; choose another folder")
    check_folder(out, resume=resume)


def _is_done(episode: Episode) -> bool:
    return episode.status == "ok" or (episode.rescored is not None and episode.rescored.problem == ERRORED)


async def _rescore_each(
    source: Source, done: Collection[str], judge: Grader | None, add: Callable[[Episode], Awaitable[None]]
) -> None:
    """Rescores `run.concurrency` episodes at once; no more are in memory."""
    config = source.config
    rescorer = Rescorer(source, partial(open_sandbox, config.sandbox), judge)
    room = anyio.Semaphore(config.run.concurrency)

    async def one(episode: Episode) -> None:
        try:
            await add(await rescorer.rescore(episode))
        finally:
            room.release()

    async with one_interrupt():
        if (source.run / FOLDER).is_dir():
            await probe(config.sandbox)
        async with anyio.create_task_group() as group:
            for episode in read_episodes(source.run):
                if episode.key not in done:
                    await room.acquire()
                    group.start_soon(one, episode)


def _open_folder(source: Source, out: Path, *, resume: bool) -> None:
    """Creates the folder, or checks that it holds the same rescoring."""
    made = RescoredRun(str(source.run.resolve()), source.verifier)
    if (out / "run.json").exists():
        _check_same(out, made)
        if not resume:
            raise ConfigError(f"{out}: holds this rescoring; continue it with --resume, or choose another --out")
    else:
        manifest = msgspec.structs.replace(
            source.manifest,
            config=source.config.model_dump(mode="json"),
            config_digest=config_digest(source.config),
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            rescored=made,
        )
        opened = open_runs(source.run)[0]
        if opened.ended:  # the episodes that its stopping rule left out are not missing
            manifest = msgspec.structs.replace(manifest, wanted=opened.finished + opened.errored)
        write_json(out / "run.json", manifest)
    # Also when it is continued: it may have been killed before it had the plan.
    if not (out / PLAN).exists() and (plan := read_plan(source.run)):
        write_json(out / PLAN, plan)
    keep_suite(out, source.config)
    for name in _BESIDE:
        _copy(source.run / name, out / name)


def _check_same(out: Path, made: RescoredRun) -> None:
    found = read_manifest(out).rescored
    if found is None:
        raise ConfigError(f"{out}: holds another run; choose another --out")
    if found.run != made.run:
        raise ConfigError(f"{out}: was rescored from {found.run}, not {made.run}; choose another --out")
    if found.verifier != made.verifier:
        raise ConfigError(
            f"{out}: was begun with verifier {found.verifier[:8]}, now it is {made.verifier[:8]}; choose another --out"
        )


def _copy(folder: Path, to: Path) -> None:
    """Copies a folder as a whole or not at all. Kept workspaces, which never change, are linked."""
    if not folder.is_dir() or to.exists():
        return
    partial_copy = to.with_name(f".{to.name}.copying")
    shutil.rmtree(partial_copy, ignore_errors=True)
    copy = _link if folder.name == FOLDER else shutil.copy2
    shutil.copytree(folder, partial_copy, symlinks=True, copy_function=copy)
    partial_copy.rename(to)


def _link(source: str, to: str) -> None:
    try:
        os.link(source, to)
    except OSError:  # another file system
        shutil.copy2(source, to)
