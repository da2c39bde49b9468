import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from hermes_lab.analysis.stats.intervals import Interval, Rate, wilson

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
