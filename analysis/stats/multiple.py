"""Correction for multiple tests."""

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm-adjusted p-values (Holm 1979), in the order given.

    Controls the family-wise error rate under any dependence and is never less powerful than Bonferroni.
    """
    adjusted = [1.0] * len(p_values)
    least = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        least = max(least, min((len(p_values) - rank) * p_values[place], 1.0))
        adjusted[place] = least
    return adjusted
