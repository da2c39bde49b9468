"""Checks published claims against their own formula and against a run.

`hermes_lab.analysis.audit.published` holds the claims. A claim that contradicts itself needs no experiment; the others
are open until measured. A run measures them with its own tasks and model, which differ from the claim's."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from hermes_lab.analysis.audit import published
from hermes_lab.analysis.audit.published import CURVES, TABLE_DOMAIN, TABLE_PERCENT
from hermes_lab.analysis.stats.intervals import Interval
from hermes_lab.text.counted import counted

Verdict = Literal["agrees", "contradicts", "impossible", "open"]
"""The claim against its own formula: equal within rounding, different, unreachable by any outcome, or not checkable."""
Unit = Literal["%", "points", "tasks", "skills", ""]

_AGREE = {"%": 0.0005, "tasks": 0.5}
"""Rounding tolerance between printed and computed values, in the unit of the claim (% as a share)."""


class Measured(NamedTuple):
    """A run's measurement of a claim. `value` is None if it was not measured; `note` then says why."""

    value: float | None
    interval: Interval | None = None
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The measurement for JSON; infinity becomes null."""
        low, high = self.interval or (None, None)
        return {"value": _finite(self.value), "low": _finite(low), "high": _finite(high), "note": self.note}


NOT_MEASURED = Measured(None, note="not measured")
NO_MEASUREMENT = Measured(None, note="-")
"""For claims about arithmetic, which no run can measure."""


@dataclass(frozen=True)
class Claim:
    """One published number. `claimed` and `computed` are shares if the unit is `%`; None if there is no value."""

    key: str
    """Stable identifier `domain/what/n`."""
    what: str
    claimed: float | None
    computed: float | None
    unit: Unit
    verdict: Verdict
    why: str = ""
    """How `computed` was derived, if not by the published formula."""
    measured: Measured = NOT_MEASURED

    def to_dict(self) -> dict[str, Any]:
        """The claim for JSON."""
        return {
            "key": self.key,
            "what": self.what,
            "claimed": self.claimed,
            "computed": _finite(self.computed),
            "unit": self.unit,
            "verdict": self.verdict,
            "why": self.why,
            "measured": self.measured.to_dict(),
        }

    def cells(self) -> tuple[str, str, str, str, str]:
        """A table row: what, claimed, computed, measured, verdict and why."""
        verdict = f"{self.verdict}: {self.why}" if self.why else self.verdict
        measured = self._shown(self.measured.value) if self.measured.value is not None else self.measured.note
        if self.measured.interval:
            measured += " (" + " to ".join(self._shown(end) for end in self.measured.interval) + ")"
        if self.measured.value is not None and self.measured.note:
            measured += f" {self.measured.note}"
        return self.what, self._shown(self.claimed), self._shown(self.computed), measured, verdict

    def _shown(self, value: float | None) -> str:
        if value is None:
            return "-"
        if math.isinf(value):
            return "never"
        if self.unit == "%":
            return f"{100 * value:.1f} %"
        return f"{value:.2f} points" if self.unit == "points" else f"{value:.3g}"


HEADER = ("claim", "claimed", "computed", "measured", "verdict")
"""Column titles for `Claim.cells`."""


class Hyperbola(NamedTuple):
    """percent(n) = start + span (n - 1) / (n - 1 + half), with its RMSE and largest residual, in points."""

    start: float
    span: float
    half: float
    rmse: float
    worst: float


def audit(measurements: Mapping[str, Measured] | None = None) -> list[Claim]:
    """Every claim with the value of its own formula; `measurements` come from
    `hermes_lab.analysis.audit.measurements.measure`."""
    found = measurements or {}
    claims = [*_table(), *_thresholds(), *_case_study(), *_bookkeeping(), *_open()]
    return [replace(claim, measured=found.get(claim.key, claim.measured)) for claim in claims]


def grim(percent: float, trials: int, decimals: int = 0) -> bool:
    """Whether some count out of `trials` rounds to this percentage (GRIM test, Brown and Heathers 2017).

    Halves may be rounded either way.
    """
    return abs(nearest_possible(percent, trials) - percent) <= 0.5 / 10.0**decimals + 1e-9


def nearest_possible(percent: float, trials: int) -> float:
    """The closest percentage that a count out of `trials` can give."""
    return 100 * round(percent * trials / 100) / trials


def moving_average(rate: float, uses: int, start: float = published.EMA_START) -> float:
    """Expected exponential moving average after `uses` uses of a skill with success rate `rate`."""
    return rate + (start - rate) * (1 - published.EMA_ALPHA) ** uses


def fit_hyperbola(percent: Mapping[int, float]) -> Hyperbola:
    """Least-squares fit of a hyperbola through the printed value at n = 1."""
    from scipy.optimize import curve_fit

    n_N, percent_N = np.array([*percent], dtype=np.float64), np.array([*percent.values()])
    start = float(percent_N[n_N == 1][0])

    def curve(n: Any, span: float, half: float) -> Any:
        return start + span * (n - 1) / (n - 1 + half)

    (span, half), _ = curve_fit(curve, n_N, percent_N, p0=(40.0, 5.0))
    misses_N = percent_N - curve(n_N, span, half)
    return Hyperbola(start, float(span), float(half), _rmse(misses_N), float(np.abs(misses_N).max()))


def formula_rmse(domain: str, percent: Mapping[int, float]) -> float:
    """RMSE between a domain's formula and a printed column, in points."""
    return _rmse([100 * CURVES[domain].success(n) - printed for n, printed in percent.items()])


def _finite(value: float | None) -> float | None:
    return None if value is None or math.isinf(value) else value


def _rmse(misses: Iterable[float]) -> float:
    squares = [miss**2 for miss in misses]
    return math.sqrt(sum(squares) / len(squares))


def _checked(key: str, what: str, claimed: float, computed: float, unit: Unit, why: str = "") -> Claim:
    agrees = abs(claimed - computed) <= _AGREE.get(unit, 0.0) + 1e-9
    return Claim(key, what, claimed, computed, unit, "agrees" if agrees else "contradicts", why)


def _table() -> list[Claim]:
    """Whether the printed table follows its own formula."""
    rows = [
        _checked(
            f"{TABLE_DOMAIN}/success/{n}",
            f"{TABLE_DOMAIN}: success after {counted(n, 'task')}",
            printed / 100,
            CURVES[TABLE_DOMAIN].success(n),
            "%",
        )
        for n, printed in TABLE_PERCENT.items()
    ]
    fit = fit_hyperbola(TABLE_PERCENT)
    why = (
        f"the column is {fit.start:.0f} + {fit.span:.1f} (n - 1) / (n - 1 + {fit.half:.2f}), "
        f"a hyperbola, within {fit.rmse:.2f} points (RMSE; at most {fit.worst:.2f})"
    )
    what, miss = (
        f"{TABLE_DOMAIN}: the column's distance from its formula (RMSE)",
        formula_rmse(TABLE_DOMAIN, TABLE_PERCENT),
    )
    form = _checked(f"{TABLE_DOMAIN}/form", what, 0.0, miss, "points", why)
    return [*rows, replace(form, measured=NO_MEASUREMENT)]


def _thresholds() -> list[Claim]:
    return [
        _checked(
            f"{domain}/tasks-to-80",
            f"{domain}: tasks to 80 %",
            printed,
            CURVES[domain].tasks_to(published.THRESHOLD),
            "tasks",
        )
        for domain, printed in published.TASKS_TO_THRESHOLD.items()
    ]


def _case_study() -> list[Claim]:
    domain, curve = published.CASE_DOMAIN, CURVES[published.CASE_DOMAIN]
    first, tasks = published.CASE_FIRST_PERCENT, published.CASE_RANGES[0]
    highest, saved = published.CASE_HIGHEST_PERCENT, published.CASE_TIME_SAVED_PERCENT / 100
    impossible = sorted({size for size in published.CASE_RANGES if not grim(highest, size)})
    return [
        Claim(
            "case/first-range",
            f"case study: success in iterations 1-{tasks}",
            first / 100,
            nearest_possible(first, tasks) / 100,
            "%",
            "agrees" if grim(first, tasks) else "impossible",
            f"no count of {tasks} gives {first:.0f} % (GRIM)",
            NO_MEASUREMENT,
        ),
        Claim(
            "case/highest",
            "case study: highest success of a range",
            highest / 100,
            curve.asymptote,
            "%",
            "agrees" if highest / 100 <= curve.asymptote else "contradicts",
            f"above its own model's asymptote ({domain}); no count out of {', '.join(map(str, impossible))} gives it",
            NO_MEASUREMENT,
        ),
        _checked(
            f"{domain}/time-saved/{published.CASE_TASKS}",
            f"case study: time saved after {published.CASE_TASKS} tasks",
            saved,
            curve.time_saved(published.CASE_TASKS),
            "%",
            "computed as 1 - exp(-.7 rate n), which has no floor",
        ),
    ]


def _bookkeeping() -> list[Claim]:
    rate, uses = 0.3, 10
    what = f"success rate shown for a skill that works {100 * rate:.0f} % of the time, after {uses} uses"
    why = "computed is the true rate; the moving average starts at 1 with alpha .1"
    row = _checked("moving-average", what, moving_average(rate, uses), rate, "%", why)
    return [replace(row, measured=NO_MEASUREMENT)]


def _open() -> list[Claim]:
    """Claims without a contradiction, which only a measurement can decide."""
    skills = float(int(published.SKILLS_PER_TASK * 100))
    rows = [Claim("skills/100", "skills after 100 tasks", skills, None, "skills", "open")]
    for domain, curve in CURVES.items():
        area = curve.area(100)
        rows += [
            Claim(f"{domain}/initial", f"{domain}: initial success", curve.initial, None, "%", "open"),
            Claim(f"{domain}/asymptote", f"{domain}: asymptote", curve.asymptote, None, "%", "open"),
            Claim(f"{domain}/rate", f"{domain}: rate", curve.rate, None, "", "open"),
            Claim(f"{domain}/area/100", f"{domain}: successes in 100 tasks", None, area, "tasks", "open"),
        ]
    return rows


def summary(claims: Iterable[Claim]) -> str:
    """One line: how many claims contradict their own formula."""
    verdicts = [claim.verdict for claim in claims]
    checked = len(verdicts) - verdicts.count("open")
    failed = verdicts.count("contradicts") + verdicts.count("impossible")
    return f"{failed} of {checked} checkable claims contradict themselves; {verdicts.count('open')} are open."
