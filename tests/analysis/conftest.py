"""Synthetic runs: real records, written by the real log."""

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fakes.episodes import write_run as write_log
from msgspec.structs import replace
from synthetic_episodes import STARTED_AT, WriteRun, make_episode

from hermes_lab.analysis.data.load import load_episodes
from hermes_lab.config.schema import RunConfig
from hermes_lab.manifest import RunManifest
from hermes_lab.records import write_json
from hermes_lab.types import Episode

SimulateRun = Callable[..., pd.DataFrame]


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    """Writes episodes to a run folder. No two runs start at the same time: they would be copies."""
    runs = count(1)

    def write(
        episodes: Iterable[Episode],
        folder: str = "run",
        wanted: int = 100,
        digest: str = "",
        command: str = "learn",
        config: Mapping[str, Any] = MappingProxyType({}),
        version: str = "",
        prompts: str = "",
        **suite: Any,
    ) -> Path:
        run = tmp_path / folder
        whole = RunConfig.model_validate(config).model_dump(mode="json")
        write_json(
            run / "run.json",
            RunManifest(
                command=command,
                config=whole | {"suite": whole["suite"] | suite},
                config_digest="",
                tasks_digest=digest,
                wanted=wanted,
                created_at="",
                versions={k: v for k, v in {"hermes-lab": version, "prompts": prompts}.items() if v},
            ),
        )
        usual, own = STARTED_AT, STARTED_AT.replace("Z", f".{next(runs):06}Z")
        return write_log(run, *(replace(e, started_at=own) if e.started_at == usual else e for e in episodes))

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
