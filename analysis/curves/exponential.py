"""success(n) = a - (a - i) exp(-r n)."""

import numpy as np

from analysis.curves import Array, CurveParameter

MIN_SEEN = 0.8
"""The share of the rise that the data must see; an asymptote far beyond them is an extrapolation."""


class Exponential:
    """From `initial` to `asymptote`: each task closes the share 1 - exp(-rate) of what is left of the gap.

    It is exact for a world of M equally likely hidden rules, each learned when met with probability c:
    rate = -ln(1 - c/M).
    """

    name = "exponential"
    parameters = (
        CurveParameter("initial", "probability"),
        CurveParameter("asymptote", "probability"),
        CurveParameter("rate", "positive"),
    )

    def value(self, parameters: Array, n_N: Array) -> Array:
        """See `Curve.value`."""
        initial, asymptote, rate = (parameters[..., p, None] for p in range(3))
        value: Array = asymptote - (asymptote - initial) * np.exp(-rate * n_N)
        return value

    def gradient(self, parameters: Array, n_N: Array) -> Array:
        """See `Curve.gradient`."""
        initial, asymptote, rate = (parameters[..., p, None] for p in range(3))
        decay = np.exp(-rate * n_N)
        return np.stack([decay, 1 - decay, (asymptote - initial) * n_N * decay], axis=-1)

    def bounds(self, n_N: Array) -> Array:
        """Below the lowest rate the data see a line, above the highest a single step."""
        steps = np.diff(np.unique(n_N))
        step = steps.min() if steps.size else 1.0
        return np.array([[0.001, 0.999], [0.001, 0.999], [0.01 / max(n_N.max(), 1.0), 10 / step]])

    def starts(self, n_N: Array, rate_N: Array) -> Array:
        """From the first to the last third of the observed success, at rates over the range of the data."""
        third = max(n_N.size // 3, 1)
        initial, asymptote = np.clip([rate_N[:third].mean(), rate_N[-third:].mean()], 0.05, 0.95)
        span = max(n_N.max(), 1.0)
        return np.array([[initial, asymptote, turns / span] for turns in (0.5, 2.0, 6.0, 20.0)])

    def degenerate(self, parameters_P: Array, n_N: Array) -> str:
        """See `Curve.degenerate`."""
        initial, asymptote, rate = parameters_P
        fastest = self.bounds(n_N)[2, 1]
        if asymptote <= initial:
            return f"success does not rise ({initial:.2f} to {asymptote:.2f})"
        seen = -np.expm1(-rate * n_N.max())
        if seen < MIN_SEEN:
            return f"the asymptote lies beyond the data, which see {100 * seen:.0f} % of the rise"
        if rate >= 0.99 * fastest:
            return "the rate is at its upper bound: success rises in one step"
        return ""

    def area(self, parameters_P: Array, horizon: float) -> float:
        """A(T) = aT - (a - i) (1 - exp(-rT)) / r."""
        initial, asymptote, rate = parameters_P
        return float(asymptote * horizon + (asymptote - initial) * np.expm1(-rate * horizon) / rate)

    def threshold(self, parameters_P: Array, probability: float) -> float:
        """0 where success begins at or above `probability`, infinity where it never gets there."""
        initial, asymptote, rate = parameters_P
        if probability <= initial:
            return 0.0
        if probability >= asymptote:
            return float("inf")
        return float(np.log((asymptote - initial) / (asymptote - probability)) / rate)
