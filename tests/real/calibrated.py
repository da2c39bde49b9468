"""Runs of the calibrated learner, held against what they are expected to be."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

import hermes_lab
from hermes_lab.analysis.data.load import load_episodes
from hermes_lab.config.schema import RunConfig
from hermes_lab.manifest import read_manifest
from hermes_lab.skills.library import load_snapshot
from hermes_lab.tasks import load_suite
from hermes_lab.tasks.expected import expected_success
from hermes_lab.tasks.suite import WorldSuite

CALIBRATION = "configs/calibration.yaml"
LANES = int(os.environ.get("SIMULATIONS", "6"))
"""Lanes of each arm, unless a test gives another number. `make simulations` has 12."""


def learn(run: Path, *overrides: str) -> pd.DataFrame:
    """What an experiment measured."""
    hermes_lab.experiment(CALIBRATION, f"learning.worlds={LANES}", *overrides, out=run, progress=False)
    return measured(run)


def suite_of(run: Path) -> tuple[RunConfig, WorldSuite]:
    """The configuration of a run, and its suite."""
    config = RunConfig.model_validate(read_manifest(run).config)
    suite = load_suite(config.suite)
    assert isinstance(suite, WorldSuite)
    return config, suite


def measured(run: Path) -> pd.DataFrame:
    """The episodes of a run: `number` of the task, what success was `expected`, and how far it is `off` that.

    Raises `ValueError` for a drift inside a round: of what is written about a place in one round the first counts,
    which may be older than the drift, and the closed form does not know of that.
    """
    config, suite = suite_of(run)
    if suite.spec.drift_at % config.learning.round_size:
        raise ValueError(f"{run}: the drift at {suite.spec.drift_at} is inside a round of {config.learning.round_size}")
    capture, slip = config.model.options.get("capture", 1.0), config.model.options.get("slip", 0.0)
    known = places_known(config, suite)
    frame = load_episodes(run)
    assert frame["success"].notna().all(), frame["error_kind"].unique()
    frame["number"] = frame["experience"] + frame["place"]
    frame["expected"] = [
        expected_success(
            row.experience,
            suite.spec,
            capture if row.arm == "on" else 0.0,
            slip,
            number=row.number,
            known=known if row.arm != "off" else (),
        )
        for row in frame.itertuples()
    ]
    return frame.assign(off=frame["success"].astype(float) - frame["expected"])


def places_known(config: RunConfig, suite: WorldSuite) -> list[int]:
    """The places of world 0 about which the library tells that a run begins with: one library fits one world."""
    if not config.skills.library:
        return []
    assert config.learning.worlds == 1
    names = load_snapshot(Path(config.skills.library)).skills
    sites = suite.sites(split=config.suite.split, world=0)
    return [number for number, site in enumerate(sites) if site.skill_name in names]


def surprise(part: pd.DataFrame) -> tuple[float, float]:
    """How far the mean is off, and how unlikely that is, two-sided: Student's t over lanes. Where nothing is learnt
    (arms `off` and `frozen`), and where all lanes are off alike, exactly: there may be too few events for a spread."""
    lanes = part.groupby("lane")["off"].mean()
    if "on" not in set(part["arm"]) or np.ptp(lanes) < 1e-12:
        return float(lanes.mean()), exact_chance(int(part["success"].sum()), part["expected"].to_numpy())
    return float(lanes.mean()), float(stats.ttest_1samp(lanes, 0.0).pvalue)


def exact_chance(successes: int, expected: "np.ndarray[Any, np.dtype[np.float64]]") -> float:
    """Twice the smaller tail of so many successes in independent episodes of these chances (Poisson-binomial)."""
    law = np.ones(1)
    for chance in expected:
        law = np.convolve(law, (1.0 - chance, chance))
    return min(1.0, 2 * float(min(law[: successes + 1].sum(), law[successes:].sum())))
