"""Which kinds of tasks are neither too hard nor too easy, by their measured rates."""

from collections.abc import Mapping


def in_window(rates: Mapping[str, float | None], low: float, high: float) -> list[str]:
    """The kinds whose rate is in [low, high] or not known (None); if there are none, the nearest to the window."""
    away = {kind: 0.0 if rate is None else max(low - rate, rate - high, 0.0) for kind, rate in rates.items()}
    least = min(away.values(), default=0.0)
    return [kind for kind, distance in away.items() if distance == least]
