"""The mean over trainings and worlds: against variance components by hand, and its limits."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from hermes_lab.analysis.stats.crossed import crossed_mean

TABLES = st.tuples(st.integers(2, 4), st.integers(2, 6)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.integers(-6, 6).map(lambda n: n / 3))
)


def test_variance_components_are_those_of_a_worked_table() -> None:
    # Row means 2, 4, 9 and column means 3, 7; the residuals are +-1, +-1, 0 around them.
    table = np.array([[1.0, 3.0], [2.0, 6.0], [6.0, 12.0]])
    found = crossed_mean(table)
    of_rows, of_columns, of_residual = 26.0, 24.0, 2.0  # sums of squares 52, 24 and 4
    assert found.mean == 5.0
    assert found.between_rows == pytest.approx(math.sqrt((of_rows - of_residual) / 2))
    assert found.between_columns == pytest.approx(math.sqrt((of_columns - of_residual) / 3))
    square = of_rows + of_columns - of_residual
    freedom = square**2 / (of_rows**2 / 2 + of_columns**2 / 1 + of_residual**2 / 2)
    error = math.sqrt(square / 6)
    assert found.interval == pytest.approx(stats.t.interval(0.95, freedom, 5.0, error))
    assert found.p_value == pytest.approx(2 * stats.t.sf(5.0 / error, freedom))


def test_equal_trainings_leave_the_interval_over_worlds() -> None:
    worlds = np.array([0.0, 1.0, 0.5, 1.0, 0.0, 0.5])
    found = crossed_mean(np.tile(worlds, (3, 1)))
    assert found.between_rows == 0.0
    assert found.interval == pytest.approx(stats.t.interval(0.95, 5, worlds.mean(), stats.sem(worlds)))


def test_trainings_that_differ_widen_it() -> None:
    worlds = np.array([0.0, 1.0, 0.5, 1.0, 0.0, 0.5])
    alike = crossed_mean(np.tile(worlds, (3, 1))).interval
    apart = crossed_mean(worlds + np.array([[-0.3], [0.0], [0.3]])).interval
    assert apart.width > 1.2 * alike.width


@given(TABLES)
def test_rows_and_columns_are_treated_alike(table: np.ndarray) -> None:
    one, other = crossed_mean(table), crossed_mean(table.T)
    assert tuple(one.interval) == pytest.approx(tuple(other.interval))
    assert (one.between_rows, one.between_columns) == pytest.approx(
        (other.between_columns, other.between_rows), abs=1e-6
    )


@given(TABLES, st.integers(-3, 3))
def test_a_constant_shifts_it(table: np.ndarray, by: int) -> None:
    here, there = crossed_mean(table), crossed_mean(table + by)
    assert there.mean == pytest.approx(here.mean + by)
    assert there.between_rows == pytest.approx(here.between_rows, abs=1e-6)


def test_a_table_that_never_varies_says_nothing_about_others() -> None:
    assert crossed_mean(np.full((3, 4), 0.5))[1:3] == ((-math.inf, math.inf), 1.0)


@pytest.mark.parametrize("table", [np.zeros((1, 5)), np.zeros((5, 1)), np.zeros(5), np.array([[1.0, np.nan], [0, 1]])])
def test_other_tables_are_refused(table: np.ndarray) -> None:
    with pytest.raises(ValueError, match="at least 2 rows"):
        crossed_mean(table)
