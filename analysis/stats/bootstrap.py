"""Resampling whole clusters: episodes of one run depend on one another, runs do not."""

import math

import numpy as np

from hermes_lab.analysis.curves import Array

MIN_CLUSTERS = 5
"""Below this many a bootstrap over clusters is not to be trusted, and none is made."""


def cluster_weights(clusters: int, draws: int, seed: int) -> Array:
    """How often each draw takes each cluster, shape (draws, clusters)."""
    even = np.full(clusters, 1 / clusters)
    return np.random.default_rng(seed).multinomial(clusters, even, size=draws).astype(np.float64)


def levels(clusters: int) -> tuple[float, float]:
    """The quantiles of bootstrap draws that make a 95 % interval over so many clusters.

    2.5 % and 97.5 % are too narrow for few clusters; these are the expanded levels, which for a mean come
    close to Student's interval (Hesterberg 2015, Am. Stat. 69:371): 1.6 % and 98.4 % at 20 clusters, 0.1 %
    and 99.9 % at 5.
    """
    from scipy.stats import norm, t

    reach = math.sqrt(clusters / (clusters - 1)) * t.ppf(0.975, clusters - 1)
    low = float(norm.cdf(-reach))
    return low, 1 - low
