"""Wording of differences and p-values, and the criterion for significance."""

from hermes_lab.analysis.stats.intervals import Interval


def points(difference: float, interval: Interval | None = None) -> str:
    """`+16 points (95 % interval 3 to 28)`."""
    change = f"{round(100 * difference):+d} points"
    if interval is None:
        return change
    low, high = (round(100 * end) for end in interval)
    return f"{change} (95 % interval {low} to {high})"


def p_text(p_value: float) -> str:
    """`p = 0.03`, with one digit if it is small."""
    return f"p = {p_value:.{1 if p_value < 0.001 else 2}g}"


def tested(p_value: float, adjusted: float, family: str) -> str:
    """The raw p, and the Holm-adjusted one if it is not significant: `p = 0.021 (0.063 by Holm over 3 tests)`."""
    if p_value < 0.05 <= adjusted:
        return f"{p_text(p_value)} ({adjusted:.2g} by Holm over {family})"
    return p_text(p_value)


def is_shown(p_value: float, interval: Interval) -> bool:
    """Whether a difference is significant: p below 0.05 and an interval that excludes zero."""
    return p_value < 0.05 and not interval.low <= 0 <= interval.high
