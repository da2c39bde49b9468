"""Bootstrap refits on a Ray cluster, with the same results as in one process."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import ray

from hermes_lab.analysis.curves import Array, Curve
from hermes_lab.analysis.fitting.fit import Refit, refit
from hermes_lab.analysis.fitting.likelihood import Counts
from hermes_lab.runners.ray.cluster import ray_cluster

_DRAWS = 200
"""Draws per Ray task, which takes a few tenths of a second."""


@contextmanager
def refits_on_ray() -> Iterator[Refit]:
    """Yields a version of `hermes_lab.analysis.fitting.fit.refit` that runs on the cluster of $RAY_ADDRESS, or on a
    local one."""
    with ray_cluster(""):
        remote = ray.remote(refit)

        def spread(curve: Curve, counts: Counts, weights_B_C: Array, starts_S_P: Array) -> Array:
            if len(weights_B_C) <= _DRAWS:
                return refit(curve, counts, weights_B_C, starts_S_P)
            shared = ray.put(counts)
            parts = np.array_split(weights_B_C, -(-len(weights_B_C) // _DRAWS))
            return np.concatenate(ray.get([remote.remote(curve, shared, part, starts_S_P) for part in parts]))

        yield spread
