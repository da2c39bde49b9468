"""The audit: what was claimed, what the claim's own formula gives, and what a run of ours measured.

`hermes_lab.analysis.audit.published` holds the claims. A claim that contradicts itself needs no experiment; the others
are open until somebody measures them. A run measures them on its own tasks with its own model, which are not those of
the claim."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from hermes_lab.analysis.audit import published
from hermes_lab.analysis.audit.published import CURVES, TABLE_DOMAIN, TABLE_PERCENT
from hermes_lab.analysis.stats.intervals import Interval

Verdict = Literal["agrees", "contradicts", "impossible", "open"]
"""The claim against its own formula: within rounding, beyond it, no outcome could give it, or nothing to check."""
Unit = Literal["%", "points", "tasks", "skills", ""]

_AGREE = {"%": 0.0005, "tasks": 0.5}
"""How far rounding may part what was printed from what was computed, in the unit of the claim (% as a share)."""


class Measured(NamedTuple):
    """What a run says of a claim. `value` is None where it says nothing, and `note` then says why."""

    value: float | None
    interval: Interval | None = None
    note: str = ""

    def report(self) -> dict[str, Any]:
        """The measurement for JSON, in which infinity is null."""
        low, high = self.interval or (None, None)
        return {"value": _finite(self.value), "low": _finite(low), "high": _finite(high), "note": self.note}


NOT_MEASURED = Measured(None, note="not measured")
NO_MEASUREMENT = Measured(None, note="-")
"""Of arithmetic, which no run can measure."""


@dataclass(frozen=True)
class Claim:
    """One published number. `claimed` and `computed` are shares where the unit is `%`; None where there is none."""

    key: str
    """`domain/what/n`, stable."""
    what: str
    claimed: float | None
    computed: float | None
    unit: Unit
    verdict: Verdict
    why: str = ""
    """What `computed` is, where that is not the published formula."""
    measured: Measured = NOT_MEASURED

    def report(self) -> dict[str, Any]:
        """The claim for JSON."""
        return {
            "key": self.key,
            "what": self.what,
            "claimed": self.claimed,
            "computed": _finite(self.computed),
            "unit": self.unit,
            "verdict": self.verdict,
            "why": self.why,
            "measured": self.measured.report(),
        }

    def cells(self) -> tuple[str, str, str, str, str]:
        """The row of a table: what, claimed, computed, measured, verdict and why."""
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
"""Of the rows of `Claim.cells`."""


class Hyperbola(NamedTuple):
    """percent(n) = start + span (n - 1) / (n - 1 + half); what it misses, root mean square and at most, in points."""

    start: float
    span: float
    half: float
    rmse: float
    worst: float


def audit(measurements: Mapping[str, Measured] | None = None) -> list[Claim]:
    """Every claim with what its own arithmetic gives; `hermes_lab.analysis.audit.measurements.measure` gives the third
    column."""
    found = measurements or {}
    claims = [*_table(), *_thresholds(), *_case_study(), *_bookkeeping(), *_open()]
    return [replace(claim, measured=found.get(claim.key, claim.measured)) for claim in claims]


def grim(percent: float, trials: int, decimals: int = 0) -> bool:
    """Whether some count out of `trials` gives this percentage as printed (Brown and Heathers 2017, the GRIM test).

    Halves may have been rounded either way.
    """
    return abs(nearest_possible(percent, trials) - percent) <= 0.5 / 10.0**decimals + 1e-9


def nearest_possible(percent: float, trials: int) -> float:
    """The percentage nearest to the printed one that a count out of `trials` can give."""
    return 100 * round(percent * trials / 100) / trials


def moving_average(rate: float, uses: int, start: float = published.EMA_START) -> float:
    """What an exponential moving average is expected to show after so many uses of a skill that works at `rate`."""
    return rate + (start - rate) * (1 - published.EMA_ALPHA) ** uses


def fit_hyperbola(percent: Mapping[int, float]) -> Hyperbola:
    """Least squares of the hyperbola that begins at the value printed for n = 1."""
    from scipy.optimize import curve_fit

    n_N, percent_N = np.array([*percent], dtype=np.float64), np.array([*percent.values()])
    start = float(percent_N[n_N == 1][0])

    def curve(n: Any, span: float, half: float) -> Any:
        return start + span * (n - 1) / (n - 1 + half)

    (span, half), _ = curve_fit(curve, n_N, percent_N, p0=(40.0, 5.0))
    misses_N = percent_N - curve(n_N, span, half)
    return Hyperbola(start, float(span), float(half), _rmse(misses_N), float(np.abs(misses_N).max()))


def formula_rmse(domain: str, percent: Mapping[int, float]) -> float:
    """The root mean square by which a domain's formula misses a printed column, in points."""
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
    """The printed column, and whether it follows the formula that it is printed for."""
    rows = [
        _checked(
            f"{TABLE_DOMAIN}/success/{n}",
            f"{TABLE_DOMAIN}: success after {n} task{'' if n == 1 else 's'}",
            printed / 100,
            CURVES[TABLE_DOMAIN].success(n),
            "%",
        )
        for n, printed in TABLE_PERCENT.items()
    ]
    fit = fit_hyperbola(TABLE_PERCENT)
    why = (
        f"the column is {fit.start:.0f} + {fit.span:.1f} (n - 1) / (n - 1 + {fit.half:.2f}), "
        f"a hyperbola, to {fit.rmse:.2f} points (RMSE; at most {fit.worst:.2f})"
    )
    what, miss = f"{TABLE_DOMAIN}: the column is off its formula by (RMSE)", formula_rmse(TABLE_DOMAIN, TABLE_PERCENT)
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
            f"over its own model's asymptote ({domain}); no count of {', '.join(map(str, impossible))} gives it",
            NO_MEASUREMENT,
        ),
        _checked(
            f"{domain}/time-saved/{published.CASE_TASKS}",
            f"case study: time saved after {published.CASE_TASKS} tasks",
            saved,
            curve.time_saved(published.CASE_TASKS),
            "%",
            "by 1 - exp(-.7 rate n), which has no floor",
        ),
    ]


def _bookkeeping() -> list[Claim]:
    rate, uses = 0.3, 10
    what = f"success shown of a skill that works {100 * rate:.0f} % of the time, after {uses} uses"
    why = "computed is the truth; the average begins at 1 with alpha .1"
    row = _checked("moving-average", what, moving_average(rate, uses), rate, "%", why)
    return [replace(row, measured=NO_MEASUREMENT)]


def _open() -> list[Claim]:
    """Claims that contradict nothing: what only a measurement can tell."""
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
    """How many claims hold against their own arithmetic, in one line."""
    verdicts = [claim.verdict for claim in claims]
    checked = len(verdicts) - verdicts.count("open")
    failed = verdicts.count("contradicts") + verdicts.count("impossible")
    return f"{failed} of {checked} claims that can be checked contradict themselves; {verdicts.count('open')} are open."
