import inspect
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from hermes_lab.analysis.curves import CURVES, Curve, changepoint, curve_names, find_curve
from hermes_lab.analysis.curves.exponential import Exponential
from hermes_lab.analysis.fitting.forms import choose_form
from hermes_lab.analysis.fitting.likelihood import natural, unbounded
from hermes_lab.errors import ConfigError

CURVE = Exponential()
CODE_DEBUGGING = np.array([0.45, 0.89, 0.08])
N = np.arange(0.0, 100.0, 5.0)
RISING = [curve for name, curve in CURVES.items() if name != "constant"]
SMOOTH = [curve for name, curve in CURVES.items() if name != "changepoint"]
BY_NAME = {"ids": lambda curve: curve.name}


def inside(curve: Curve, share: np.ndarray) -> np.ndarray:
    """Parameters at these shares of the way from their lower to their upper bound, on the unbounded scale."""
    low, high = unbounded(curve, curve.bounds(N).T)
    return natural(curve, low + share[: len(low)] * (high - low))


SHARES = st.lists(st.floats(0.15, 0.85), min_size=4, max_size=4).map(np.array)


def test_every_form_is_discovered_under_its_name() -> None:
    assert {"apex", "changepoint", "constant", "exponential", "hyperbolic", "logistic", "power"} <= set(CURVES)
    assert all(curve.name == name and inspect.getdoc(curve) for name, curve in CURVES.items())


def test_area_is_the_published_number() -> None:
    assert CURVE.area(CODE_DEBUGGING, 100) == pytest.approx(83.50, abs=0.005)


def test_hyperbola_is_the_printed_column_of_the_publication() -> None:
    """45.0, 63.2, 72.4, 80.1, 86.3 and 88.7 % at n = 1, 5, 10, 20, 50 and 100, with n counted from 1."""
    printed = CURVES["hyperbolic"].value(np.array([0.45, 0.915, 6.23]), np.array([1.0, 5, 10, 20, 50, 100]) - 1)
    assert printed == pytest.approx([0.450, 0.632, 0.724, 0.801, 0.863, 0.887], abs=0.001)


@pytest.mark.parametrize("curve", CURVES.values(), **BY_NAME)
@given(SHARES)
def test_gradient_is_the_finite_difference_of_the_value(curve: Curve, share: np.ndarray) -> None:
    parameters = inside(curve, share)
    gradient = curve.gradient(parameters, N)
    for p, parameter in enumerate(curve.parameters):
        if parameter.kind == "changepoint":
            assert not gradient[:, p].any()
            continue
        step = np.zeros(len(parameters))
        step[p] = 1e-6 * parameters[p]
        numeric = (curve.value(parameters + step, N) - curve.value(parameters - step, N)) / (2 * step[p])
        assert gradient[:, p] * parameters[p] == pytest.approx(numeric * parameters[p], abs=1e-6)


@pytest.mark.parametrize("curve", CURVES.values(), **BY_NAME)
@given(SHARES)
def test_area_is_the_integral_of_the_curve(curve: Curve, share: np.ndarray) -> None:
    parameters = inside(curve, share)
    breaks = [parameters[2]] if curve.name == "changepoint" else [0.01, 0.1, 1, 10]
    area, _ = quad(lambda n: curve.value(parameters, np.array([n]))[0], 0, 50, points=breaks, limit=200)
    assert curve.area(parameters, 50) == pytest.approx(area, rel=1e-5)


@pytest.mark.parametrize("curve", RISING, **BY_NAME)
@given(SHARES, st.floats(0.01, 0.99))
def test_threshold_is_where_the_curve_first_crosses(curve: Curve, share: np.ndarray, way: float) -> None:
    parameters = inside(curve, share)
    initial, asymptote = parameters[:2]
    probability = float(initial + way * (asymptote - initial))
    n = curve.threshold(parameters, probability)
    if asymptote <= initial:
        assert n == (0.0 if probability <= initial else math.inf)
    elif curve.name == "changepoint":
        assert n == parameters[2]
    elif n < 1e6:
        assert curve.value(parameters, np.array([n]))[0] == pytest.approx(probability, abs=1e-6)


@pytest.mark.parametrize("curve", RISING, **BY_NAME)
def test_threshold_above_the_asymptote_is_never_reached_and_below_the_start_at_once(curve: Curve) -> None:
    parameters = np.array([0.45, 0.89, 5.0, 5.0])[: len(curve.parameters)]
    assert curve.threshold(parameters, 0.9) == math.inf
    assert curve.threshold(parameters, 0.4) == 0.0


def test_constant_is_over_a_threshold_at_once_or_never() -> None:
    assert CURVES["constant"].threshold(np.array([0.6]), 0.6) == 0.0
    assert CURVES["constant"].threshold(np.array([0.6]), 0.7) == math.inf


def test_code_debugging_passes_80_percent_after_20_tasks() -> None:
    assert CURVE.threshold(CODE_DEBUGGING, 0.8) == pytest.approx(19.8, abs=0.05)


@pytest.mark.parametrize("curve", RISING, **BY_NAME)
@given(SHARES)
def test_curves_begin_at_the_initial_rate_and_end_at_the_asymptote(curve: Curve, share: np.ndarray) -> None:
    parameters = inside(curve, share)
    begin, end = curve.value(parameters, np.array([0.0, 1e12]))
    assert begin == pytest.approx(parameters[0])
    if curve.name != "power":  # which comes closer without end
        assert end == pytest.approx(parameters[1], abs=1e-3)


@pytest.mark.parametrize(("still", "same"), [("rate", "power"), ("exponent", "exponential")])
def test_apex_becomes_the_power_law_and_the_exponential(still: str, same: str) -> None:
    shape = [0.0, 0.7] if still == "rate" else [0.07, 0.0]
    other = [value for value in shape if value]
    apex = CURVES["apex"].value(np.array([0.2, 0.9, *shape]), N)
    assert apex == pytest.approx(CURVES[same].value(np.array([0.2, 0.9, *other]), N))


def test_logistic_holds_logistic_regression() -> None:
    intercept, slope = -1.5, 0.06
    initial = 1 / (1 + math.exp(-intercept))
    found = CURVES["logistic"].value(np.array([initial, 1.0, slope, -intercept / slope]), N)
    assert found == pytest.approx(1 / (1 + np.exp(-intercept - slope * N)))


def test_changepoint_is_tried_at_every_value_of_experience_but_the_first() -> None:
    starts = changepoint.Changepoint().starts(N, np.full(N.size, 0.5))
    assert starts[:, 2].tolist() == N[1:].tolist()


@pytest.mark.parametrize("curve", SMOOTH, **BY_NAME)
def test_starts_are_within_the_bounds(curve: Curve) -> None:
    low, high = curve.bounds(N).T
    starts = curve.starts(N, np.linspace(0.3, 0.9, N.size))
    assert np.all((low <= starts) & (starts <= high))


@pytest.mark.parametrize("curve", RISING, **BY_NAME)
def test_falling_success_is_degenerate_for_every_form(curve: Curve) -> None:
    parameters = np.array([0.8, 0.4, 0.1, 0.1])[: len(curve.parameters)]
    assert "does not rise" in curve.degenerate(parameters, N)


@given(SHARES)
def test_unbounded_scale_goes_there_and_back(share: np.ndarray) -> None:
    for curve in CURVES.values():
        assert natural(curve, unbounded(curve, inside(curve, share))) == pytest.approx(inside(curve, share))


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Installs a package `lab-curve` with a module of that text, and an entry point."""

    def installed(text: str, point: str) -> None:
        (tmp_path / "lab_curve.py").write_text(text)
        info = tmp_path / "lab_curve-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lab-curve\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[hermes_lab.curves]\n{point}\n")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "lab_curve", raising=False)

    return installed


OWN = """from hermes_lab.analysis.curves.exponential import Exponential
class Own(Exponential):
    name = "own"
"""


def test_a_package_brings_a_curve_by_entry_point(install: Callable[[str, str], None]) -> None:
    install(OWN, "own = lab_curve:Own")
    assert "own" in curve_names()
    assert find_curve("own").value(np.array([0.2, 0.8, 0.1]), N) == pytest.approx(
        find_curve("exponential").value(np.array([0.2, 0.8, 0.1]), N)
    )
    among = choose_form(np.tile(np.arange(8.0), 6), np.tile([0, 1] * 4, 6), np.repeat(np.arange(6), 8))
    assert "own" in {form.name for form in among.forms}


@pytest.mark.parametrize(
    ("text", "point", "said"),
    [
        (
            "1 / 0",
            "own = lab_curve:Own",
            "cannot be loaded: ZeroDivisionError: division by zero; update or uninstall the package lab-curve",
        ),
        (OWN, "own = lab_curve:Mine", "cannot be loaded: AttributeError: "),
        (
            "Own = dict",
            "own = lab_curve:Own",
            "does not implement hermes_lab.Curve; update or uninstall the package lab-curve",
        ),
        (OWN, "other = lab_curve:Own", "calls itself 'own'; give both the same name"),
    ],
)
def test_a_curve_that_cannot_be_used_is_told_with_its_package(
    text: str, point: str, said: str, install: Callable[[str, str], None]
) -> None:
    install(text, point)
    name, _, value = point.partition(" = ")
    with pytest.raises(ConfigError, match=re.escape(f"curve: {name} ({value}) {said}")):
        find_curve(name)
