"""When a fitted curve may be spoken of. The rule is explicit, conservative, and gives its reason in words.

A single run of 100 tasks cannot tell a rate of .05 from one of .5, and a bootstrap over a handful of runs
gives intervals that are too narrow. So a curve is identified only where every test here is passed.
"""

from hermes_lab.analysis.curves import CurveParameter
from hermes_lab.analysis.stats.bootstrap import MIN_CLUSTERS
from hermes_lab.analysis.stats.intervals import Interval

MIN_EPISODES = 50
"""Scored episodes."""
MIN_EVIDENCE = 4.0
"""AICc by which the curve must beat a constant; with less both stay plausible (Burnham and Anderson 2002)."""
MAX_WIDTH = 0.3
"""Width of a probability's interval: known to within 15 points either way."""
MAX_RATIO = 4.0
"""Upper over lower end of a positive parameter's interval: known to within a factor of two either way."""


def data_blocker(episodes: int, points: int, parameters: int) -> str:
    """Why the data cannot identify a curve of so many parameters, or "": it wants one more value of experience."""
    if episodes < MIN_EPISODES:
        return f"fewer than {MIN_EPISODES} episodes ({episodes})"
    if points <= parameters:
        return f"fewer than {parameters + 1} values of experience ({points})"
    return ""


def curve_blocker(runs: int, evidence: float, degenerate: str) -> str:
    """Why the curve is not identified as a whole, or "". `evidence` is the constant's AICc less its own."""
    if evidence < MIN_EVIDENCE:
        return f"the constant model is as good (AICc difference {evidence:.1f})"
    if degenerate:
        return degenerate
    if runs < MIN_CLUSTERS:
        return f"fewer than {MIN_CLUSTERS} runs ({runs})"
    return ""


def parameter_blocker(parameter: CurveParameter, interval: Interval, over: str) -> str:
    """Why this parameter's interval is too wide to speak of, or "". `over` names what it is over: `8 runs`."""
    wide = interval.width > MAX_WIDTH if parameter.kind == "probability" else interval.high > MAX_RATIO * interval.low
    if not wide:
        return ""
    return f"{parameter.name} interval spans {interval.low:.2g}-{interval.high:.2g} over {over}"
