"""Synthetic runs: real records, written by the real log."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import numpy as np
import pandas as pd
import pytest

from analysis.load import load_episodes
from hermes_lab.records import EpisodeLog, write_json
from hermes_lab.types import Episode, ModelIdentity, TaskInfo, Trajectory, Usage, Verdict

WriteRun = Callable[..., Path]
SimulateRun = Callable[..., pd.DataFrame]


def make_episode(
    success: bool | None, *, task: int = 0, lane: str = "main", first_call_ok: bool = True, **changes: Any
) -> Episode:
    """An episode that finished; `success` None is one that nothing judged."""
    verdicts = () if success is None else (Verdict(float(success), success),)
    episode = Episode(
        suite="demo",
        task_id=f"t{task}",
        lane=lane,
        round=task,
        sample=0,
        experience=task,
        place=0,
        status="ok",
        task=TaskInfo(domain="code", split="train"),
        model=ModelIdentity("scripted", "model-a"),
        config_digest="c0",
        started_at="2026-01-01T00:00:00Z",
        seconds=2.0,
        score=None if success is None else float(success),
        success=success,
        verdicts=verdicts,
        trajectory=Trajectory((), (), "native", "answered", usage=Usage(10, 5)),
        metrics={"api_calls": 3, "tool_calls": 2, "tool_errors": 1, "first_call_ok": float(first_call_ok)},
    )
    return msgspec.structs.replace(episode, **changes)


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    """Writes episodes to a run folder."""

    def write(
        episodes: Iterable[Episode], folder: str = "run", wanted: int = 100, digest: str = "", **suite: Any
    ) -> Path:
        async def append() -> None:
            log = EpisodeLog(run)
            # Beside each other, so that they share their fsyncs.
            async with anyio.create_task_group() as group:
                for episode in episodes:
                    group.start_soon(log.append, episode)
            log.close()

        run = tmp_path / folder
        write_json(
            run / "run.json",
            {"v": 1, "wanted": wanted, "config": {"suite": suite}, "tasks_digest": digest},
        )
        anyio.run(append)
        return run

    return write


@pytest.fixture
def simulate_run(write_run: WriteRun) -> SimulateRun:
    """A learning run with known curves: `arms` gives (initial, asymptote, rate) of each."""

    def simulate(
        arms: dict[str, tuple[float, float, float]], replicates: int, tasks: int = 100, seed: int = 0
    ) -> pd.DataFrame:
        draw = np.random.default_rng(seed)
        episodes = [
            make_episode(
                bool(draw.random() < asymptote - (asymptote - initial) * np.exp(-rate * n)),
                task=n,
                lane=f"{arm}-r{replicate}-w0",
            )
            for arm, (initial, asymptote, rate) in arms.items()
            for replicate in range(replicates)
            for n in range(tasks)
        ]
        return load_episodes(write_run(episodes))

    return simulate
