"""The library: what `import hermes_lab as lab` offers for scripts and notebooks.

    import hermes_lab as lab

    run = lab.experiment("configs/experiment.yaml", "learning.rounds=10", out="runs/first")
    frame = lab.load(run)
    fits = lab.fit(frame)
    lab.plot(frame, fits)
    print(lab.compare(run, arms=("off", "on")))

Functions return objects and raise `ConfigError` or `InfraError`. They also work inside a running event loop.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from hermes_lab.config import sources as config_sources
from hermes_lab.config.schema import RunConfig
from hermes_lab.errors import ConfigError, HermesLabError, first_failure
from hermes_lab.manifest import read_manifest
from hermes_lab.records import read_episodes
from hermes_lab.runners.engine.execute import Listener, RunResult
from hermes_lab.runners.listener import ShownListener
from hermes_lab.runners.plans import describe, plan_of
from hermes_lab.runners.tracking import execute_tracked
from hermes_lab.types import Episode

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from hermes_lab.analysis.comparison.verdict import ComparisonResult
    from hermes_lab.analysis.curves import Curve
    from hermes_lab.analysis.fitting.result import Fit, Method
    from hermes_lab.runners.experiments.experiment_plan import ExperimentPlan

Source = str | Path | Mapping[str, Any] | RunConfig
"""A YAML file, a `key=value` override, a mapping of fields (nested, or with dots), or a whole configuration."""

Phase = Literal["learn", "heldout", "all"]
Grouping = Literal["series", "domain", "family"]


@dataclass(frozen=True)
class Run:
    """A run on disk. `summary` is what `hermes-lab summary --json` prints."""

    folder: Path
    summary: dict[str, Any]
    problem: str = ""
    """Why episodes are missing; "" for a complete run."""

    @property
    def complete(self) -> bool:
        """Whether every episode finished. Resume the run for the others."""
        return not self.problem

    def __fspath__(self) -> str:
        """A run can be given wherever its folder can."""
        return str(self.folder)

    def __str__(self) -> str:
        s = self.summary
        line = f"{self.folder}: {s['finished']} of {s['wanted']} episodes finished, {s['errored']} errored, "
        line += f"{s['solved']} of {s['scored']} solved"
        return "\n".join([line, *filter(None, [self.problem]), *(f"warning: {each}" for each in s["warnings"])])

    __repr__ = __str__


AnyRun = str | Path | Run


def run(*sources: Source, out: str | Path | None = None, resume: bool = False, progress: bool = True) -> Run:
    """Runs the agent on a suite's tasks, as `hermes-lab run` does, and returns when all are done.

    `sources` are merged left to right. `out` is the run's folder (default: `run.out`). `progress` shows a live table in
    a terminal or a notebook. Failed episodes are counted in the result; `resume` retries them.
    Raises `ConfigError` for an invalid configuration and `InfraError` if the model or sandbox cannot start. Ctrl-C
    raises `KeyboardInterrupt` and leaves a run that can be resumed.
    """
    return _run("run", sources, out, resume=resume, progress=progress)


def experiment(*sources: Source, out: str | Path | None = None, resume: bool = False, progress: bool = True) -> Run:
    """Runs a learning experiment (arms x replicates x worlds), as `hermes-lab experiment` does; see `run`."""
    return _run("learn", sources, out, resume=resume, progress=progress)


def plan(*sources: Source) -> "ExperimentPlan":
    """The size and the statistical power of an experiment, to `print()`. Nothing is written or started."""
    return describe(plan_of("learn", load_config(*sources), None, only_shown=True))


def load_config(*sources: Source) -> RunConfig:
    """The configuration that `run` and `experiment` use with these sources.

    They are merged left to right; a `RunConfig` replaces all before it. Raises `ConfigError` with the file and line, or
    the field, that contains the mistake.
    """
    base: dict[str, Any] | None = None
    others: list[str | Mapping[str, Any]] = []
    for source in sources:
        if isinstance(source, RunConfig):
            base, others = source.model_dump(), []
        else:
            others.append(source if isinstance(source, Mapping) else str(source))
    return config_sources.load_config(others, base)


def load(*runs: AnyRun, phase: Phase = "learn", columns: Sequence[str] | None = None) -> "pd.DataFrame":
    """One row per episode; `EpisodeRow` in `hermes_lab.analysis.data.rows` documents the columns.

    `phase` is `learn` (the tasks that the agent worked on and could learn from), `heldout` (the checks between rounds),
    or `all`. The two measure different things, so a learning curve must not mix them. Raises `ConfigError` for another
    phase, for a run that is given twice, and as `load_episodes`.
    """
    from hermes_lab.analysis.data.load import load_episodes
    from hermes_lab.analysis.data.runs import refuse_copies

    if phase not in get_args(Phase):
        raise ConfigError(f"phase: give one of {', '.join(get_args(Phase))}, not {phase!r}")
    if isinstance(columns, str):
        raise ConfigError(f"columns: give a list of names, such as [{columns!r}]")
    wanted = None if columns is None else list(dict.fromkeys([*columns, "phase"]))
    folders = _folders(runs)
    refuse_copies(folders)
    frame = load_episodes(*folders, columns=wanted)
    if phase != "all":
        frame = frame[frame["phase"] == phase].reset_index(drop=True)
    return frame if columns is None or "phase" in columns else frame.drop(columns="phase")


def episodes(run: AnyRun) -> Iterator[Episode]:
    """Every episode of a run with its whole trajectory, in the order written; for tables use `load`.

    They are read one by one. An episode that was retried comes once, as its last attempt. Raises `ConfigError` if the
    folder holds no run, or a line is invalid.
    """
    from hermes_lab.analysis.data.runs import open_runs

    (folder,) = _folders([run])
    open_runs(folder)
    return read_episodes(folder)


def fit(
    episodes: "pd.DataFrame | AnyRun",
    *,
    curve: "str | Curve" = "exponential",
    by: Grouping = "series",
    interval: "Method" = "bootstrap",
    draws: int = 400,
) -> "dict[str, Fit]":
    """Fits a learning curve to each series (arm and weights) of a frame from `load`, or of a run.

    `curve` is a name, a `Curve` of your own, or `best`: the form with the most support, or the exponential if no form
    is identified. Returns the fits by name; `print()` one to see what was found. Raises `ConfigError` for a frame that
    mixes learning and held-out episodes or, without `by`, several suites; for an unknown curve; and if no episode is
    scored. Warns of runs with different settings. Lanes that a stopping rule cut short are left out.
    """
    from hermes_lab.analysis.curves import Curve, find_curve
    from hermes_lab.analysis.fitting.fit import refuse_few_draws, refuse_mixed, scored_episodes
    from hermes_lab.analysis.fitting.forms import choose_form

    form = find_curve(curve) if isinstance(curve, str) and curve != "best" else curve
    if isinstance(form, type):  # it has all members of a Curve, too
        raise ConfigError(f"curve: give an instance, such as {form.__name__}(), not the class")
    if not isinstance(form, str | Curve):
        raise ConfigError(f"curve: give a name, or an object that implements Curve, not a {type(form).__name__}")
    refuse_few_draws(draws)
    if by not in get_args(Grouping):
        raise ConfigError(f"by: give one of {', '.join(get_args(Grouping))}, not {by!r}")
    frame, phase = _of_one_phase(episodes)
    if not frame["success"].notna().any():
        raise ConfigError("fit: no episode is scored, so there is no curve")
    if by == "series":
        refuse_mixed(frame)
    _warn_of_differences(frame)
    found = scored_episodes(frame, by, phase)
    fits = {}
    for name, each in found.items():
        best = choose_form(each.n, each.success, each.cluster, over=each.over).chosen if isinstance(form, str) else form
        fits[name] = each.fit(best, draws=draws, interval=interval)
    return fits


def plot(
    episodes: "pd.DataFrame | AnyRun",
    fits: "Mapping[str, Fit] | None" = None,
    *,
    threshold: float | None = None,
    ax: "Axes | None" = None,
    out: str | Path | None = None,
) -> "Axes":
    """Plots success against experience for each series of a frame from `load`, or of a run, and returns the axes.

    Points are means with 95 % intervals. `fits` are those of `fit`; a curve is drawn only if it is identified.
    `threshold`, such as 0.8, also marks when a curve reaches that success rate. Without `ax`, a new pyplot figure is
    made, which a notebook shows. `out` also writes it to a PNG, SVG or PDF file. Raises `ConfigError` for a frame that
    mixes learning and held-out episodes, for fits of other episodes, and for another kind of file.
    """
    from hermes_lab.analysis.fitting.fit import refuse_other_fits
    from hermes_lab.analysis.plots.learning import plot_learning_curve
    from hermes_lab.analysis.plots.style import check_suffix, save

    if threshold is not None and not 0 < threshold < 1:
        raise ConfigError(f"threshold: give a success rate between 0 and 1, such as 0.8, not {threshold:g}")
    if out is not None:
        check_suffix(Path(out))
    frame, phase = _of_one_phase(episodes)
    if frame.empty:
        raise ConfigError("plot: there is no episode to plot")
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
    refuse_other_fits(frame, fits or {}, phase)
    plot_learning_curve(ax, frame, fits or {}, threshold=threshold, phase=phase)
    if out is not None:
        save(ax, Path(out))
    return ax


def compare(before: AnyRun, after: AnyRun | None = None, *, arms: Sequence[str] = ()) -> "ComparisonResult":
    """Compares two runs, or arms of one run (default: off and on), paired by task.

    `arms`: the arms of one run, each compared with the first, or the arm to use in both runs. `print()` the result, or
    use its `comparison`; `others` has those of a third arm and more, `warnings` what may make the numbers meaningless,
    such as cut replies. Raises `ConfigError` if there is nothing to compare.
    """
    from hermes_lab.analysis.comparison.verdict import compare
    from hermes_lab.runners.commands.summary import warnings_of_runs

    first, *second = _folders([before, *([] if after is None else [after])])
    found = compare(first, second[0] if second else None, arms=arms)
    told = warnings_of_runs(first, *second, told=str(found), arms=arms)
    return replace(found, warnings=tuple(f"{run}: {warning}" for run, warning in told))


def report(*runs: AnyRun, out: str | Path | None = None, trajectories: int | None = None) -> Path:
    """Writes one self-contained HTML page (default: `report.html` in the first run) and returns its path.

    `trajectories` limits how many whole trajectories are embedded (default: up to 50 MB). Raises `ConfigError` if a
    folder is no run, or `out` is a folder.
    """
    from hermes_lab.analysis.report.page import write_report
    from hermes_lab.runners.experiments.ground_truth import from_suite

    folders = _folders(runs)
    path = Path(out) if out else folders[0] / "report.html"
    if path.is_dir():
        raise ConfigError(f"out: {path} is a folder; give a file, such as {path / 'report.html'}")
    if trajectories is not None and trajectories < 0:
        raise ConfigError(f"trajectories: give at least 0, not {trajectories}")
    write_report(folders, path, trajectories=trajectories, from_suite=from_suite(folders))
    return path


def _run(
    command: Literal["run", "learn"],
    sources: Sequence[Source],
    out: str | Path | None,
    *,
    resume: bool,
    progress: bool,
) -> Run:
    made = plan_of(command, load_config(*sources), None if out is None else Path(out))
    try:
        result = execute_tracked(made, resume=resume, listener=ShownListener() if progress else Listener())
    except (HermesLabError, BaseExceptionGroup) as error:
        told = _told(error)
        raise told from told.__cause__
    return Run(result.folder, result.summary, _problem(result))


def _told(error: HermesLabError | BaseExceptionGroup) -> BaseException:
    """An error that was raised on purpose, without the frames of the engine: its message says everything. Anything
    else, such as a mistake in a suite's code, keeps them."""
    if isinstance(error, BaseExceptionGroup) and error.split(HermesLabError)[1]:
        return error
    return first_failure(error).with_traceback(None)


def _problem(result: RunResult) -> str:
    if result.complete:
        return ""
    missing = f"{result.wanted - result.finished} of {result.wanted} episodes are missing"
    return f"{missing} ({result.spent or result.last_error}); resume=True runs them"


def _of_one_phase(episodes: "pd.DataFrame | AnyRun") -> "tuple[pd.DataFrame, Literal['learn', 'heldout']]":
    """The episodes, and whether they are learning or held-out ones. Raises `ConfigError` where they are both."""
    if isinstance(episodes, str | Path | Run):
        frame = load(episodes)
    elif hasattr(episodes, "columns"):
        frame = episodes
    else:
        raise ConfigError(f"give a run, or a frame from `load`, not a {type(episodes).__name__}")
    if missing := {"phase", "arm", "success", "experience"} - set(frame.columns):
        raise ConfigError(f"the frame lacks {', '.join(sorted(missing))}; load it without `columns`")
    phases = set(frame["phase"])
    if len(phases) > 1:
        raise ConfigError("the frame mixes learning and held-out episodes; use load(run, phase='learn')")
    return _without_cut_lanes(frame), "heldout" if phases == {"heldout"} else "learn"


def _without_cut_lanes(frame: "pd.DataFrame") -> "pd.DataFrame":
    """The frame without the lanes that a stopping rule cut short, as far as its runs are on this machine."""
    from hermes_lab.analysis.comparison.sequential import whole_lanes

    for run in _runs_of(frame):
        frame = whole_lanes(run, frame)
    return frame


def _warn_of_differences(frame: "pd.DataFrame") -> None:
    """Warns of runs that share their curves but not their settings."""
    from hermes_lab.analysis.data.runs import differences

    for line in differences({run: read_manifest(run) for run in _runs_of(frame)}):
        warnings.warn(line, stacklevel=3)


def _runs_of(frame: "pd.DataFrame") -> list[Path]:
    """The folders of a frame's runs that are on this machine."""
    folders = map(Path, dict.fromkeys(frame["run"])) if {"run", "lane"} <= set(frame.columns) else ()
    return [folder for folder in folders if (folder / "run.json").is_file()]


def _folders(runs: Sequence[AnyRun]) -> list[Path]:
    """Raises `ConfigError` without a run, for something else than a run, and for a run that is given twice."""
    if not runs:
        raise ConfigError("give a run folder")
    for each in runs:
        if not isinstance(each, str | Path | Run):
            raise ConfigError(f"give run folders, not a {type(each).__name__}")
    folders = [Path(each) for each in runs]
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise ConfigError("the same run is given twice")
    return folders
