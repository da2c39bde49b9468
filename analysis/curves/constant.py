"""success(n) = p: no learning."""

import numpy as np

from hermes_lab.analysis.curves import Array, CurveParameter
from hermes_lab.analysis.curves.approach import END_BOUNDS


class Constant:
    """The same success at every n: the baseline for every other curve."""

    name = "constant"
    parameters = (CurveParameter("success", "probability"),)

    def value(self, parameters: Array, n_N: Array) -> Array:
        """See `Curve.value`."""
        return np.broadcast_to(parameters[..., 0, None], (*parameters.shape[:-1], n_N.size)).copy()

    def gradient(self, parameters: Array, n_N: Array) -> Array:
        """See `Curve.gradient`."""
        return np.ones((*parameters.shape[:-1], n_N.size, 1))

    def bounds(self, n_N: Array) -> Array:
        """See `Curve.bounds`."""
        del n_N
        return np.array(END_BOUNDS[:1])

    def starts(self, n_N: Array, rate_N: Array) -> Array:
        """See `Curve.starts`."""
        del n_N
        return np.clip([[rate_N.mean()]], 0.05, 0.95)

    def degenerate(self, parameters_P: Array, n_N: Array) -> str:
        """Never."""
        del parameters_P, n_N
        return ""

    def area(self, parameters_P: Array, horizon: float) -> float:
        """A(T) = pT."""
        return float(parameters_P[0] * horizon)

    def threshold(self, parameters_P: Array, probability: float) -> float:
        """0 or infinity."""
        return 0.0 if probability <= parameters_P[0] else float("inf")
