"""Several tests at once."""

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values adjusted so that all tests together err with probability 0.05 at most (Holm 1979).

    Holds however the tests depend on each other, and is never weaker than Bonferroni's. In the order given.
    """
    adjusted = [1.0] * len(p_values)
    least = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        least = max(least, min((len(p_values) - rank) * p_values[place], 1.0))
        adjusted[place] = least
    return adjusted
