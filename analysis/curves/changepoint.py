"""success(n) = i before the changepoint, a from it on."""

import numpy as np

from hermes_lab.analysis.curves import Array, CurveParameter
from hermes_lab.analysis.curves.approach import END_BOUNDS, ENDS, observed_ends


class Changepoint:
    """A single jump; `change` is the first n with the new rate.

    The likelihood is a step function of `change`, so every value of experience but the first is tried
    (profile over the changepoint; Hinkley 1970, Biometrika 57:1). It is identified only up to the next value.
    """

    name = "changepoint"
    parameters = (*ENDS, CurveParameter("change", "changepoint"))

    def value(self, parameters: Array, n_N: Array) -> Array:
        """See `Curve.value`."""
        initial, asymptote, change = (parameters[..., p, None] for p in range(3))
        return np.where(n_N < change, initial, asymptote)

    def gradient(self, parameters: Array, n_N: Array) -> Array:
        """See `Curve.gradient`."""
        before = (n_N < parameters[..., 2, None]).astype(np.float64)
        return np.stack([before, 1 - before, np.zeros_like(before)], axis=-1)

    def bounds(self, n_N: Array) -> Array:
        """See `Curve.bounds`."""
        return np.array([*END_BOUNDS, (n_N.min(), n_N.max())])

    def starts(self, n_N: Array, rate_N: Array) -> Array:
        """Every possible changepoint."""
        places = np.unique(n_N)
        return np.array([[*observed_ends(rate_N), change] for change in (places[1:] if places.size > 1 else places)])

    def degenerate(self, parameters_P: Array, n_N: Array) -> str:
        """See `Curve.degenerate`."""
        del n_N
        initial, asymptote, _ = parameters_P
        return f"success does not rise ({initial:.2f} to {asymptote:.2f})" if asymptote <= initial else ""

    def area(self, parameters_P: Array, horizon: float) -> float:
        """See `Curve.area`."""
        initial, asymptote, change = parameters_P
        before = min(change, horizon)
        return float(initial * before + asymptote * (horizon - before))

    def threshold(self, parameters_P: Array, probability: float) -> float:
        """0 if success starts at or above `probability`, infinity if it never reaches it."""
        initial, asymptote, change = parameters_P
        if probability <= initial:
            return 0.0
        return float(change) if probability <= asymptote else float("inf")
