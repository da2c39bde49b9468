"""Wording of differences and p-values, and the criterion for significance."""

from hermes_lab.analysis.stats.intervals import Interval
from hermes_lab.analysis.stats.paired import LEVEL


def points(difference: float, interval: Interval | None = None) -> str:
    """`+16 points (95 % interval 3 to 28)`."""
    change = f"{round(100 * difference):+d} points"
    if interval is None:
        return change
    return f"{change} (95 % interval {end_text(interval.low)} to {end_text(interval.high)})"


def end_text(end: float) -> str:
    """In points; an end close to zero says on which side it is, and so whether zero is in the interval."""
    whole = f"{100 * end:.0f}"
    if end == 0:
        return "0"
    if whole not in ("0", "-0"):
        return whole
    if abs(end) < _NOTHING:
        return "above 0" if end > 0 else "below 0"
    return f"{100 * end:.1g}"


_NOTHING = 1e-4
"""A hundredth of a point."""


def p_text(p_value: float) -> str:
    """`p = 0.03`, with one digit if it is small."""
    return f"p = {p_value:.{1 if p_value < 0.001 else 2}g}"


def tested(p_value: float, adjusted: float, family: str) -> str:
    """The unadjusted p, and the Holm-adjusted one where it differs in the conclusion:
    `p = 0.021 (0.063 after Holm's adjustment for 3 tests)`."""
    if p_value < LEVEL <= adjusted:
        return f"{p_text(p_value)} ({adjusted:.2g} after Holm's adjustment for {family})"
    return p_text(p_value)


def shown(p_value: float, adjusted: float) -> str:
    """What precedes a difference: nothing if it is shown, `no difference shown: ` if not, and another phrase if
    only the adjustment makes it so. The interval is not adjusted, and excludes zero exactly if `p_value` < 0.05."""
    if adjusted < LEVEL:
        return ""
    return "no difference shown: " if p_value >= LEVEL else "not shown once adjusted: "
