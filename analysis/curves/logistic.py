"""success(n) = a - (a - i) (1 + exp(-r m)) / (1 + exp(r (n - m)))."""

import numpy as np

from hermes_lab.analysis.curves import Array, CurveParameter
from hermes_lab.analysis.curves.approach import SLOWEST, Approach

STEEPEST = 10 * np.log(81)
"""Rate times span at which the middle 80 % of the rise takes a tenth of the data. Anything steeper is a changepoint,
which fits noise.
"""


class Logistic(Approach):
    """The S-shaped curve: slow, fast, slow (Thurstone 1930, J. Gen. Psychol. 3:469), steepest at n = `midpoint`.

    The logistic function between two levels, parametrised by its value at n = 0, so that `initial` means the same as
    in other curves. Logistic regression on n, with intercept b and slope r, is the case
    a = 1, i = 1 / (1 + exp(-b)), m = -b / r.
    """

    name = "logistic"
    shape = (CurveParameter("rate", "positive"), CurveParameter("midpoint", "positive"))

    def left(self, shape: Array, n_N: Array) -> Array:
        """(1 + exp(-rm)) / (1 + exp(r (n - m)))."""
        rate, midpoint = shape[..., 0, None], shape[..., 1, None]
        # The result is 0 long before the exponential overflows.
        left: Array = (1 + np.exp(-rate * midpoint)) / (1 + np.exp(np.minimum(rate * (n_N - midpoint), 500.0)))
        return left

    def left_gradient(self, shape: Array, n_N: Array, left: Array) -> tuple[Array, ...]:
        """With respect to the rate and the midpoint."""
        rate, midpoint = shape[..., 0, None], shape[..., 1, None]
        begun = 1 / (1 + np.exp(rate * midpoint))
        risen = 1 - left * (1 - begun)
        return (-left * ((n_N - midpoint) * risen + midpoint * begun), left * rate * (risen - begun))

    def left_area(self, shape: Array, horizon: float) -> float:
        """(1 + exp(-rm)) (T - ln((1 + exp(r (T - m))) / (1 + exp(-rm))) / r)."""
        rate, midpoint = shape
        grown = np.logaddexp(0, rate * (horizon - midpoint)) - np.logaddexp(0, -rate * midpoint)
        return float((1 + np.exp(-rate * midpoint)) * (horizon - grown / rate))

    def left_threshold(self, shape: Array, share: float) -> float:
        """m + ln((1 + exp(-rm)) / share - 1) / r."""
        rate, midpoint = shape
        return float(midpoint + np.log((1 + np.exp(-rate * midpoint)) / share - 1) / rate)

    def shape_bounds(self, step: float, span: float) -> Array:
        """From a line to the steepest rise, with the midpoint anywhere in the data."""
        return np.array([[-np.log(SLOWEST) / span, STEEPEST / span], [0.01 * step, span]])

    def shape_starts(self, span: float) -> Array:
        """Early and late, flat and steep."""
        return np.array([[rate / span, share * span] for rate in (5.0, 25.0) for share in (0.1, 0.3, 0.6)])
