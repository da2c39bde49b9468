"""Cluster bootstrap: episodes of one run are dependent, runs are not."""

import math

import numpy as np

from hermes_lab.analysis.curves import Array

MIN_CLUSTERS = 5
"""Fewest clusters; with fewer the bootstrap is unreliable and not done."""


def cluster_weights(clusters: int, draws: int, seed: int) -> Array:
    """How often each draw takes each cluster, shape (draws, clusters)."""
    even = np.full(clusters, 1 / clusters)
    return np.random.default_rng(seed).multinomial(clusters, even, size=draws).astype(np.float64)


def enough_draws(clusters: int) -> int:
    """The fewest draws that reach `levels`: two beyond each. With fewer, an interval ends at the most extreme draw,
    and is too narrow."""
    return math.ceil(2 / levels(clusters)[0])


def levels(clusters: int) -> tuple[float, float]:
    """Quantiles of bootstrap draws for a 95 % interval over this many clusters.

    2.5 % and 97.5 % are too narrow for few clusters. These expanded levels approximate Student's interval for a mean
    (Hesterberg 2015, Am. Stat. 69:371): 1.6 % and 98.4 % at 20 clusters, 0.1 % and 99.9 % at 5.
    """
    from scipy.stats import norm, t

    reach = math.sqrt(clusters / (clusters - 1)) * t.ppf(0.975, clusters - 1)
    low = float(norm.cdf(-reach))
    return low, 1 - low
