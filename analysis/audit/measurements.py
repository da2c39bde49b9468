"""A run's measurements of the published claims, per domain; see `hermes_lab.analysis.audit.claims`."""

import math
from typing import NamedTuple

import numpy as np
import pandas as pd

from hermes_lab.analysis.audit.claims import Measured
from hermes_lab.analysis.audit.published import CASE_TASKS, TABLE_PERCENT, THRESHOLD
from hermes_lab.analysis.fitting.fit import OUT_OF_RANGE, scored_episodes
from hermes_lab.analysis.fitting.result import Fit
from hermes_lab.analysis.stats.intervals import Interval
from hermes_lab.analysis.survival.times import fit_times
from hermes_lab.errors import ConfigError

LEARNING_ARM = "on"
"""The arm that learns, which is what the claims are about."""
AREA_TASKS = 100


class Measurements(NamedTuple):
    """Measurements by claim key, and for each domain of the run a note on the fit behind them."""

    by_claim: dict[str, Measured]
    notes: list[str]


def measure(frame: pd.DataFrame, *, max_listed: int | None = None, draws: int = 400, seed: int = 0) -> Measurements:
    """Measures the claims on the learning arm of a `load_episodes` frame, each domain separately.

    `max_listed` is the run's `skills.max_listed`, which limits the number of skills in a prompt; None if unknown.

    There is no measurement without an identified curve, or beyond the tasks that were run. Raises `ConfigError` if the
    learning arm has no judged episode or several sets of weights.
    """
    learning = frame[(frame["arm"] == LEARNING_ARM) & (frame["phase"] == "learn")]
    learnt = learning[learning["success"].notna()]
    if learnt.empty:
        raise ConfigError(
            f"no judged episode in arm `{LEARNING_ARM}`, so there is no learning to compare with the claims"
        )
    if len(learnt[["model", "adapter", "adapter_digest"]].drop_duplicates()) > 1:
        raise ConfigError("several sets of weights: audit a run with a single one")
    found, notes = {"skills/100": _skills(learning[learning["status"] == "ok"], max_listed)}, []
    # One arm under one set of weights is one series, whose name has no comma.
    fits = {
        name.partition(", ")[2]: each.fit(draws=draws, seed=seed)
        for name, each in scored_episodes(learning, "domain").items()
    }
    for domain in map(str, learnt["domain"].unique()):
        fit = fits.get(domain)
        if fit is None:
            notes.append(f"{domain}: not measured: {OUT_OF_RANGE}")
            continue
        notes.append(f"{domain}: {fit.sentence()}")
        found |= {f"{domain}/{key}": value for key, value in _success(fit, fit.reach).items()}
        found[f"{domain}/time-saved/{CASE_TASKS}"] = _time_saved(learning, domain, fit.reach, draws, seed)
    return Measurements(found, notes)


def _success(fit: Fit, end: float) -> dict[str, Measured]:
    keys = [
        "initial",
        "asymptote",
        "rate",
        "tasks-to-80",
        f"area/{AREA_TASKS}",
        *(f"success/{n}" for n in TABLE_PERCENT),
    ]
    if not fit.identified:
        return dict.fromkeys(keys, Measured(None, note="not identified"))
    found = {estimate.name: Measured(estimate.value, estimate.interval) for estimate in fit.estimates}
    reached = fit.threshold(THRESHOLD)
    outside = end < reached.n < math.inf
    found["tasks-to-80"] = _beyond(end) if outside else Measured(reached.n, reached.interval)
    for n in TABLE_PERCENT:
        at = np.array([float(n)])
        low, high = fit.band(at)[:, 0]
        inside = Measured(float(fit.predict(at)[0]), Interval(float(low), float(high)))
        found[f"success/{n}"] = inside if n <= end else _beyond(end)
    area = Measured(fit.curve.area(fit.parameters_P, AREA_TASKS))
    found[f"area/{AREA_TASKS}"] = area if end + 1 >= AREA_TASKS else _beyond(end)
    return found


def _time_saved(learning: pd.DataFrame, domain: str, end: float, draws: int, seed: int) -> Measured:
    try:
        fit = fit_times(learning, domain=domain, draws=draws, seed=seed)
    except ConfigError:
        return Measured(None, note="not measured")
    if not fit.identified:
        return Measured(None, note="not identified")
    n = min(end, CASE_TASKS)
    return Measured(*fit.saved(n), note="" if n == CASE_TASKS else f"after {n:.0f} tasks")


def _skills(finished: pd.DataFrame, most: int | None) -> Measured:
    """Mean number of skills in the prompt after as many tasks as all lanes finished; deprecated skills are not
    listed."""
    lane = ["run", "lane"]
    end = int(finished.groupby(lane)["experience"].max().min())
    inside = finished[finished["experience"] <= end]
    last = inside[inside["experience"] == inside.groupby(lane)["experience"].transform("max")]
    limit = "" if most is None else f" (at most {most:,})"
    return Measured(float(last["skills_listed"].mean()), note=f"listed{limit} after {end} tasks")


def _beyond(end: float) -> Measured:
    return Measured(None, note=f"not measured: the run has only {end + 1:.0f} tasks")
