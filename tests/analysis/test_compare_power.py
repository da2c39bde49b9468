import json

import numpy as np
import pytest
from scipy.stats import binom, norm
from typer.testing import CliRunner

from hermes_lab.analysis.stats.paired import mcnemar, sign_flip
from hermes_lab.analysis.stats.power import Lanes, detectable, pair_rates, pairs_for, power_of_pairs, sentence
from hermes_lab.errors import ConfigError
from hermes_lab.runners.cli import app


def brute_force(pairs: int, lost: float, gained: float) -> float:
    """The power, by going through every outcome."""
    power = 0.0
    for changed in range(pairs + 1):
        for wins in range(changed + 1):
            if mcnemar(changed - wins, wins) < 0.05:
                power += binom.pmf(changed, pairs, lost + gained) * binom.pmf(wins, changed, gained / (lost + gained))
    return power


@pytest.mark.parametrize(("pairs", "baseline", "effect", "rho"), [(12, 0.3, 0.4, 0.0), (25, 0.6, 0.16, 0.2)])
def test_power_is_the_sum_over_all_outcomes(pairs: int, baseline: float, effect: float, rho: float) -> None:
    lost, gained = pair_rates(baseline, effect, rho)
    assert power_of_pairs(pairs, baseline, effect, rho) == pytest.approx(brute_force(pairs, lost, gained), abs=1e-9)


@pytest.mark.parametrize("rho", [0.0, 0.2, 0.4])
@pytest.mark.parametrize("pairs", [50, 100, 200])
def test_power_is_close_to_the_asymptotic_one(pairs: int, rho: float) -> None:
    """Connor 1987, Biometrics 43:207, without a correction for continuity."""
    lost, gained = pair_rates(0.6, 0.16, rho)
    changed = lost + gained
    distance = 0.16 * np.sqrt(pairs) - norm.ppf(0.975) * np.sqrt(changed)
    known = norm.cdf(distance / np.sqrt(changed - 0.16**2))
    assert power_of_pairs(pairs, 0.6, 0.16, rho) == pytest.approx(known, abs=0.015)


def test_power_is_how_often_simulated_pairs_are_significant() -> None:
    lost, gained = pair_rates(0.6, 0.16, 0.2)
    draw = np.random.default_rng(0)
    changed = draw.multinomial(100, [lost, gained, 1 - lost - gained], size=4000)
    cache = {counts: mcnemar(*counts) < 0.05 for counts in {(int(a), int(b)) for a, b, _ in changed}}
    found = np.mean([cache[int(a), int(b)] for a, b, _ in changed])
    assert power_of_pairs(100, 0.6, 0.16) == pytest.approx(found, abs=0.022)


@pytest.mark.parametrize("correlation", [0.0, 0.1])
@pytest.mark.parametrize("lanes", [6, 8, 16])
def test_power_over_lanes_is_how_often_flipped_signs_are_significant(lanes: int, correlation: float) -> None:
    """Changes of a lane are alike: two pairs copy their lane's change with the probability `correlation`."""
    lost, gained = pair_rates(0.5, 0.2, 0.2)
    draw = np.random.default_rng(1)
    shape = (400, lanes, 10)
    chances = [lost, 1 - lost - gained, gained]
    own = draw.choice([-1, 0, 1], p=chances, size=shape)
    lane = draw.choice([-1, 0, 1], p=chances, size=(400, lanes, 1))
    changes = np.where(draw.random(shape) < np.sqrt(correlation), lane, own)
    unit_P = np.repeat(np.arange(lanes), 10)
    found = np.mean([sign_flip(change.ravel(), unit_P) < 0.05 for change in changes])
    computed = power_of_pairs(10 * lanes, 0.5, 0.2, lanes=Lanes(lanes, correlation))
    assert computed == pytest.approx(found, abs=0.07)


def test_rates_keep_to_the_baseline_the_effect_and_the_correlation() -> None:
    lost, gained = pair_rates(0.6, 0.16, 0.2)
    both = 0.6 - lost
    assert gained - lost == pytest.approx(0.16)
    assert (both - 0.6 * 0.76) / np.sqrt(0.6 * 0.4 * 0.76 * 0.24) == pytest.approx(0.2)


def test_correlation_that_the_rates_do_not_allow_is_moved_to_the_nearest() -> None:
    lost, gained = pair_rates(0.6, 0.39, 1.0)
    assert (lost, gained) == (0.0, pytest.approx(0.39))


@pytest.mark.parametrize("lanes", [None, Lanes(20, 0.05)])
def test_pairs_for_is_the_fewest_that_are_enough(lanes: Lanes | None) -> None:
    pairs = pairs_for(0.8, 0.6, 0.16, lanes=lanes)
    assert power_of_pairs(pairs, 0.6, 0.16, lanes=lanes) >= 0.8 > power_of_pairs(pairs - 1, 0.6, 0.16, lanes=lanes)


def test_more_pairs_in_the_same_few_lanes_do_not_buy_what_lanes_would() -> None:
    with pytest.raises(ConfigError, match=r"no number of pairs detects \+10 points .* in 8 lanes; plan more lanes"):
        pairs_for(0.8, 0.6, 0.1, lanes=Lanes(8, 0.3))


@pytest.mark.parametrize("direction", [1, -1])
@pytest.mark.parametrize("lanes", [None, Lanes(20)])
def test_detectable_effect_has_the_power_it_is_named_for(direction: int, lanes: Lanes | None) -> None:
    effect = detectable(100, 0.6, 0.8, direction=direction, lanes=lanes)
    assert effect is not None
    assert effect * direction > 0
    assert power_of_pairs(100, 0.6, effect, lanes=lanes) == pytest.approx(0.8, abs=0.002)


def test_four_pairs_detect_nothing() -> None:
    """All four changed: p = 1/16; all five: p = 1/32."""
    assert detectable(4, 0.0) is None
    assert power_of_pairs(4, 0.0, 1.0) == 0.0
    assert power_of_pairs(5, 0.0, 1.0) == 1.0


@pytest.mark.parametrize(("baseline", "effect", "rho"), [(0.9, 0.2, 0.2), (-0.1, 0.2, 0.2), (0.5, 0.1, 1.5)])
def test_rates_that_are_none_are_refused(baseline: float, effect: float, rho: float) -> None:
    with pytest.raises(ConfigError):
        power_of_pairs(10, baseline, effect, rho)


def test_sentence_says_what_will_be_detected() -> None:
    assert sentence(100, 0.6, 0.16) == ("100 pairs detect +16 points (60 % -> 76 %) with power 0.77")
    assert "100 pairs in 20 lanes detect" in sentence(100, 0.6, 0.16, lanes=Lanes(20))


def test_command_prints_the_sentence_the_pairs_and_the_curve() -> None:
    done = CliRunner().invoke(app, ["power", "--pairs", "100"])
    lines = done.stdout.splitlines()
    assert lines[0] == sentence(100, 0.6, 0.16)
    assert lines[1].startswith("power 0.8 needs 108 pairs; smallest effect that 100 pairs detect with this power: +17")
    assert any(line.split()[:2] == ["200", "0.97"] for line in lines)
    assert "correlation within a pair 0.2" in lines[-1]


def test_command_without_pairs_plans_for_the_power() -> None:
    done = CliRunner().invoke(app, ["power", "--effect", "-0.1", "--power", "0.9", "--json"])
    report = json.loads(done.stdout)
    assert report["pairs"] == report["pairs_for"]["pairs"]
    assert report["power"] >= 0.9
    assert report["detectable"]["effect"] == pytest.approx(-0.1, abs=0.002)


def test_pairs_are_in_no_more_lanes_than_there_are_of_them() -> None:
    """One pair in each lane is McNemar's test, and three pairs can show nothing."""
    assert power_of_pairs(3, 0.1, 0.85, lanes=Lanes(20)) == 0.0
    assert power_of_pairs(15, 0.4, 0.4, lanes=Lanes(20)) == power_of_pairs(15, 0.4, 0.4)
    assert sentence(3, 0.1, 0.85, lanes=Lanes(20)).startswith("3 pairs in 3 lanes detect")


@pytest.mark.parametrize("lanes", [None, Lanes(8), Lanes(20, 0.1)])
def test_stricter_level_takes_a_larger_effect(lanes: Lanes | None) -> None:
    plain, strict = (detectable(120, 0.5, lanes=lanes, alpha=alpha) for alpha in (0.05, 0.05 / 3))
    assert plain is not None
    assert strict is not None
    assert strict > plain + 0.02
