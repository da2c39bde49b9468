"""Base class of curves from an initial success rate to an asymptote."""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from hermes_lab.analysis.curves import Array, CurveParameter

MIN_SEEN = 0.8
"""The share of the rise that the data must cover; an asymptote far beyond them is an extrapolation."""
SLOWEST, FASTEST = 0.99, np.exp(-10.0)
"""Limits of what data can identify: the share of the gap left after all data (a line) and after one step (a jump)."""

ENDS = (CurveParameter("initial", "probability"), CurveParameter("asymptote", "probability"))
END_BOUNDS = ((0.001, 0.999), (0.001, 0.999))


class Approach(ABC):
    """success(n) = a - (a - i) left(n), where left falls from 1 at n = 0 to 0.

    A subclass defines `left` and its shape parameters, which follow `initial` and `asymptote`. `slowest` and `fastest`
    limit what data can identify: the share of the gap left after all data (a line) and after one step (a jump).
    """

    slowest: ClassVar[float] = SLOWEST
    fastest: ClassVar[float] = float(FASTEST)
    name: str
    shape: ClassVar[tuple[CurveParameter, ...]]

    @property
    def parameters(self) -> tuple[CurveParameter, ...]:
        """See `Curve.parameters`."""
        return ENDS + self.shape

    @abstractmethod
    def left(self, shape: Array, n_N: Array) -> Array:
        """The share of the gap left after n tasks, shape (..., N)."""

    @abstractmethod
    def left_gradient(self, shape: Array, n_N: Array, left: Array) -> tuple[Array, ...]:
        """Derivatives of `left` by each shape parameter, each (..., N), given `left`."""

    @abstractmethod
    def left_area(self, shape: Array, horizon: float) -> float:
        """The integral of `left` from 0 to `horizon`."""

    @abstractmethod
    def left_threshold(self, shape: Array, share: float) -> float:
        """The n at which `share` is left, 0 < share < 1."""

    @abstractmethod
    def shape_bounds(self, step: float, span: float) -> Array:
        """Bounds of each shape parameter for data with this first step and span, shape (-1, 2)."""

    @abstractmethod
    def shape_starts(self, span: float) -> Array:
        """Starting values of the shape parameters, shape (starts, -1)."""

    def value(self, parameters: Array, n_N: Array) -> Array:
        """See `Curve.value`."""
        initial, asymptote = parameters[..., 0, None], parameters[..., 1, None]
        value: Array = asymptote - (asymptote - initial) * self.left(parameters[..., 2:], n_N)
        return value

    def gradient(self, parameters: Array, n_N: Array) -> Array:
        """See `Curve.gradient`."""
        shape = parameters[..., 2:]
        gap = parameters[..., 1, None] - parameters[..., 0, None]
        left = self.left(shape, n_N)
        return np.stack([left, 1 - left, *(-gap * by for by in self.left_gradient(shape, n_N, left))], axis=-1)

    def bounds(self, n_N: Array) -> Array:
        """From a straight line (slowest shape) to a single step (fastest)."""
        return np.vstack([END_BOUNDS, self.shape_bounds(first_step(n_N), span_of(n_N))])

    def starts(self, n_N: Array, rate_N: Array) -> Array:
        """From the observed success of the first third to that of the last, for several shapes."""
        ends = observed_ends(rate_N)
        return np.array([[*ends, *shape] for shape in self.shape_starts(span_of(n_N))])

    def degenerate(self, parameters_P: Array, n_N: Array) -> str:
        """See `Curve.degenerate`."""
        after = self.left(parameters_P[2:], np.array([first_step(n_N), n_N.max()]))
        return no_rise(parameters_P[0], parameters_P[1], *(1 - after))

    def area(self, parameters_P: Array, horizon: float) -> float:
        """See `Curve.area`."""
        initial, asymptote = parameters_P[:2]
        return float(asymptote * horizon - (asymptote - initial) * self.left_area(parameters_P[2:], horizon))

    def threshold(self, parameters_P: Array, probability: float) -> float:
        """0 if success starts at or above `probability`, infinity if it never reaches it."""
        initial, asymptote = parameters_P[:2]
        if probability <= initial:
            return 0.0
        if probability >= asymptote:
            return float("inf")
        return float(self.left_threshold(parameters_P[2:], (asymptote - probability) / (asymptote - initial)))


def no_rise(initial: float, asymptote: float, first_step: float, seen: float) -> str:
    """Why the rise is not identified, or "". `first_step` and `seen` are the shares of the rise after the first step
    and by the end of the data."""
    if asymptote <= initial:
        return f"success does not rise ({initial:.2f} to {asymptote:.2f})"
    if seen < MIN_SEEN:
        return f"the asymptote lies beyond the data, which cover {100 * seen:.0f} % of the rise"
    if 1 - first_step < 2 * FASTEST:
        return "the rate is at its upper bound: success rises in one step"
    return ""


def observed_ends(rate_N: Array) -> tuple[float, float]:
    """Mean success of the first and the last third, clipped away from 0 and 1."""
    third = max(rate_N.size // 3, 1)
    initial, asymptote = np.clip([rate_N[:third].mean(), rate_N[-third:].mean()], 0.05, 0.95)
    return float(initial), float(asymptote)


def first_step(n_N: Array) -> float:
    """The smallest distance between two values of experience; 1 if there is only one."""
    steps = np.diff(np.unique(n_N))
    return float(steps.min()) if steps.size else 1.0


def span_of(n_N: Array) -> float:
    """The largest experience, at least 1."""
    return float(max(n_N.max(), 1.0))
