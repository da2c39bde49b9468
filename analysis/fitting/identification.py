"""When a fitted curve counts as identified. The rule is explicit and conservative, and states its reason.

A single run of 100 tasks cannot distinguish a rate of .05 from .5, and a bootstrap over a handful of runs gives
intervals that are too narrow. So a curve is identified only if it passes every test here.
"""

from hermes_lab.analysis.curves import CurveParameter
from hermes_lab.analysis.stats.bootstrap import MIN_CLUSTERS
from hermes_lab.analysis.stats.intervals import Interval

MIN_EPISODES = 50
"""Fewest scored episodes."""
MIN_EVIDENCE = 4.0
"""AICc lead over a constant; with less both remain plausible (Burnham and Anderson 2002)."""
MAX_WIDTH = 0.3
"""Widest interval of a probability: 15 points either way."""
MAX_RATIO = 4.0
"""Largest ratio of the ends of a positive parameter's interval: a factor of two either way."""


def data_blocker(episodes: int, points: int, parameters: int) -> str:
    """Why the data cannot identify a curve with this many parameters, or ""."""
    if episodes < MIN_EPISODES:
        return f"fewer than {MIN_EPISODES} episodes ({episodes})"
    if points <= parameters:
        return f"fewer than {parameters + 1} values of experience ({points})"
    return ""


def curve_blocker(runs: int, evidence: float, degenerate: str) -> str:
    """Why the curve is not identified as a whole, or "". `evidence` is the constant's AICc minus the curve's."""
    if evidence < MIN_EVIDENCE:
        return f"the constant model is as good (AICc difference {evidence:.1f})"
    if degenerate:
        return degenerate
    if runs < MIN_CLUSTERS:
        return f"fewer than {MIN_CLUSTERS} lanes ({runs})"
    return ""


def parameter_blocker(parameter: CurveParameter, interval: Interval, over: str) -> str:
    """Why this parameter's interval is too wide, or "". `over` describes the clusters: `8 lanes`."""
    if parameter.kind == "probability":
        wide, limit = interval.width > MAX_WIDTH, f"{MAX_WIDTH:g}"
    else:
        wide, limit = interval.high > MAX_RATIO * interval.low, f"a factor of {MAX_RATIO:g}"
    if not wide:
        return ""
    return f"{parameter.name} interval spans {interval.low:.2g}-{interval.high:.2g}, wider than {limit}, over {over}"
