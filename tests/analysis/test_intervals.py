import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from hermes_lab.analysis.stats.intervals import Interval, Rate, paired_difference, wilson

COUNT = st.integers(0, 60)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_agrees_with_scipy(counts: tuple[int, int]) -> None:
    successes, trials = counts
    expected = binomtest(successes, trials).proportion_ci(method="wilson")
    assert wilson(successes, trials) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_nothing_tried_says_nothing() -> None:
    assert wilson(0, 0) == Interval(0.0, 1.0)


def test_rate_reads_as_count_and_interval() -> None:
    assert str(Rate(0, 40)) == "0/40 (0-9 %)"
    assert str(Rate(39, 40)) == "39/40 (87-100 %)"


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [((36, 2, 12, 0), (0.0569, 0.3404)), ((20, 2, 12, 16), (0.0562, 0.3292))],
    ids=["negative association", "positive association"],
)
def test_paired_difference_agrees_with_published_examples(
    pairs: tuple[int, int, int, int], expected: tuple[float, float]
) -> None:
    """Newcombe 1998, method 10."""
    assert paired_difference(*pairs) == pytest.approx(expected, abs=1e-4)


@given(COUNT, COUNT, COUNT, COUNT)
def test_paired_difference_holds_the_estimate_and_mirrors(both: int, lost: int, gained: int, neither: int) -> None:
    pairs = both + lost + gained + neither
    if pairs == 0:
        return
    low, high = paired_difference(both, lost, gained, neither)
    assert -1 <= low <= (gained - lost) / pairs + 1e-12
    assert (gained - lost) / pairs - 1e-12 <= high <= 1
    assert paired_difference(both, gained, lost, neither) == pytest.approx((-high, -low))
