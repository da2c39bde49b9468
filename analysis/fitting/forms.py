"""Chooses among curve forms by AICc, and checks whether the choice is supported.

On a single run forms look alike and the best one is often wrong; and the mean of many exponentials looks like a power
law (Heathcote, Brown and Mewhort 2000). So a form is identified only over many runs.
"""

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from hermes_lab.analysis.curves import CURVES, Curve, curve_names, find_curve
from hermes_lab.analysis.fitting.fit import fit_curve, scored_episodes
from hermes_lab.analysis.fitting.identification import MIN_EVIDENCE
from hermes_lab.analysis.fitting.likelihood import Counts, maximize
from hermes_lab.analysis.fitting.result import Fit, aicc, degrees
from hermes_lab.analysis.fitting.wald import covariance
from hermes_lab.analysis.stats.bootstrap import MIN_CLUSTERS
from hermes_lab.errors import ConfigError

MIN_RUNS = 20
"""From this many runs on, a lead of `MIN_EVIDENCE` identifies a form."""
OVERWHELMING = 10.0
"""The lead needed with fewer runs: the others have essentially no support (Burnham and Anderson 2002)."""

_SAME = 0.01
"""Negligible loss in log-likelihood: a curve that comes this close contains the other."""


class Form(NamedTuple):
    """One form's fit. `difference` is its AICc minus the best one's, `weight` its Akaike weight."""

    name: str
    fit: Fit
    aicc: float
    difference: float
    weight: float


@dataclass(frozen=True, eq=False)
class Forms:
    """The forms, best first. `reason` says why the best one is not identified, or ""."""

    forms: tuple[Form, ...]
    reason: str

    @property
    def best(self) -> Form:
        """The form of lowest AICc."""
        return self.forms[0]

    @property
    def identified(self) -> bool:
        """Whether the data identify the form."""
        return not self.reason

    @property
    def chosen(self) -> Curve:
        """The curve to fit: the best form if it is identified, else the exponential."""
        return self.best.fit.curve if self.identified else CURVES["exponential"]

    def sentence(self) -> str:
        """The choice in one line."""
        return f"the form is {self.best.name}" if self.identified else f"form undecided: {self.reason}"

    def table(self) -> str:
        """One line per form: AICc, difference and weight."""
        width = max(len(form.name) for form in self.forms)
        head = f"{'form':{width}}  {'AICc':>9}  {'difference':>10}  {'weight':>6}"
        rows = (f"{f.name:{width}}  {f.aicc:9.1f}  {f.difference:10.1f}  {f.weight:6.2f}" for f in self.forms)
        return "\n".join((head, *rows))

    def to_dict(self) -> dict[str, Any]:
        """The choice for JSON."""
        rows = [{"form": f.name, "aicc": f.aicc, "difference": f.difference, "weight": f.weight} for f in self.forms]
        return {"best": self.best.name, "told": self.identified, "reason": self.reason, "forms": rows}


def choose_form(
    n: npt.ArrayLike,
    success: npt.ArrayLike,
    cluster: Iterable[Hashable],
    curves: Mapping[str, Curve] | None = None,
    *,
    over: str = "",
) -> Forms:
    """Fits every form (of all curves) to the episodes of `fit_curve` and orders them by AICc.

    `over` describes the clusters. Raises `ConfigError` without episodes or curves.
    """
    labels = list(cluster)
    if not (among := {name: find_curve(name) for name in curve_names()} if curves is None else curves):
        raise ConfigError("no curves to choose from; omit `curves` to use all of them")
    return compare_forms([fit_curve(n, success, labels, curve, draws=0, over=over) for curve in among.values()])


def choose_series(
    frame: pd.DataFrame, *, by: str = "series", phase: str = "learn", curves: Mapping[str, Curve] | None = None
) -> dict[str, Forms]:
    """The forms (of all curves) for each series of `hermes_lab.analysis.fitting.fit.scored_episodes`."""
    found = scored_episodes(frame, by, phase)
    return {name: choose_form(e.n, e.success, e.cluster, curves, over=e.over) for name, e in found.items()}


def compare_forms(fits: Iterable[Fit]) -> Forms:
    """Ranks fits of several curves to the same episodes by AICc."""
    scored = sorted(((aicc(fit.log_likelihood, degrees(fit.curve), fit.episodes), fit) for fit in fits), key=_first)
    lowest = scored[0][0]
    likely = [math.exp((lowest - score) / 2) for score, _ in scored]
    forms = tuple(
        Form(fit.curve.name, fit, score, score - lowest, share / sum(likely))
        for (score, fit), share in zip(scored, likely, strict=True)
    )
    return Forms(forms, _doubt(forms))


def _doubt(forms: tuple[Form, ...]) -> str:
    """Why the first form is not identified, or "".

    Its lead is over all forms except larger ones that contain it, which cannot fall far behind. The lead is divided by
    the dispersion between runs.
    """
    best = forms[0]
    if len(best.fit.curve.parameters) == 1:
        return "no form beats a constant"
    if best.fit.runs < MIN_CLUSTERS:
        return f"fewer than {MIN_CLUSTERS} lanes ({best.fit.runs})"
    smooth = [parameter.name for parameter in best.fit.curve.parameters if parameter.kind != "changepoint"]
    dispersion = max(covariance(best.fit, *smooth).dispersion, 1.0)
    rivals = [form for form in forms[1:] if not _contains(form.fit.curve, best.fit)]
    if not rivals:
        return f"there is no form to compare {best.name} with"
    rival = rivals[0]
    lead = rival.difference / dispersion
    needed = MIN_EVIDENCE if best.fit.runs >= MIN_RUNS else OVERWHELMING
    if lead >= needed:
        return ""
    allowed = f", {lead:.1f} after allowing for differences between lanes," if dispersion > 1 else ""
    ahead = f"{best.name} leads {rival.name} by delta AICc {rival.difference:.1f}{allowed}"
    return f"{ahead} over {best.fit.over}; a lead of {needed:.0f} is needed"


def _contains(curve: Curve, fit: Fit) -> bool:
    """Whether a curve with more parameters contains the fitted one, i.e. reproduces its predictions exactly."""
    if len(curve.parameters) <= len(fit.curve.parameters):
        return False
    pooled = fit.counts.pooled()
    p_N = fit.predict(pooled.n_N)
    predicted = Counts(pooled.n_N, pooled.trials, pooled.trials * p_N)
    own = float((predicted.successes * np.log(p_N) + (predicted.trials - predicted.successes) * np.log1p(-p_N)).sum())
    return own - float(maximize(curve, predicted, curve.starts(pooled.n_N, p_N)).log_likelihood_B[0]) < _SAME


def _first(pair: tuple[float, Fit]) -> float:
    return pair[0]
