"""success(n) = a - (a - i) exp(-r n)."""

import numpy as np

from hermes_lab.analysis.curves import Array, CurveParameter
from hermes_lab.analysis.curves.approach import FASTEST, SLOWEST, Approach


class Exponential(Approach):
    """Each task closes a share 1 - exp(-rate) of the remaining gap.

    It is exact for a world of M equally likely hidden rules, each learned when met with probability c:
    rate = -ln(1 - c/M).
    """

    name = "exponential"
    shape = (CurveParameter("rate", "positive"),)

    def left(self, shape: Array, n_N: Array) -> Array:
        """exp(-r n)."""
        left: Array = np.exp(-shape[..., 0, None] * n_N)
        return left

    def left_gradient(self, shape: Array, n_N: Array, left: Array) -> tuple[Array, ...]:
        """With respect to the rate."""
        del shape
        return (-n_N * left,)

    def left_area(self, shape: Array, horizon: float) -> float:
        """(1 - exp(-rT)) / r."""
        return float(-np.expm1(-shape[0] * horizon) / shape[0])

    def left_threshold(self, shape: Array, share: float) -> float:
        """-ln(share) / r."""
        return float(-np.log(share) / shape[0])

    def shape_bounds(self, step: float, span: float) -> Array:
        """From a line to a jump."""
        return np.array([[-np.log(SLOWEST) / span, -np.log(FASTEST) / step]])

    def shape_starts(self, span: float) -> Array:
        """From a slow rise to a fast one."""
        return np.array([[0.5], [2.0], [6.0], [20.0]]) / span
