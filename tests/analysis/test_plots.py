from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hermes_lab.analysis.fitting.fit import fit_series
from hermes_lab.analysis.plots import (
    BINS,
    Point,
    plot_learning_curve,
    save_learning_curve,
    style,
    success_points,
)
from hermes_lab.analysis.stats.intervals import Rate

SimulateRun = Callable[..., pd.DataFrame]
ARMS = {"off": (0.4, 0.4, 0.1), "on": (0.3, 0.9, 0.08)}


@pytest.fixture
def ax() -> Axes:
    return Figure().add_subplot()


def legend(ax: Axes) -> list[str]:
    found = ax.get_legend()
    assert found is not None
    return [text.get_text() for text in found.get_texts()]


def test_identified_curve_is_drawn_and_the_other_is_said_not_to_be(ax: Axes, simulate_run: SimulateRun) -> None:
    frame = simulate_run(ARMS, replicates=25)
    assert plot_learning_curve(ax, frame, fit_series(frame, draws=100)) is ax
    on, off = legend(ax)
    assert on.startswith("skills on: initial 0.")
    assert off == "skills off: curve not identified"
    # The points of two arms, and one curve.
    assert sum(len(line.get_xdata()) == 200 for line in ax.lines) == 1


def test_few_runs_get_points_and_no_curve(ax: Axes, simulate_run: SimulateRun) -> None:
    frame = simulate_run(ARMS, replicates=2, tasks=30)
    plot_learning_curve(ax, frame, fit_series(frame))
    assert all("not identified" in label for label in legend(ax))
    assert not any(len(line.get_xdata()) == 200 for line in ax.lines)


def test_arms_keep_their_colour_alone_and_together(simulate_run: SimulateRun) -> None:
    frame = simulate_run(ARMS, replicates=1, tasks=3)
    together, alone = Figure().add_subplot(), Figure().add_subplot()
    plot_learning_curve(together, frame, {})
    plot_learning_curve(alone, frame[frame["arm"] == "off"], {})
    assert together.lines[-1].get_color() == alone.lines[0].get_color()


def test_points_are_where_the_curve_has_their_episodes(ax: Axes, simulate_run: SimulateRun) -> None:
    """Also with many series and a long run, where points of several arms meet at one n."""
    frame = simulate_run({**ARMS, "oracle": (0.9, 0.9, 0.1), "placebo": (0.4, 0.4, 0.1)}, replicates=3, tasks=10)
    fits = fit_series(frame, draws=0)
    plot_learning_curve(ax, frame, fits)
    for container in ax.containers:
        at = [float(n) for n in container.lines[0].get_xdata()]
        # Side by side with those of other arms, so moved by at most a hundredth of the axis.
        assert at == pytest.approx(sorted(set(frame["experience"].astype(float))), abs=0.01 * frame["experience"].max())
        assert [round(n) for n in at] == sorted(fits["skills on"].counts.n_N.tolist())
    firsts = [float(container.lines[0].get_xdata()[0]) for container in ax.containers]
    assert len(set(firsts)) == len(ax.containers)


def test_few_values_of_experience_are_points_of_their_own() -> None:
    rows = pd.DataFrame({"experience": [0, 0, 4, 4], "success": [True, False, True, None]}).astype(
        {"success": "boolean"}
    )
    assert success_points(rows) == [Point(0.0, Rate(1, 2)), Point(4.0, Rate(1, 1))]


def test_many_values_of_experience_are_binned_and_none_is_lost() -> None:
    rows = pd.DataFrame({"experience": range(100), "success": [True] * 100}).astype({"success": "boolean"})
    points = success_points(rows)
    assert len(points) == BINS
    assert sum(point.rate.trials for point in points) == 100


def test_picture_is_written_into_the_run(simulate_run: SimulateRun) -> None:
    frame = simulate_run(ARMS, replicates=1, tasks=5)
    path = save_learning_curve(Path(frame["run"].iloc[0]), frame, fit_series(frame))
    assert path.parts[-2:] == ("plots", "learning-curve.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    pdf = save_learning_curve(path, frame, {}, path=path.with_suffix(".pdf"))
    assert pdf.read_bytes().startswith(b"%PDF")


def test_a_picture_says_what_was_run(
    simulate_run: SimulateRun, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    frame = simulate_run(ARMS, replicates=3, tasks=5)
    frame.loc[frame.index[0], "success"] = pd.NA
    saved: list[Any] = []
    monkeypatch.setattr(style, "save", lambda figure, path: saved.append(figure))
    save_learning_curve(tmp_path, frame, {})
    (suite,), (model,) = frame["suite"].unique(), frame["model"].unique()
    lanes = len(frame[["run", "lane"]].drop_duplicates())
    about = saved[0].axes[0].get_legend().get_title().get_text().splitlines()[0]
    assert about == f"{suite}, {model}: {len(frame) - 1} scored episodes in {lanes} lanes"
