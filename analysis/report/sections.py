"""The sections between the first screen and the episodes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import pandas as pd

from hermes_lab.analysis.comparison.continual import MEASURES, Transfer
from hermes_lab.analysis.comparison.pairs import METRICS
from hermes_lab.analysis.comparison.result import Comparison, MetricComparison
from hermes_lab.analysis.plots.palette import Look
from hermes_lab.analysis.report import charts
from hermes_lab.analysis.report.data import usual_order
from hermes_lab.analysis.report.findings import Arm, Findings
from hermes_lab.analysis.report.markup import Markup, element, join
from hermes_lab.analysis.report.words import NONE, duration, interval, number, percent, points, rate
from hermes_lab.analysis.skill_effects.treatment import sentences
from hermes_lab.analysis.stats.over_lanes import Estimate
from hermes_lab.analysis.summaries.warnings import PLAIN, ending
from hermes_lab.manifest import OWN_LOOP, RunManifest
from hermes_lab.tasks_version import tasks_version


def section(name: str, title: str, *content: str) -> Markup:
    """A section with its heading."""
    return element(
        "section", element("h2", title, id=f"{name}-title"), *content, id=name, aria_labelledby=f"{name}-title"
    )


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, text: int = 1) -> Markup:
    """A table; the first `text` columns are text, the others numbers."""
    head = element(
        "tr",
        *(element("th", title, scope="col", class_="text" if c < text else None) for c, title in enumerate(header)),
    )
    body = [
        element(
            "tr",
            *(
                element("th", cell, scope="row", class_="text")
                if c == 0
                else element("td", cell, class_="text" if c < text else None)
                for c, cell in enumerate(row)
            ),
        )
        for row in rows
    ]
    return element("div", element("table", element("thead", head), element("tbody", *body)), class_="scroll")


def none(text: str) -> Markup:
    """A placeholder for missing results."""
    return element("p", text, class_="none")


def curves(found: Findings, frame: pd.DataFrame, looks: Mapping[str, Look]) -> Markup:
    """Learning curves and fits."""
    learn = frame[(frame["phase"] == "learn") & frame["success"].notna()]
    series = {str(name): rows for name, rows in learn.groupby("series", sort=False)}
    if not series:
        return section("curves", "Learning curves", none("Not measured: no training task was scored."))
    ordered = {name: series[name] for name in sorted(series, key=usual_order)}
    legend = [
        element(
            "li",
            charts.swatch(looks[name]),
            element("b", name),
            f": {_fitted(found, name)}",
        )
        for name in ordered
    ]
    note = "Points: mean and Wilson 95 % interval. A curve and its band over lanes are drawn only if it is identified."
    return section(
        "curves", "Learning curves", charts.learning_curves(ordered, dict(found.fits), looks),
        element("ul", *legend, class_="legend"), element("p", note, class_="axis"),
    )  # fmt: skip


def _fitted(found: Findings, name: str) -> str:
    """The fit of a series; if identified, also its 80 % threshold and form."""
    fit = found.fits.get(name)
    if fit is None:
        return "not fitted"
    if not fit.identified:
        return fit.sentence()
    return f"{fit.sentence()}; {fit.threshold(0.8).sentence()}; {found.forms[name].sentence()}"


def arms(found: Findings, *, used: bool) -> Markup:
    """A row for each arm; `used` says whether the agent had skills. Plain runs have no checks."""
    plain = not found.learns and found.uplifts is None
    cost = {row["series"]: row for _, row in found.costs.iterrows()}
    columns: dict[str, Callable[[Arm], str]] = {
        "run" if plain else "arm": lambda arm: arm.name,
        "first submission": lambda arm: rate(arm.success),
        "any submission": lambda arm: rate(arm.accepted),
    }
    if not plain:
        columns["last check"] = lambda arm: rate(arm.last_check)
    if used or not plain:
        columns["loaded a skill"] = lambda arm: rate(arm.reused)
    columns |= {
        "tokens / solved": lambda arm: number(cost[arm.name]["tokens_per_solved"]) if arm.name in cost else NONE,
        "time / solved": lambda arm: duration(cost[arm.name]["seconds_per_solved"]) if arm.name in cost else NONE,
        "errored": lambda arm: str(arm.errored),
    }
    lines = [table(tuple(columns), [tuple(cell(arm) for cell in columns.values()) for arm in found.arms])]
    if not plain:
        note = "Last check: held-out tasks, at the last check that all arms of the run reached."
        lines.append(element("p", note, class_="axis"))
    if found.verdict.comparison:
        lines += _compared(found.verdict.comparison)
    return section("results", "Results", *lines) if plain else section("arms", "Arms", *lines)


def evaluations(found: Findings) -> Markup | None:
    """Plain runs by stop reason, suite, domain, family and task; None without one."""
    parts = []
    for name, content in found.evaluations.items():
        if name:
            parts.append(element("h3", name.removesuffix(", ")))
        rows = [
            ("ended", ending(reason), f"{each['count']:,}/{each['of']:,}", percent(_share(each)), NONE)
            for reason, each in content["solved_by_stop_reason"].items()
        ]
        for kind in ("suite", "domain", "family", "task"):
            of_kind = content["evaluation"][f"by_{kind}"]
            for each in of_kind[:MOST_TASKS]:
                score = each["mean_score"]
                solved = (f"{each['count']:,}/{each['of']:,}", percent(each["rate"]))
                rows.append((kind, each[kind], *solved, NONE if score is None else f"{score:.2f}"))
            if len(of_kind) > MOST_TASKS:
                rows.append((kind, f"{len(of_kind) - MOST_TASKS:,} more in summary --json", NONE, NONE, NONE))
        parts.append(table(("by", "", "solved", "share", "mean score"), rows, text=2))
    if not parts:
        return None
    note = "First submissions of judged episodes; with several samples of a task, each counts."
    return section("evaluation", "Tasks", *parts, element("p", note, class_="axis"))


MOST_TASKS = 200
"""Tasks to list; the episode list has all."""


def _share(counts: Mapping[str, int]) -> float | None:
    return counts["count"] / counts["of"] if counts["of"] else None


def _compared(comparison: Comparison) -> Iterator[Markup]:
    if comparison.unmeasured:
        yield none(f"{comparison.before} → {comparison.after}: not measured: {comparison.unmeasured}.")
    else:
        yield from _differences(comparison)
    if comparison.treatments:
        lines = (element("li", sentence) for sentence in sentences(comparison.treatments))
        yield element("ul", *lines, class_="detail")


def _differences(comparison: Comparison) -> Iterator[Markup]:
    rows = [_comparison(f"{comparison.before} → {comparison.after}", c) for c in comparison.comparisons]
    rows += [_comparison(f"{change.side}, before → {change.when}", change.comparison) for change in comparison.changes]
    yield table(
        ("compared", "measured", "where", "before", "after", "difference (95 %)", "p", "p (Holm)", "pairs"),
        rows,
        text=3,
    )
    note = (
        "p (Holm) is adjusted over the tests reported together; intervals and p are not. Differences in grey are not "
        "significant: p (Holm) is not below 0.05."
    )
    yield element("p", note, class_="axis")
    if comparison.slope:
        yield element("p", comparison.slope.sentence(comparison.before, comparison.after))
    if comparison.differences:
        yield element("p", f"The runs differ in: {'; '.join(map(str, comparison.differences))}.", class_="axis")


def _comparison(sides: str, found: MetricComparison) -> tuple[str, ...]:
    change = f"{points(found.difference)} ({interval(found.interval)})"
    return (
        sides,
        METRICS[found.metric],
        found.part,
        rate(found.before),
        rate(found.after),
        element("b", change) if found.shown else element("span", change, class_="note"),
        _p(found.p_value),
        _p(found.p_adjusted),
        f"{found.before.trials:,}",
    )


def _p(p_value: float) -> str:
    return "< 0.001" if p_value < 0.001 else f"{p_value:.2g}"


def weights_by_skills(found: Findings) -> Markup | None:
    """Weights x skills, if both vary."""
    comparison = found.verdict.comparison
    both = comparison.decomposition if comparison else None
    if both is None:
        return None
    rows = [(name, *map(rate, corners)) for name, corners in zip(both.weights_names, both.corners, strict=True)]
    header = ("weights", *(f"skills {name}" for name in both.skills_names))
    said = [element("li", line) for line in both.lines()[1:]]
    verdict = element("p", element("b", both.sentence()))
    return section("weights", "Weights × skills", verdict, table(header, rows), element("ul", *said))


def course(found: Findings) -> Markup:
    """Metrics by range of tasks."""
    rows = [
        (
            str(row["series"]),
            f"{row['first']}–{row['last']}",
            f"{percent(row['success'])} ({100 * row['low']:.0f}–{100 * row['high']:.0f})" if row["scored"] else NONE,
            ("≥ " if row["censored"] >= 0.5 else "") + duration(row["seconds"]),
            number(row["tokens"]),
            percent(row["reuse"]),
            percent(row["recovery"]),
            f"{row['skills']:.1f}",
            f"{row['episodes']:,}",
        )
        for _, row in found.course.iterrows()
    ]
    header = (
        "arm",
        "tasks",
        "first submission",
        "median time",
        "tokens",
        "reuse",
        "recovery",
        "skills listed",
        "episodes",
    )
    return section("course", "Metrics by range of tasks", table(header, rows) if rows else none("Not measured."))


def transfer(found: Findings) -> Markup:
    """R_ij of every arm, and its transfer measures."""
    if not found.transfers:
        return section("transfer", "Transfer", none("Not measured: the run has no held-out checks (learning.heldout)."))
    rows = [
        (name, *(_estimate(each, measure) for measure in MEASURES), each.over) for name, each in found.transfers.items()
    ]
    note = (
        "Held-out tasks, in points; 95 % intervals, where available, are over what the last column says. "
        + "; ".join(f"{called}: {meaning}" for called, meaning in _MEASURES.values())
    )
    matrices = [
        element("figure", element("figcaption", name), _matrix(each))
        for name, each in found.transfers.items()
        if each.blocks > 1
    ]
    header = ("arm", *(_MEASURES[measure][0] for measure in MEASURES), "over")
    return section(
        "transfer", "Transfer", table(header, rows), element("p", f"{note}.", class_="axis"),
        element("div", *matrices, class_="figures"),
    )  # fmt: skip


def _estimate(transfer: Transfer, measure: str) -> str:
    estimate: Estimate | None = getattr(transfer, measure)
    if estimate is None:
        return NONE
    value = percent(estimate.value) if measure == "acc" else points(estimate.value)
    return f"{value} ({interval(estimate.interval) if estimate.interval else 'no interval'})"


_MEASURES = {
    "acc": ("ACC", "success after all worlds"),
    "bwt": ("BWT", "effect of later worlds on earlier ones"),
    "fwt": ("FWT", "effect of earlier worlds on later ones"),
    "forgetting": ("forgetting", "best score of a world minus its final score"),
    "gain": ("gain", "last check minus the one before learning"),
    "gap": ("gap", "train minus held-out: last training tasks minus last check"),
}


def _matrix(transfer: Transfer) -> Markup:
    header = ("", *(f"world {j + 1}" for j in range(transfer.blocks)))
    head = element("tr", *(element("th", title, scope="col") for title in header))
    rows = [
        element(
            "tr",
            element("th", "before any" if i == 0 else f"after {i}", scope="row"),
            *(
                element(
                    "td",
                    NONE if score != score else percent(score),
                    class_=None if score != score else f"h{round(9 * score)}",
                )
                for score in row
            ),
        )
        for i, row in enumerate(transfer.scores.tolist())
    ]
    return element(
        "div", element("table", element("thead", head), element("tbody", *rows), class_="matrix"), class_="scroll"
    )


def endings(frame: pd.DataFrame) -> Markup | None:
    """How the episodes of each arm ended, with shares; None if all ended with an answer."""
    ended = frame[frame["status"] == "ok"].assign(how=frame["stop_reason"])
    errored = frame[frame["status"] == "errored"].assign(how="errored")
    counts = pd.concat([ended, errored]).groupby(["series", "how"]).size().unstack(fill_value=0)
    if not set(counts.columns) - {"answered"}:
        return None
    known = [reason for reason in ("answered", *PLAIN, "errored") if reason in counts]
    columns = list(dict.fromkeys([*known, *counts.columns]))
    rows = []
    for name in sorted(counts.index, key=usual_order):
        of_arm = counts.loc[name]
        cells = [f"{of_arm[how]:,} · {percent(of_arm[how] / of_arm.sum())}" if of_arm[how] else NONE for how in columns]
        rows.append((str(name), *cells))
    header = ("arm", *(ending(str(how)) for how in columns))
    note = "How episodes ended, with shares. Truncated, filtered or unparsed replies leave no answer to judge."
    return join([table(header, rows), element("p", note, class_="axis")])


def provenance(manifests: Sequence[RunManifest], names: Sequence[str], frame: pd.DataFrame, shown: str) -> Markup:
    """The runs and their configurations, and how episodes ended."""
    rows = []
    for manifest, name in zip(manifests, names, strict=True):
        model, suite = manifest.config.get("model", {}), manifest.config.get("suite", {})
        weights = f"{model.get('name', '')} {model.get('adapter', '') or ''}".strip()
        rows.append(
            (
                name,
                manifest.command,
                str(suite.get("name") or suite.get("path") or ""),
                manifest.agent or OWN_LOOP,
                weights,
                f"{manifest.wanted:,}" if manifest.wanted else NONE,
                manifest.config_digest[:12] or NONE,
                manifest.created_at[:10] or NONE,
                manifest.versions.get("hermes-lab", NONE),
                tasks_version(manifest.tasks_digest) or NONE,
            )
        )
    header = (
        "run",
        "command",
        "suite",
        "agent",
        "model",
        "episodes wanted",
        "configuration",
        "begun",
        "version",
        "tasks",
    )
    ended = endings(frame)
    return section(
        "runs", "Runs", table(header, rows, text=10), *([ended] if ended else []), element("p", shown, class_="axis")
    )
