"""The calibrated learner through the real command line, in worlds of every domain: what the lab measures is what must
be. Lanes are independent, so every error bar is between lanes."""

from itertools import cycle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from calibrated import LANES, exact_chance, learn, places_known, suite_of, surprise
from demonstration_mix import count, table
from scipy import stats

from hermes_lab.tasks.registry import domains

pytestmark = pytest.mark.long

DOMAINS = sorted(set(domains()) - {"open_ended"})
DRIFTS = ["data_analysis"]
"""What a drift does is a matter of worlds, not of domains: one shows it."""
FALSE_ALARM = 1e-5
"""The chance that a mean which is right is refused. There are some hundred means, so all of this file fails by chance
for one seed in a thousand. Thirds only show gross errors: Student's t over 6 lanes takes 17
standard errors, over 12 lanes 7.7."""
POOLED_FALSE_ALARM = 1e-4
"""The same of the one mean over the lanes of all domains, which is the sharp test."""


def check_thirds(frame: pd.DataFrame) -> float:
    """Every arm in every third of its tasks; the chance of the mean of the arm `on` over whole lanes."""
    third = np.minimum(3 * frame["number"] // (frame["number"].max() + 1), 2)
    for (arm, which), part in frame.groupby(["arm", third]):
        off, chance = surprise(part)
        assert chance > FALSE_ALARM, f"arm {arm}, third {which}: {off:+.3f} from what is expected"
    return surprise(frame[frame["arm"] == "on"])[1]


def mean(frame: pd.DataFrame, **where: object) -> float:
    for column, value in where.items():
        frame = frame[frame[column] == value]
    return float(frame["success"].mean())


def test_in_every_domain_the_lab_measures_the_curve_that_is_known(tmp_path: Path) -> None:
    chances, deviations = [], []
    # Uniform and Zipf in turn: how often places come up does not depend on the domain.
    for domain, (seed, frequencies) in zip(DOMAINS, cycle(enumerate(("uniform", "zipf"))), strict=False):
        # Another seed for each: with the same one the slips would be the same draws, and errors go together.
        world = (f"suite.name={domain}", f"suite.options.frequencies={frequencies}", f"suite.seed={seed}")
        frame = learn(tmp_path / domain, *world)
        chances.append(check_thirds(frame))
        deviations += list(frame[frame["arm"] == "on"].groupby("lane")["off"].mean())
        late = frame[frame["number"] >= 7]
        assert mean(late, arm="on") > mean(late, arm="off") + 0.15, (domain, frequencies)
    # With its sign, over all lanes: a small error to one side everywhere shows here.
    assert stats.ttest_1samp(deviations, 0.0).pvalue > POOLED_FALSE_ALARM, f"all lanes: {np.mean(deviations):+.3f}"
    # Fisher's chi-square knows no sign: errors of some runs to either side show here.
    assert stats.combine_pvalues(chances).pvalue > FALSE_ALARM, chances


def test_of_few_events_the_chance_is_exact() -> None:
    lanes = pd.DataFrame({"lane": [*"abcdefghijkl"] * 4, "arm": "frozen", "success": False, "expected": 0.033})
    off, chance = surprise(lanes.assign(off=-lanes["expected"]))
    assert off == pytest.approx(-0.033)
    assert chance == pytest.approx(2 * (1 - 0.033) ** 48)
    assert exact_chance(3, np.full(10, 0.3)) == pytest.approx(min(1, 2 * stats.binom.cdf(3, 10, 0.3)))
    assert exact_chance(9, np.full(10, 0.3)) == pytest.approx(2 * stats.binom.sf(8, 10, 0.3))
    assert exact_chance(1, np.zeros(4)) == 0.0
    assert exact_chance(4, np.ones(4)) == 1.0


def test_the_mix_of_demonstrations_counts_accepted_episodes_alone(tmp_path: Path) -> None:
    silent = ("suite.options.salience=symptom", "learning.worlds=1", "learning.rounds=6", "learning.arms=[on]")
    frame = learn(tmp_path / "run", *silent)
    right = int(frame["success"].sum())
    assert 0 < right < 6
    counts, accepted, refused = count(tmp_path / "run")
    assert (accepted, refused) == (right, 6 - right)
    assert counts["no skill; a rule is found out"] == 0
    assert table([tmp_path / "run"]).endswith(f"not accepted: {refused}")


def test_a_drift_inside_a_round_has_no_closed_form(tmp_path: Path) -> None:
    options = ("suite.options.drift_at=3", "learning.round_size=2", "learning.rounds=2", "learning.worlds=1")
    with pytest.raises(ValueError, match="the drift at 3 is inside a round of 2"):
        learn(tmp_path / "run", *options, "learning.arms=[on]")


@pytest.mark.parametrize("domain", DRIFTS)
@pytest.mark.parametrize("drift", ["redraw", "invert"])
def test_a_drift_drops_the_curve_as_far_as_it_must_and_it_recovers(tmp_path: Path, domain: str, drift: str) -> None:
    world = (f"suite.name={domain}", "suite.options.drift_at=14", f"suite.options.drift={drift}")
    frame = learn(tmp_path / "run", *world, "learning.rounds=28", "learning.arms=[on]", "suite.seed=1")
    check_thirds(frame)
    before, after = frame[frame["number"].between(10, 13)], frame[frame["number"].between(14, 16)]
    late = frame[frame["number"] >= 24]
    for part in (before, after, late):
        assert surprise(part)[1] > FALSE_ALARM
    assert mean(after) < mean(before) - 0.25
    assert mean(late) > mean(after) + 0.25


@pytest.mark.parametrize("domain", DRIFTS)
def test_a_library_of_the_world_as_it_was_harms_in_its_decoy(tmp_path: Path, domain: str) -> None:
    world = (f"suite.name={domain}", "learning.worlds=1", "model.options.capture=1.0")
    learn(tmp_path / "twin", *world, "learning.rounds=24", "learning.arms=[on]")
    library = tmp_path / "twin" / "lanes" / "on-r0-w0" / "home" / "skills"
    decoy = (*world, "suite.options.decoy=true", f"skills.library={library}", "suite.seed=1")
    frame = learn(tmp_path / "decoy", *decoy, f"learning.replicates={LANES}", "learning.arms=[off, on, frozen]")
    assert places_known(*suite_of(tmp_path / "decoy")) == [0, 1, 2, 3]
    check_thirds(frame)
    assert mean(frame, arm="off") > mean(frame, arm="frozen") + 0.3, "what was true there is wrong here"
    late = frame[frame["number"] >= 7]
    assert mean(late, arm="on") > mean(late, arm="frozen") + 0.3, "and it is unlearnt"
