"""Models of success against experience, a file a model: a new one is a file here with a class that is a `Curve`.

A curve speaks natural units; the search happens on an unbounded scale that `hermes_lab.analysis.fitting.likelihood`
derives from each parameter's kind. Arrays end in their axes: N values of experience, P parameters."""

import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, Protocol, cast

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class CurveParameter(NamedTuple):
    """A `probability` is searched as its logit, a `positive` number as its logarithm.

    The likelihood is not smooth in a `place`, which is tried at every start and moved from none.
    """

    name: str
    kind: Literal["probability", "positive", "changepoint"]


class Curve(Protocol):
    """success(n) as a function of n, the tasks seen before."""

    @property
    def name(self) -> str: ...

    @property
    def parameters(self) -> tuple[CurveParameter, ...]:
        """The names and kinds of the P parameters, in the order of every array here."""
        ...

    def value(self, parameters: Array, n_N: Array) -> Array:
        """Success probabilities, shape (..., N), of parameters of shape (..., P)."""
        ...

    def gradient(self, parameters: Array, n_N: Array) -> Array:
        """The derivatives of `value` by each parameter, shape (..., N, P); 0 by a `place`."""
        ...

    def bounds(self, n_N: Array) -> Array:
        """The range of each parameter that data at `n_N` could tell apart, shape (P, 2)."""
        ...

    def starts(self, n_N: Array, rate_N: Array) -> Array:
        """Where the search begins, shape (starts, P), given the observed success rates."""
        ...

    def degenerate(self, parameters_P: Array, n_N: Array) -> str:
        """Why these parameters do not describe the range of `n_N`, or ""."""
        ...

    def area(self, parameters_P: Array, horizon: float) -> float:
        """The integral from 0 to `horizon`: the expected number of successes."""
        ...

    def threshold(self, parameters_P: Array, probability: float) -> float:
        """The n at which success reaches `probability`, or infinity."""
        ...


def _discover() -> Mapping[str, Curve]:
    modules = [importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    classes = [c for m in modules for _, c in inspect.getmembers(m, inspect.isclass) if c.__module__ == m.__name__]
    curves: list[Curve] = [cast(type[Curve], c)() for c in classes if not inspect.isabstract(c)]
    return MappingProxyType({curve.name: curve for curve in curves})


# At the end, since the files of this package import what stands above.
CURVES: Mapping[str, Curve] = _discover()
"""Every curve of this package by its name."""
