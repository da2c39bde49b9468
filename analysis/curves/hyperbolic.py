"""success(n) = a - (a - i) h / (n + h)."""

import numpy as np

from hermes_lab.analysis.curves import Array, CurveParameter
from hermes_lab.analysis.curves.approach import FASTEST, SLOWEST, Approach


class Hyperbolic(Approach):
    """The hyperbola of Thurstone (1919) and of Mazur and Hastie (1978): half the gap is closed at n = `half`.

    Each task adds the same amount of experience; success is the share of useful experience.
    """

    name = "hyperbolic"
    shape = (CurveParameter("half", "positive"),)

    def left(self, shape: Array, n_N: Array) -> Array:
        """h / (n + h)."""
        half = shape[..., 0, None]
        left: Array = half / (n_N + half)
        return left

    def left_gradient(self, shape: Array, n_N: Array, left: Array) -> tuple[Array, ...]:
        """With respect to `half`."""
        del n_N
        return ((1 - left) * left / shape[..., 0, None],)

    def left_area(self, shape: Array, horizon: float) -> float:
        """h ln(1 + T/h)."""
        return float(shape[0] * np.log1p(horizon / shape[0]))

    def left_threshold(self, shape: Array, share: float) -> float:
        """h (1/share - 1)."""
        return float(shape[0] * (1 / share - 1))

    def shape_bounds(self, step: float, span: float) -> Array:
        """From a jump to a line."""
        return np.array([[step * FASTEST / (1 - FASTEST), span * SLOWEST / (1 - SLOWEST)]])

    def shape_starts(self, span: float) -> Array:
        """From a fast rise to a slow one."""
        return np.array([[0.02], [0.1], [0.3], [1.0]]) * span
