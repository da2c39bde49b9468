"""The mean of a table of trainings and worlds, both random: an interval for further trainings in further worlds."""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hermes_lab.analysis.stats.intervals import Interval

FloatArray = npt.NDArray[np.float64]
_ROUNDING = 1e-9
"""Mean squares that differ by a smaller share are equal up to rounding."""


class CrossedMean(NamedTuple):
    """The mean of an A x W table, its 95 % interval and p-value (two-sided, of a mean of 0).

    `between_rows` and `between_columns` are standard deviations of the true effects of rows and columns, the noise of
    cells taken out; 0 if the table varies less than its noise.
    """

    mean: float
    interval: Interval
    p_value: float
    between_rows: float
    between_columns: float


def crossed_mean(value_A_W: FloatArray) -> CrossedMean:
    """The mean of the table, with rows and columns as crossed random effects. Shape (A, W), both at least 2.

    With the mean squares of rows, columns and residuals, the variance of the mean is estimated by
    (MS_A + MS_W - MS_AW) / (A W), with Satterthwaite's degrees of freedom (Searle, Casella and McCulloch 1992,
    "Variance Components", ch. 4; Satterthwaite 1946, doi:10.2307/3002019). If that is less than rows or columns alone
    say, the larger of these two is used, with its own degrees of freedom. With 2 to 5 trainings, 6 to 40 worlds of 3
    binary tasks and up to 10 points between trainings the simulated coverage is 94 to 98 %, with 20 points 87 to 95 %
    (`tests/simulations/crossed.py`).

    Raises `ValueError` for another shape or values that are not finite.
    """
    if value_A_W.ndim != 2 or min(value_A_W.shape) < 2 or not np.isfinite(value_A_W).all():
        raise ValueError("needs a finite table of at least 2 rows and 2 columns")
    rows, columns = value_A_W.shape
    mean, row_A, column_W = float(value_A_W.mean()), value_A_W.mean(axis=1), value_A_W.mean(axis=0)
    residual_A_W = value_A_W - row_A[:, None] - column_W + mean
    of_rows = columns * float(((row_A - mean) ** 2).sum()) / (rows - 1)
    of_columns = rows * float(((column_W - mean) ** 2).sum()) / (columns - 1)
    of_residual = float((residual_A_W**2).sum()) / ((rows - 1) * (columns - 1))
    square, freedom = _variance(of_rows, rows - 1, of_columns, columns - 1, of_residual)
    interval, p_value = _student(mean, math.sqrt(square / (rows * columns)), freedom)
    return CrossedMean(
        mean=mean,
        interval=interval,
        p_value=p_value,
        between_rows=math.sqrt(max(of_rows - of_residual, 0.0) / columns),
        between_columns=math.sqrt(max(of_columns - of_residual, 0.0) / rows),
    )


def _variance(
    of_rows: float, rows_free: int, of_columns: float, columns_free: int, of_residual: float
) -> tuple[float, float]:
    """A W times the variance of the mean, and its degrees of freedom."""
    both = of_rows + of_columns - of_residual
    if both > (1 + _ROUNDING) * max(of_rows, of_columns):
        squares = of_rows**2 / rows_free + of_columns**2 / columns_free + of_residual**2 / (rows_free * columns_free)
        return both, both**2 / squares
    return max((of_rows, rows_free), (of_columns, columns_free))


def _student(mean: float, error: float, freedom: float) -> tuple[Interval, float]:
    """Student's 95 % interval and two-sided p-value. A table without any variation says nothing about others."""
    from scipy.special import stdtr, stdtrit

    if error == 0:
        return Interval(-math.inf, math.inf), 1.0
    reach = float(stdtrit(freedom, 0.975)) * error
    return Interval(mean - reach, mean + reach), float(2 * stdtr(freedom, -abs(mean) / error))
