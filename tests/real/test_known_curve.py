"""The scripted learner through the real command line: its true curve is known, and the lab measures it."""

import subprocess
import sys
from math import sqrt
from pathlib import Path

import pytest

from analysis.load import load_episodes
from tasks.expected import expected_success
from tasks.worlds import WorldSpec

pytestmark = pytest.mark.real


def test_arm_on_rises_along_its_known_curve_and_arm_off_stays_flat(tmp_path: Path) -> None:
    small = ["-c", "learning.replicates=2", "-c", "learning.worlds=10", "-c", "learning.rounds=12"]
    small += ["-c", "learning.round_size=2"]
    command = [sys.executable, "-m", "runners", "learn", "-c", "configs/learner.yaml", *small]
    subprocess.run([*command, "--out", str(tmp_path / "run"), "--quiet"], check=True)
    frame = load_episodes(tmp_path / "run")
    spec = WorldSpec()
    for arm, capture in (("on", 0.6), ("off", 0.0)):
        rows = frame[frame["arm"] == arm]
        third = rows["experience"].max() / 3
        for part in (rows[rows["experience"] < third], rows[rows["experience"] >= 2 * third]):
            expected = part["experience"].map(lambda n, c=capture: expected_success(n, spec, c))
            # Lanes share a library, so a lane is one draw: the spread is between lanes, not between episodes.
            lanes = (part["success"].astype(float) - expected).groupby(part["lane"]).mean()
            assert abs(lanes.mean()) < 4 * lanes.std() / sqrt(len(lanes)), (arm, lanes.mean())
    last = frame[frame["experience"] >= 16]
    on, off = (last[last["arm"] == arm]["success"].mean() for arm in ("on", "off"))
    assert on > off + 0.3
