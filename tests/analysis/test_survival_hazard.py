import math

import numpy as np
import pytest
from scipy.optimize import check_grad

from hermes_lab.analysis.audit.published import REFLEXION_CUMULATIVE
from hermes_lab.analysis.survival.cured import Counts, all_learnable, log_likelihood, maximize, score
from hermes_lab.analysis.survival.hazard import HazardFit, fit_cured_hazard
from hermes_lab.errors import ConfigError


def refit(name: str, draws: int = 0) -> HazardFit:
    return fit_cured_hazard(np.diff(REFLEXION_CUMULATIVE[name]), 50, draws=draws)


def simulate(learnable: float, hazard: float, tasks: int, trials: int, seed: int) -> list[int]:
    draw = np.random.default_rng(seed)
    solved_at = np.where(draw.random(tasks) < learnable, draw.geometric(hazard, tasks), trials + 1)
    return np.bincount(solved_at, minlength=trials + 1)[1 : trials + 1].tolist()


def test_reflexion_without_reflection_leaves_two_in_three_unsolved_for_good() -> None:
    fit = refit("base")
    assert fit.learnable.value == pytest.approx(0.345, abs=5e-4)
    assert fit.hazard.value == pytest.approx(0.508, abs=5e-4)
    assert -fit.log_likelihood == pytest.approx(53.962, abs=5e-4)
    assert fit.identified
    assert fit.sentence() == "learnable 0.34 (0.22-0.49), hazard 0.51 (0.29-0.69), over 50 tasks"


def test_reflexion_solves_everything_in_the_end() -> None:
    fit = refit("reflexion")
    assert fit.learnable.value == 1.0
    assert fit.hazard.value == pytest.approx(0.25, abs=1e-6)
    assert -fit.log_likelihood == pytest.approx(112.467, abs=5e-4)
    assert fit.rival == pytest.approx(0.25)
    assert fit.reason == "a model with all tasks learnable fits as well (AICc difference -2.2)"
    assert fit.learnable.wald is None
    assert fit.learnable.profile.high == 1.0


def test_reflexion_at_the_trials_of_the_base_run_does_not_show_that_all_is_learnable() -> None:
    fit = fit_cured_hazard(np.diff(REFLEXION_CUMULATIVE["reflexion"][:7]), 50, draws=0)
    assert fit.learnable.value == pytest.approx(0.842, abs=5e-4)
    assert fit.learnable.profile.low == pytest.approx(0.69, abs=5e-3)
    assert fit.learnable.profile.high == 1.0


def test_gradient_is_the_slope_of_the_likelihood() -> None:
    counts = Counts(np.array([10.0, 3, 1, 2, 1, 0]), np.array([0.0, 2, 0, 1, 0, 30]))
    for point in ([0.3, 0.5], [0.9, 0.05], [0.99, 0.9]):
        error = check_grad(lambda p: log_likelihood(p, counts), lambda p: score(p, counts), np.array(point))
        assert error < 1e-4 * np.abs(score(np.array(point), counts)).max()


def test_interior_maximum_is_the_solved_share_over_what_the_trials_could_see() -> None:
    """Without early leavers the likelihood parts in two: a binomial, and a geometric cut off at the last trial."""
    solved, tasks = np.array(simulate(0.6, 0.4, 400, 8, seed=1)), 400
    best = maximize(Counts(solved.astype(float), np.r_[np.zeros(7), tasks - solved.sum()]))
    seen = 1 - (1 - best[1]) ** 8
    assert best[0] == pytest.approx(solved.sum() / (tasks * seen), rel=1e-5)
    mean_trial = 1 / best[1] - 8 * (1 - best[1]) ** 8 / seen
    assert mean_trial == pytest.approx(solved @ np.arange(1, 9) / solved.sum(), rel=1e-5)


def test_no_grid_point_is_more_likely() -> None:
    counts = Counts(np.array([10.0, 3, 1, 2, 1, 0]), np.array([0.0, 0, 0, 0, 0, 33]))
    best = log_likelihood(maximize(counts), counts)
    grid = np.linspace(0.01, 0.99, 99)
    assert best >= max(log_likelihood(np.array([a, h]), counts) for a in grid for h in grid)


def test_where_all_are_learnable_the_hazard_is_solved_per_trial() -> None:
    # 4 solved at trial 1, 2 at trial 2, 2 left after trial 2: 4 + 4 + 4 trials were made.
    assert all_learnable(Counts(np.array([4.0, 2]), np.array([0.0, 2]))) == pytest.approx(6 / 12)


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    fits = [fit_cured_hazard(simulate(0.5, 0.4, 120, 8, seed), 120, draws=0) for seed in range(30)]
    for kind in ("wald", "profile"):
        for name, truth in (("learnable", 0.5), ("hazard", 0.4)):
            intervals = [getattr(getattr(fit, name), kind) for fit in fits]
            # 95 % of 30 is 28.5; fewer than 25 has probability 0.003.
            assert sum(low <= truth <= high for low, high in intervals) >= 25
    assert np.median([fit.learnable.value for fit in fits]) == pytest.approx(0.5, abs=0.02)


def test_bootstrap_and_profile_agree_where_there_is_much_to_see() -> None:
    fit = fit_cured_hazard(simulate(0.5, 0.4, 400, 8, seed=3), 400, draws=60)
    for parameter in (fit.learnable, fit.hazard):
        assert parameter.bootstrap is not None
        assert parameter.bootstrap.low == pytest.approx(parameter.profile.low, abs=0.03)
        assert parameter.bootstrap.high == pytest.approx(parameter.profile.high, abs=0.03)


def test_same_seed_gives_the_same_intervals() -> None:
    assert refit("base", draws=5).learnable == refit("base", draws=5).learnable


def test_too_few_trials_cannot_tell_slow_from_never() -> None:
    fit = fit_cured_hazard([3, 3, 3, 3, 3], 100, draws=0)
    assert not fit.identified
    assert "all tasks learnable fits as well" in fit.reason
    assert fit.learnable.profile.high == 1.0


def test_few_solved_tasks_are_given_as_the_reason() -> None:
    assert fit_cured_hazard([5, 1, 0, 0], 200, draws=0).reason == "fewer than 10 solved tasks (6)"


def test_trials_that_see_little_of_what_is_learnable_are_given_as_the_reason() -> None:
    fit = fit_cured_hazard([600, 500, 410], 10_000, draws=0)
    assert fit.reason.startswith("the trials cover ")


def test_those_that_left_early_are_not_taken_for_failures() -> None:
    """Half of the tasks errored after the first trial: dropping them as failures would halve what is learnable."""
    solved = np.array(simulate(0.8, 0.5, 1000, 6, seed=2), dtype=float)
    thinned = np.r_[solved[0], solved[1:] / 2].round()
    left = np.r_[(1000 - solved[0]) / 2, np.zeros(5)].round()
    honest = fit_cured_hazard(thinned, 1000, left, draws=0)
    naive = fit_cured_hazard(thinned, 1000, draws=0)
    assert honest.learnable.value == pytest.approx(0.8, abs=0.03)
    assert naive.learnable.value < 0.7


def test_prediction_follows_the_counts() -> None:
    fit = refit("base")
    assert 50 * fit.predict([0, 1, 6]) == pytest.approx([0, 10, 17], abs=1.5)
    assert fit.to_dict()["parameters"]["learnable"]["value"] == fit.learnable.value


@pytest.mark.parametrize(
    ("solved", "at_risk", "left", "said"),
    [
        ([1, -1], 10, None, "solved_per_trial"),
        ([], 10, None, "solved_per_trial"),
        ([math.nan, 3], 50, None, "solved_per_trial: give the newly solved tasks"),
        ([math.inf, 3], 50, None, "non-negative integers"),
        ([2.5, 3], 50, None, "non-negative integers"),
        ([5, 1], 10, [math.nan, 0], "left_per_trial"),
        ([5, 6], 10, None, "11 outcomes for only 10 tasks"),
        ([0], 0, None, "0 tasks"),
        ([5, 1], 10, [1], "give 2 non-negative integers"),
    ],
)
def test_counts_that_cannot_be_are_refused(solved: list[int], at_risk: int, left: list[int] | None, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        fit_cured_hazard(solved, at_risk, left)


def test_extreme_counts_have_a_fit() -> None:
    assert fit_cured_hazard([20, 0, 0], 20, draws=5).hazard.value > 0.999
    nothing = fit_cured_hazard([0, 0, 0], 20, draws=5)
    assert not nothing.identified
    assert math.isfinite(nothing.log_likelihood)
