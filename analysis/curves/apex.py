"""success(n) = a - (a - i) exp(-r n) (1 + n)^-b."""

import numpy as np

from hermes_lab.analysis.curves import Array, CurveParameter
from hermes_lab.analysis.curves.approach import FASTEST, SLOWEST, Approach

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)


class Apex(Approach):
    """The product of a power and an exponential (Heathcote, Brown and Mewhort 2000, Psychon. Bull. Rev. 7:185).

    It contains both: at exponent 0 the exponential, at rate 0 the power law.
    """

    name = "apex"
    shape = (CurveParameter("rate", "positive"), CurveParameter("exponent", "positive"))

    def left(self, shape: Array, n_N: Array) -> Array:
        """exp(-r n) (1 + n)^-b."""
        left: Array = np.exp(-shape[..., 0, None] * n_N - shape[..., 1, None] * np.log1p(n_N))
        return left

    def left_gradient(self, shape: Array, n_N: Array, left: Array) -> tuple[Array, ...]:
        """With respect to the rate and the exponent."""
        del shape
        return (-n_N * left, -np.log1p(n_N) * left)

    def left_area(self, shape: Array, horizon: float) -> float:
        """Gauss-Legendre quadrature over ln(1 + n), where `left` is smooth; there is no elementary integral."""
        half = np.log1p(horizon) / 2
        log_N = half * (_NODES + 1)
        return float(half * (_WEIGHTS * np.exp(log_N) * self.left(shape, np.expm1(log_N))).sum())

    def left_threshold(self, shape: Array, share: float) -> float:
        """Root search below the exponential's own threshold."""
        from scipy.optimize import brentq

        highest = -np.log(share) / shape[0]
        return float(brentq(lambda n: self.left(shape, np.array([n]))[0] - share, 0.0, highest))

    def shape_bounds(self, step: float, span: float) -> Array:
        """From almost no effect (the other factor takes over) to a jump."""
        slowest, fastest = -np.log(SLOWEST), -np.log(FASTEST)
        steps, spans = np.array([step, np.log1p(step)]), np.array([span, np.log1p(span)])
        return np.stack([0.01 * slowest / spans, fastest / steps], axis=-1)

    def shape_starts(self, span: float) -> Array:
        """Mostly exponential, mostly power, and both."""
        rates = np.array([0.02, 0.5, 2.0, 6.0]) / span
        return np.array([[rate, exponent] for rate in rates for exponent in (0.02, 0.3, 1.0)])
