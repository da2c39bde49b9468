"""`fit`: learning curves."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from hermes_lab.errors import ConfigError
from hermes_lab.runners import output
from hermes_lab.runners.commands import options
from hermes_lab.runners.commands.summary import say_warnings_of, warnings_of_runs
from hermes_lab.text.printable import printable

if TYPE_CHECKING:
    import pandas as pd

    from hermes_lab.analysis.curves import Curve
    from hermes_lab.analysis.data.runs import OpenRun
    from hermes_lab.analysis.fitting.fit import Episodes, Refit
    from hermes_lab.analysis.fitting.result import Fit, Method

By = StrEnum("By", ["series", "domain", "family"])
Phase = StrEnum("Phase", ["learn", "heldout"])
Executor = StrEnum("Executor", ["local", "ray"])
Interval = StrEnum("Interval", ["bootstrap", "profile", "wald"])
_COLUMNS = (
    *("run", "lane", "arm", "world", "weights", "phase", "domain", "family", "experience", "success"),
    *("model", "adapter", "adapter_digest", "suite", "task_id", "replicate"),
)
"""The columns of `load_episodes` that fits and their plot use."""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        "fit",
        help="Fit learning curves and plot them into plots/ of the first run.\n\n"
        "hermes-lab fit runs/demo\n\nhermes-lab fit runs/base runs/tuned\n\n"
        "hermes-lab fit runs/demo --curve best --threshold 0.8\n\nhermes-lab fit runs/demo --interval profile\n\n"
        "hermes-lab fit runs/demo --pool\n\nhermes-lab fit runs/demo --plot curve.pdf   (or .svg, .png)",
    )(fit)


def fit(
    runs: Annotated[list[Path], typer.Argument(help="Run folders.", show_default=False)],
    curve: Annotated[
        str,
        typer.Option(help="The curve's form, or `best`: compare all forms and use the best one if they differ enough."),
    ] = "exponential",
    by: Annotated[
        By, typer.Option(help="Fit one curve per series (arm and weights), or per domain or family within it.")
    ] = By.series,
    pool: Annotated[
        bool, typer.Option("--pool", help="Partially pool estimates across domains (or families).")
    ] = False,
    phase: Annotated[
        Phase, typer.Option(help="Which tasks: those the agent learned from, or the held-out ones.")
    ] = Phase.learn,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Also report the number of tasks needed to reach this success rate, e.g. 0.8.", min=0.0, max=1.0
        ),
    ] = None,
    interval: Annotated[
        Interval,
        typer.Option(
            help="Confidence intervals of the parameters. bootstrap: resamples lanes (or worlds); profile: profile "
            "likelihood, better for skewed likelihoods; wald: inaccurate near bounds. Bands and thresholds always use "
            "the bootstrap."
        ),
    ] = Interval.bootstrap,
    draws: Annotated[
        int, typer.Option(help="Bootstrap draws over lanes (or worlds): 0 for no intervals, or at least 200.", min=0)
    ] = 400,
    executor: Annotated[
        Executor, typer.Option(help="Where to run the bootstrap: in this process, or on the cluster of $RAY_ADDRESS.")
    ] = Executor.local,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Where to plot: a .png, .svg or .pdf file.", show_default="plots/learning-curve.png in the first run"
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """`hermes-lab fit`."""
    from hermes_lab.analysis.comparison.sequential import whole_lanes
    from hermes_lab.analysis.curves import find_curve
    from hermes_lab.analysis.data.load import load_episodes
    from hermes_lab.analysis.data.runs import open_runs
    from hermes_lab.analysis.fitting.fit import refuse_few_draws

    if curve != "best":
        find_curve(curve)
    refuse_few_draws(draws)
    if plot:
        from hermes_lab.analysis.plots.style import check_suffix

        check_suffix(plot)
        if pool or by != By.series:
            raise ConfigError("--plot: a plot has one curve per series; leave out --by and --pool")
    if pool and by == By.series:
        by = By.domain
    opened = open_runs(*runs)
    for run in opened:
        if run.manifest.command == "uplift":
            raise ConfigError(
                f"{run.folder}: an uplift run has no learning curve; show it with `skills uplift {run.folder}`"
            )
    frame = load_episodes(*runs, columns=_COLUMNS)
    frame = frame[frame["phase"] == phase.value]
    for folder in runs:
        frame = whole_lanes(folder, frame)
    if not frame["success"].notna().any():
        raise ConfigError(f"{runs[0]}: {_unscored(runs, phase)}")
    if pool and interval != Interval.bootstrap:
        raise ConfigError("--pool: pooled curves have their own intervals; leave out --interval")
    if pool and executor != Executor.local:
        raise ConfigError("--pool: pooled curves are fitted in this process; leave out --executor")
    if pool:
        _pooled(frame, curve, by, phase, draws, opened, json=json)
        return
    with _refits(executor) as refit:

        def fit_episodes(episodes: "Episodes", form: "Curve") -> "Fit":
            return episodes.fit(form, draws=draws, interval=cast("Method", interval.value), refit=refit)

        lines, reports, fits = _fitted(frame, curve, by, phase, threshold, fit_episodes)
    # The plot shows one curve per series.
    picture = _picture(runs[0], frame, fits, phase, plot) if by == By.series else None
    if json:
        told = {"warnings": _warnings(opened)}
        output.print_json(reports | told | ({"plot": str(picture)} if picture else {}))
        return
    for line in lines:
        typer.echo(line)
    for run in opened:
        if run.manifest.agent:
            typer.echo(f"agent of {run.folder}: {run.manifest.agent}, {run.manifest.config['model']['name']}")
    for warning in _limits(opened):
        typer.echo(warning)
    if picture:
        typer.echo(f"plot: {picture}")
    say_warnings_of(*runs)


def _unscored(runs: "Sequence[Path]", phase: Phase) -> str:
    """Why no episode of these runs is scored, and what to do."""
    from hermes_lab.analysis.data.columns import read_columns

    columns = ["phase", "status", "error_kind", "error_message"]
    rows = [rest for run in runs for of, *rest in read_columns(run, columns) if of == phase.value]
    errors = Counter(f"{kind}: {printable(message)}" for status, kind, message in rows if status == "errored")
    if errors and errors.total() == len(rows):
        ((most, _),) = errors.most_common(1)
        return f"{len(rows):,} of {len(rows):,} episodes errored (most often {most}); --resume runs them again"
    if phase == Phase.learn:
        return "no episode is scored, so there is no curve; the tasks need a verifier"
    return "no held-out episode is scored; set learning.heldout.tasks to add held-out tasks to a run"


@contextmanager
def _refits(executor: Executor) -> "Iterator[Refit]":
    if executor == Executor.local:
        from hermes_lab.analysis.fitting.fit import refit

        yield refit
        return
    from hermes_lab.runners.engine.executors import need_ray

    with need_ray("--executor"):
        from hermes_lab.runners.ray.fit import refits_on_ray
    with refits_on_ray() as spread:
        yield spread


def _fitted(
    frame: "pd.DataFrame",
    curve: str,
    by: By,
    phase: Phase,
    threshold: float | None,
    fit_episodes: "Callable[[Episodes, Curve], Fit]",
) -> tuple[list[str], dict[str, Any], dict[str, "Fit"]]:
    """The lines to print, the same as JSON, and the fits."""
    from hermes_lab.analysis.curves import find_curve
    from hermes_lab.analysis.fitting.fit import refuse_mixed, scored_episodes
    from hermes_lab.analysis.fitting.forms import choose_form

    if by.value == "series":
        refuse_mixed(frame)
    lines, reports, fits = [], {}, {}
    for name, episodes in scored_episodes(frame, by.value, phase.value).items():
        extra: dict[str, Any] = {}
        if curve == "best":
            forms = choose_form(episodes.n, episodes.success, episodes.cluster, over=episodes.over)
            chosen = forms.chosen
            extra["forms"] = forms.to_dict()
            instead = "" if forms.identified else f"; the {chosen.name} is fitted instead"
            lines += [f"{name}, curves compared:", forms.table(), f"{name}: {forms.sentence()}{instead}"]
        else:
            chosen = find_curve(curve)
        fits[name] = fitted = fit_episodes(episodes, chosen)
        lines.append(f"{name}: {fitted.sentence()}")
        if threshold is not None and fitted.identified:
            when = fitted.threshold(threshold)
            extra["threshold"] = when._asdict()
            lines.append(f"{name}: {when.sentence()}")
        elif threshold is not None:
            lines.append(f"{name}: {100 * threshold:.0f} %: not measured, since the curve is not identified")
        reports[name] = fitted.to_dict() | extra
    return lines, reports, fits


def _limits(opened: "Sequence[OpenRun]") -> "Iterator[str]":
    """What limits the meaning of a curve of these runs: they differ, are not finished, or their rules change."""
    from hermes_lab.analysis.data.runs import differences

    yield from differences({run.folder: run.manifest for run in opened})
    for run in opened:
        yield from filter(None, (run.warning(), _drift(run.folder)))


def _warnings(opened: "Sequence[OpenRun]") -> list[str]:
    """All warnings, for JSON."""
    of_runs = warnings_of_runs(*(run.folder for run in opened))
    return [*_limits(opened), *(f"{run}: {warning}" for run, warning in of_runs)]


def _pooled(
    frame: "pd.DataFrame", curve: str, by: By, phase: Phase, draws: int, opened: "Sequence[OpenRun]", *, json: bool
) -> None:
    from hermes_lab.analysis.curves import find_curve
    from hermes_lab.analysis.fitting.fit import OUT_OF_RANGE, fit_series
    from hermes_lab.analysis.fitting.forms import MIN_RUNS
    from hermes_lab.analysis.fitting.pooling import pool_series

    if curve == "best":
        raise ConfigError("--pool: all groups share one form; choose it with --curve")
    form = find_curve(curve)
    pooled = pool_series(frame, form, by=by.value, phase=phase.value)
    alone = fit_series(frame, form, by=by.value, phase=phase.value, draws=draws)
    left_out = [f"{name}: not measured: {OUT_OF_RANGE}" for name in _groups_of(frame, by, phase) if name not in alone]
    if json:
        reports = {name: fitted.to_dict() for name, fitted in alone.items()}
        groups = {name: found.to_dict() for name, found in pooled.items()}
        output.print_json(reports | {"warnings": [*left_out, *_warnings(opened)], "pooled": groups})
        return
    for series, found in pooled.items():
        typer.echo(f"{series}: {found.sentence()}")
        for group in found.groups:
            own = alone[f"{series}, {group.name}"]  # both leave out what not all lanes reached
            stands_alone = own.identified and own.runs >= MIN_RUNS
            typer.echo(f"  {group.name}: {own.sentence() if stands_alone else group.sentence()}")
    for line in left_out:
        typer.echo(line)
    for warning in _limits(opened):
        typer.echo(warning)
    say_warnings_of(*(run.folder for run in opened))


def _groups_of(frame: "pd.DataFrame", by: By, phase: Phase) -> list[str]:
    """The names of the curves that the scored episodes of the frame could have."""
    from hermes_lab.analysis.data.series import series_of

    scored = frame[(frame["phase"] == phase.value) & frame["success"].notna()]
    return sorted(set(series_of(scored) + ", " + scored[by.value].astype(str)))


def _picture(run: Path, frame: "pd.DataFrame", fits: dict[str, "Fit"], phase: Phase, plot: Path | None) -> Path:
    from hermes_lab.analysis.plots import save_learning_curve

    return save_learning_curve(run, frame, fits, phase="learn" if phase == Phase.learn else "heldout", path=plot)


def _drift(run: Path) -> str:
    """A warning if the rules change in the middle of the run, else ""."""
    from hermes_lab.manifest import read_manifest

    manifest = read_manifest(run)
    suite, learning = manifest.config["suite"], manifest.config["learning"]
    at = suite["options"].get("drift_at", 0)
    last = learning["rounds"] * learning["round_size"] if manifest.command == "learn" else suite["count"]
    inside = isinstance(at, int) and 0 < at < last
    return f"{run}: the rules change at task {at}, so a single curve does not describe this run" if inside else ""
