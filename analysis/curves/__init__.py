"""Learning-curve models, one per file, and those of other packages (entry points in `hermes_lab.curves`).

Curves take natural units; the optimiser works on an unbounded scale that `hermes_lab.analysis.fitting.likelihood`
derives from each parameter's kind. Array names end in their axes: N values of experience, P parameters."""

import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from hermes_lab.errors import ConfigError
from hermes_lab.plugins import Plugin, PluginGroup

_PLUGINS = PluginGroup("hermes_lab.curves", "curve")
"""The entry points by which other packages add curves: a name, and a class that implements `Curve`."""
Array = npt.NDArray[np.float64]


class CurveParameter(NamedTuple):
    """A parameter and its scale: a `probability` is optimised as its logit, a `positive` number as its logarithm.

    The likelihood is not smooth in a `changepoint`: every start tries one value and keeps it fixed.
    """

    name: str
    kind: Literal["probability", "positive", "changepoint"]


@runtime_checkable
class Curve(Protocol):
    """success(n) as a function of n, the number of tasks seen before."""

    @property
    def name(self) -> str: ...

    @property
    def parameters(self) -> tuple[CurveParameter, ...]:
        """The names and kinds of the P parameters, in the order of every array here."""
        ...

    def value(self, parameters: Array, n_N: Array) -> Array:
        """Success probabilities, shape (..., N), for parameters of shape (..., P)."""
        ...

    def gradient(self, parameters: Array, n_N: Array) -> Array:
        """Derivatives of `value` by each parameter, shape (..., N, P); 0 for a changepoint."""
        ...

    def bounds(self, n_N: Array) -> Array:
        """Bounds of each parameter that data at `n_N` can identify, shape (P, 2)."""
        ...

    def starts(self, n_N: Array, rate_N: Array) -> Array:
        """Starting values, shape (starts, P), given the observed success rates."""
        ...

    def degenerate(self, parameters_P: Array, n_N: Array) -> str:
        """Why this fit is degenerate on the range of `n_N`, or ""."""
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
    found: dict[str, Curve] = {}
    for curve in curves:
        if (other := found.setdefault(curve.name, curve)) is not curve:
            raise ValueError(f"two curves are named {curve.name!r}: {type(other).__name__}, {type(curve).__name__}")
    return MappingProxyType(found)


# At the end: the modules of this package import the names above.
CURVES: Mapping[str, Curve] = _discover()
"""Every curve of this package by name."""


def curve_names() -> list[str]:
    """The names of all curves, with those of other packages."""
    return sorted({*CURVES, *_PLUGINS.names()})


def find_curve(name: str) -> Curve:
    """The curve of that name. Raises `ConfigError` if there is none, or if that of another package cannot be loaded."""
    if name in CURVES:
        return CURVES[name]
    if plugin := _PLUGINS.find(name):
        return _loaded(plugin)
    raise ConfigError(f"curve: no curve {name!r}; choose from {', '.join(curve_names())}, best")


def _loaded(plugin: Plugin) -> Curve:
    found: Any = plugin.create()
    if not isinstance(found, Curve):
        raise plugin.error("does not implement hermes_lab.Curve")
    if found.name != plugin.name:
        raise plugin.error(f"calls itself {found.name!r}", "give both the same name")
    return found
