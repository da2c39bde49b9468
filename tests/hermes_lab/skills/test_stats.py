"""Statistics of skills: what is counted, and which rule asks for a rewrite."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from hermes_lab.config.schema import SkillsConfig
from hermes_lab.skills.learning.stats import RECENT, SkillStats, Use, needs_rewrite, posterior, stats

CONFIG = SkillsConfig()
ALPHA = CONFIG.ema_alpha
HORIZON = 100
RUNS = 4000


def of(*outcomes: bool | None) -> SkillStats:
    uses = [Use("a", outcome, f"2026-01-01T00:{n // 60:02}:{n % 60:02}") for n, outcome in enumerate(outcomes)]
    return stats(uses, alpha=ALPHA)["a"]


def test_uses_are_counted_by_skill_and_those_without_a_verdict_are_not_judged() -> None:
    uses = [Use("b", True, "2026-01-02"), Use("a", None, "2026-01-03"), Use("b", False, "2026-01-01")]
    found = stats(uses, alpha=0.1)
    assert list(found) == ["a", "b"]
    a, b = found["a"], found["b"]
    assert (a.uses, a.judged, a.solved, a.ema, a.last_used) == (1, 0, 0, None, "2026-01-03")
    assert (b.uses, b.judged, b.solved, b.ema, b.last_used) == (2, 2, 1, 0.9, "2026-01-02")


def test_the_moving_average_begins_at_the_first_outcome_and_moves_by_alpha() -> None:
    assert of(False, True, True).ema == pytest.approx(0.1 + 0.9 * 0.1)
    assert of(None, True, None, False).ema == pytest.approx(0.9)


@given(judged=st.integers(0, RECENT), data=st.data())
def test_the_posterior_is_the_beta_of_a_uniform_prior(judged: int, data: st.DataObject) -> None:
    solved = data.draw(st.integers(0, judged))
    exact = beta(solved + 1, judged - solved + 1)
    assert posterior(solved, judged) == pytest.approx((exact.mean(), exact.ppf(0.025), exact.ppf(0.975)))


def test_the_posterior_forgets_all_but_the_newest_outcomes() -> None:
    old_glory = of(*[True] * 200, *[False] * RECENT)
    assert (old_glory.judged, old_glory.solved) == (200 + RECENT, 200)
    assert (old_glory.mean, old_glory.high) == (posterior(0, RECENT)[0], posterior(0, RECENT)[2])


@pytest.mark.parametrize(
    ("outcomes", "fails"),
    [
        ([False] * 9, False),  # too few to judge
        ([False] * 10, True),
        ([True] + [False] * 9, True),
        ([True] * 2 + [False] * 8, False),  # may yet be 52 %
        ([None] * 50 + [False] * 9, False),
        ([True] * 9 + [False] * 7, False),  # the moving average says .43, the interval .77
    ],
)
def test_a_skill_is_to_be_rewritten_when_it_surely_fails(outcomes: list[bool | None], fails: bool) -> None:
    assert needs_rewrite(of(*outcomes), CONFIG) is fails


def moving_average_fails(found: SkillStats) -> bool:
    """The other rule: the moving average under the same rate."""
    return found.judged >= CONFIG.rewrite_uses and found.ema is not None and found.ema < CONFIG.rewrite_below


def verdicts(outcomes_RT: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether either rule, the posterior's and the moving average's, fails a skill after each of T uses in R runs."""
    runs, uses = outcomes_RT.shape
    # The library's own verdict for every possible count of the newest outcomes.
    table = np.array([[needs_rewrite(of(*[True] * s, *[False] * (m - s)), CONFIG) for s in range(RECENT + 1)]
                      if m else [False] * (RECENT + 1) for m in range(RECENT + 1)])  # fmt: skip
    sums_RT = np.concatenate([np.zeros((runs, 1), int), outcomes_RT.cumsum(axis=1)], axis=1)
    n = np.arange(1, uses + 1)
    newest = np.minimum(n, RECENT)
    posterior_RT = table[newest, sums_RT[:, n] - sums_RT[:, n - newest]]
    ema_RT = np.empty(outcomes_RT.shape)
    ema = ema_RT[:, 0] = outcomes_RT[:, 0].astype(float)
    for use in range(1, uses):
        ema = ema + ALPHA * (outcomes_RT[:, use] - ema)
        ema_RT[:, use] = ema
    return posterior_RT, (ema_RT < CONFIG.rewrite_below) & (n >= CONFIG.rewrite_uses)


def simulate() -> Iterator[tuple[float, ...]]:
    """Rows of the table in docs/learning.md: success rate; either rule's share of skills failed by use 10, 30, 100."""
    draws = np.random.default_rng(0)
    for rate in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9):
        outcomes_RT = draws.random((RUNS, HORIZON)) < rate
        failed = [rule.cumsum(axis=1)[:, [9, 29, 99]] > 0 for rule in verdicts(outcomes_RT)]
        yield (rate, *(float(share) for each in failed for share in each.mean(axis=0)))


def test_the_simulation_judges_as_the_library_does() -> None:
    outcomes_RT = np.random.default_rng(1).random((20, 60)) < 0.4
    by_posterior, by_ema = verdicts(outcomes_RT)
    for run, outcomes in enumerate(outcomes_RT):
        for use in (5, 9, 10, 20, 45, 60):
            found = of(*map(bool, outcomes[:use]))
            assert by_posterior[run, use - 1] == needs_rewrite(found, CONFIG)
            assert by_ema[run, use - 1] == moving_average_fails(found)


def test_the_table_in_the_documentation_is_what_the_simulation_gives() -> None:
    text = (Path(__file__).parents[3] / "docs" / "learning.md").read_text()
    written = [[float(cell) for cell in re.findall(r"[\d.]+", line)] for line in re.findall(r"^\| 0\.\d.*", text, re.M)]
    simulated = list(simulate())
    assert len(written) == len(simulated)
    for row, found in zip(written, simulated, strict=True):
        assert row == pytest.approx(found, abs=0.006)


def test_the_posterior_rarely_fails_a_good_skill_where_the_moving_average_often_does() -> None:
    rows = {rate: shares for rate, *shares in simulate()}
    assert rows[0.7][2] < 0.01 < 0.5 < rows[0.7][5]
    assert rows[0.2][1] > 0.95


def test_a_skill_that_stops_working_is_found_within_the_window() -> None:
    outcomes_RT = np.random.default_rng(0).random((RUNS, 200)) < np.r_[np.full(100, 0.9), np.full(100, 0.1)]
    by_posterior, _ = verdicts(outcomes_RT)
    assert np.median(by_posterior[:, 100:].argmax(axis=1) + 1) == 28
    assert by_posterior[:, :100].mean() < 1e-3
