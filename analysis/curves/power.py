"""success(n) = a - (a - i) (1 + n)^-b."""

import numpy as np

from hermes_lab.analysis.curves import Array, CurveParameter
from hermes_lab.analysis.curves.approach import FASTEST, SLOWEST, Approach


class Power(Approach):
    """The power law of practice (Newell and Rosenbloom 1981): each *doubling* of 1 + n closes the same share.

    Rules met at very unequal rates look like it, and so does a mean of exponentials with different rates
    (Heathcote, Brown and Mewhort 2000, Psychon. Bull. Rev. 7:185).
    """

    name = "power"
    shape = (CurveParameter("exponent", "positive"),)

    def left(self, shape: Array, n_N: Array) -> Array:
        """(1 + n)^-b."""
        left: Array = np.exp(-shape[..., 0, None] * np.log1p(n_N))
        return left

    def left_gradient(self, shape: Array, n_N: Array, left: Array) -> tuple[Array, ...]:
        """With respect to the exponent."""
        del shape
        return (-np.log1p(n_N) * left,)

    def left_area(self, shape: Array, horizon: float) -> float:
        """((1 + T)^(1 - b) - 1) / (1 - b); ln(1 + T) at b = 1."""
        doublings, spare = np.log1p(horizon), 1 - shape[0]
        return float(np.expm1(spare * doublings) / spare if spare else doublings)

    def left_threshold(self, shape: Array, share: float) -> float:
        """share^(-1/b) - 1; infinite on overflow."""
        with np.errstate(over="ignore"):
            return float(np.expm1(-np.log(share) / shape[0]))

    def shape_bounds(self, step: float, span: float) -> Array:
        """From almost no rise to a jump."""
        return np.array([[-np.log(SLOWEST) / np.log1p(span), -np.log(FASTEST) / np.log1p(step)]])

    def shape_starts(self, span: float) -> Array:
        """From a slow rise to a fast one, independent of the span."""
        del span
        return np.array([[0.1], [0.4], [1.0], [2.5]])
