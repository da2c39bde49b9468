import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from hermes_lab.analysis.curves import CURVES
from hermes_lab.analysis.fitting import forms as forms_module
from hermes_lab.analysis.fitting.fit import fit_curve
from hermes_lab.analysis.fitting.forms import Forms, choose_form, choose_series
from hermes_lab.errors import ConfigError

SimulateRun = Callable[..., pd.DataFrame]
N = np.arange(60.0)
RISE = (0.2, 0.9, 0.15)


def choose(name: str, truth: tuple[float, ...], runs: int, *, seed: int = 0, spread: float = 0.0) -> Forms:
    draw = np.random.default_rng(seed)
    shift = draw.uniform(-spread, spread, size=(runs, 1))
    success = draw.random((runs, N.size)) < np.clip(CURVES[name].value(np.array(truth), N) + shift, 0, 1)
    return choose_form(np.tile(N, runs), success.ravel(), np.repeat(np.arange(runs), N.size))


@pytest.mark.parametrize(
    ("name", "truth"),
    [
        ("exponential", RISE),
        ("logistic", (0.1, 0.9, 0.25, 25.0)),
        ("changepoint", (0.3, 0.8, 25.0)),
    ],
)
def test_many_runs_tell_the_form(name: str, truth: tuple[float, ...]) -> None:
    forms = choose(name, truth, 200)
    assert forms.best.name == name
    assert forms.identified, forms.reason
    assert forms.sentence() == f"the form is {name}"


def test_hyperbola_is_chosen_but_not_told_from_the_larger_form_that_mimics_it() -> None:
    forms = choose("hyperbolic", (0.1, 0.95, 4.0), 200)
    assert forms.best.name == "hyperbolic"
    assert "hyperbolic leads apex by delta AICc" in forms.reason


@pytest.mark.parametrize("seed", range(5))
def test_one_run_tells_no_form(seed: int) -> None:
    forms = choose("exponential", RISE, 1, seed=seed)
    assert not forms.identified
    assert forms.sentence().startswith("form undecided: ")


def test_few_runs_need_an_overwhelming_lead() -> None:
    forms = choose("changepoint", (0.3, 0.6, 25.0), 12)
    assert forms.reason.endswith("; a lead of 10 is needed")
    assert choose("changepoint", (0.1, 0.9, 25.0), 12).identified


@pytest.mark.parametrize("seed", range(3))
def test_flat_success_is_no_form_of_learning(seed: int) -> None:
    forms = choose("constant", (0.6,), 20, seed=seed)
    assert not forms.identified


def test_lanes_that_disagree_make_a_lead_count_for_less() -> None:
    def lead(forms: Forms) -> float:
        return float(forms.reason.split(" after allowing for differences between lanes")[0].split()[-1])

    forms = choose("exponential", (0.35, 0.65, 0.08), 25, spread=0.3)
    assert not forms.identified
    assert lead(forms) < 0.7 * min(form.difference for form in forms.forms[1:] if form.name != "apex")


def test_weights_are_akaikes_and_differences_are_from_the_best() -> None:
    forms = choose("exponential", RISE, 10)
    assert forms.forms[0].difference == 0
    assert sum(form.weight for form in forms.forms) == pytest.approx(1)
    for form in forms.forms:
        assert form.weight / forms.best.weight == pytest.approx(math.exp(-form.difference / 2))
        assert form.aicc == pytest.approx(forms.best.aicc + form.difference)
    by_name = {form.name: form for form in forms.forms}
    assert by_name["constant"].aicc - by_name["exponential"].aicc == pytest.approx(by_name["exponential"].fit.evidence)


def test_changepoint_pays_for_the_search_of_its_place() -> None:
    form = next(form for form in choose("exponential", RISE, 10).forms if form.name == "changepoint")
    assert form.aicc == pytest.approx(-2 * form.fit.log_likelihood + 2 * 5 + 60 / (600 - 6))


def test_table_has_a_line_a_form_the_best_first() -> None:
    forms = choose("exponential", RISE, 10)
    head, *rows = forms.table().splitlines()
    assert head.split() == ["form", "AICc", "difference", "weight"]
    assert [row.split()[0] for row in rows] == [form.name for form in forms.forms]


def test_only_the_curves_that_are_given_compete() -> None:
    chosen = choose_form(N, N > 20, np.zeros(N.size), {"constant": CURVES["constant"], "power": CURVES["power"]})
    assert {form.name for form in chosen.forms} == {"constant", "power"}


def test_single_curve_has_no_form_to_lead() -> None:
    forms = choose_form(
        np.tile(N, 10), np.tile(N > 20, 10), np.repeat(np.arange(10), N.size), {"exponential": CURVES["exponential"]}
    )
    assert forms.sentence() == "form undecided: there is no form to compare exponential with"
    with pytest.raises(ConfigError, match="no curves to choose from"):
        choose_form(N, N > 20, np.zeros(N.size), {})


@pytest.mark.parametrize("step", [1.0, 10.0, 25.0])
def test_apex_contains_the_power_law_at_its_steepest_whatever_the_round(step: float) -> None:
    n = np.arange(6) * step
    _, steepest = CURVES["power"].bounds(n)[2]
    p = CURVES["power"].value(np.array([0.1, 0.9, 0.9 * steepest]), n)
    trials = 1000
    success = np.arange(trials) < np.rint(trials * p)[:, None]
    power = fit_curve(
        np.repeat(n, trials), success.ravel(), np.tile(np.arange(trials) % 10, n.size), CURVES["power"], draws=0
    )
    assert forms_module._contains(CURVES["apex"], power)
    assert CURVES["apex"].bounds(n)[3, 1] == pytest.approx(steepest)
    assert CURVES["apex"].bounds(n)[2, 1] == pytest.approx(CURVES["exponential"].bounds(n)[2, 1])


def test_every_series_has_its_forms(simulate_run: SimulateRun) -> None:
    frame = simulate_run({"off": (0.4, 0.4, 0.1), "on": (0.1, 0.9, 0.1)}, replicates=3, tasks=20)
    assert set(choose_series(frame)) == {"skills off", "skills on"}


def test_a_perfect_step_over_two_values_is_no_failure() -> None:
    """Its covariance is singular: no direction of the parameters has any spread."""
    forms = choose_form(np.array([0.0, 1.0] * 6), np.array([True, False] * 6), np.repeat(np.arange(6), 2))
    assert not forms.identified
