"""Pictures of a run's episodes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from plot_frames import frame_of, said

from hermes_lab.analysis.curves.exponential import Exponential
from hermes_lab.analysis.fitting.fit import fit_series
from hermes_lab.analysis.plots import (
    figure,
    learning_figure,
    plot_effort,
    plot_lanes,
    plot_learning_curve,
    plot_recovery,
    png,
    save_learning_curve,
)

SimulateRun = Callable[..., pd.DataFrame]
Plot = Callable[[Axes, pd.DataFrame], Axes]
CURVES: tuple[Plot, ...] = (
    lambda ax, frame: plot_learning_curve(ax, frame, {}),
    plot_lanes,
    plot_effort,
    plot_recovery,
)


@pytest.fixture
def ax() -> Axes:
    return figure().add_subplot()


@pytest.mark.parametrize("plot", CURVES)
def test_of_errored_episodes_alone_the_axes_say_not_measured(ax: Axes, plot: Plot) -> None:
    frame = frame_of([{"status": "errored", "success": None, "accepted": None, "experience": n} for n in range(4)])
    assert plot(ax, frame) is ax
    assert "not measured" in said(ax)
    assert not ax.lines
    assert not ax.get_xticks().size


@pytest.mark.parametrize("plot", CURVES)
@pytest.mark.parametrize("rows", [1, 500])
def test_one_episode_and_many_series_are_drawn_without_a_warning(plot: Plot, rows: int) -> None:
    one = {"success": False, "accepted": False}
    frame = frame_of([{**one, "arm": f"arm {n % 12}", "lane": f"l{n % 12}", "experience": n} for n in range(rows)])
    made = figure(5, 4)
    plot(made.add_subplot(), frame)
    assert png(made).startswith(b"\x89PNG")


def test_held_out_tasks_are_no_part_of_a_learning_curve(ax: Axes) -> None:
    frame = frame_of([{"success": True}, {"success": False, "phase": "heldout"}])
    plot_learning_curve(ax, frame, {})
    assert list(ax.lines[0].get_ydata()) == [1.0]


def test_held_out_tasks_have_a_picture_of_their_own(tmp_path: Path) -> None:
    frame = frame_of([{"success": True}, {"success": False, "phase": "heldout"}])
    ax = figure().add_subplot()
    plot_learning_curve(ax, frame, {}, phase="heldout")
    assert list(ax.lines[0].get_ydata()) == [0.0]
    assert ax.get_ylabel().startswith("held-out")
    assert save_learning_curve(tmp_path, frame, {}, phase="heldout").name == "heldout-curve.png"


def test_an_identified_curve_tells_when_it_reaches_the_level(ax: Axes, simulate_run: SimulateRun) -> None:
    frame = simulate_run({"on": (0.3, 0.95, 0.1), "off": (0.4, 0.4, 0.1)}, replicates=25)
    fits = fit_series(frame, draws=80)
    plot_learning_curve(ax, frame, fits, threshold=0.8)
    when = fits["skills on"].threshold(0.8)
    (bar,) = [c for c in ax.collections if isinstance(c, LineCollection) and c.get_linewidths()[0] > 3]
    np.testing.assert_allclose(bar.get_segments()[0][:, 0], when.interval)
    assert f"80 % after {when.n:.0f} tasks ({when.interval.low:.0f}-{when.interval.high:.0f})" in said(ax)
    assert said(ax).count("80 %") == 1


def test_a_level_that_is_not_reached_has_no_mark(ax: Axes, simulate_run: SimulateRun) -> None:
    frame = simulate_run({"on": (0.2, 0.7, 0.1)}, replicates=25)
    fits = fit_series(frame, Exponential(), draws=80)
    assert fits["skills on"].identified
    plot_learning_curve(ax, frame, fits, threshold=0.95)
    assert "95 % not reached" in said(ax)
    assert not [line for line in ax.lines if line.get_marker() == "d"]
    assert [line for line in ax.lines if line.get_marker() == ">"]


def test_the_raster_has_a_row_for_each_lane_and_blanks_for_what_was_not_measured(ax: Axes) -> None:
    solved = [
        {"lane": f"on-r{r}-w0", "arm": "on", "experience": n, "success": n > r} for r in range(3) for n in range(4)
    ]
    solved[5]["success"] = None
    plot_lanes(ax, frame_of(solved))
    (image,) = ax.images
    cells = np.ma.filled(image.get_array().astype(float), np.nan)
    np.testing.assert_array_equal(cells, [[0, 1, 1, 1], [0, np.nan, 1, 1], [0, 0, 0, 1]])
    assert "skills on\n3 lanes" in said(ax)


def test_tasks_of_one_round_stand_beside_each_other_in_the_raster(ax: Axes) -> None:
    rows = [{"experience": 0, "place": place, "success": place == 1} for place in range(3)]
    plot_lanes(ax, frame_of(rows))
    assert np.asarray(ax.images[0].get_array()).tolist() == [[0, 1, 0]]


def test_a_figure_has_a_column_for_each_domain() -> None:
    frame = frame_of([{"domain": domain, "experience": n} for domain in ("a", "b") for n in range(3)])
    made = learning_figure(frame, {})
    assert [ax.get_title(loc="left") for ax in made.axes[:2]] == ["a", "b"]


def times(ax: Axes) -> list[Any]:
    return list(next(line for line in ax.lines if line.get_linestyle() == "-").get_ydata())


def test_episodes_that_a_budget_cut_off_are_open_marks_and_longer_than_any_median(ax: Axes) -> None:
    rows = [{"seconds": seconds, "censored": seconds == 10} for seconds in (1.0, 2.0, 3.0, 10.0, 10.0)]
    plot_effort(ax, frame_of(rows))
    assert times(ax)[0] == 3.0
    (cut,) = [line for line in ax.lines if line.get_marker() == "^"]
    assert (list(cut.get_ydata()), cut.get_markerfacecolor()) == ([10.0, 10.0], "none")
    assert "stopped by a budget (2 of 5)" in said(ax)


def test_where_half_are_cut_off_there_is_no_median(ax: Axes) -> None:
    rows = [{"seconds": 1.0, "censored": cut, "experience": n} for n in (0, 1) for cut in (n == 1, n == 1, False)]
    plot_effort(ax, frame_of(rows))
    np.testing.assert_array_equal(times(ax), [1.0, np.nan])


def test_a_short_budget_counts_as_longer_than_a_long_episode(ax: Axes) -> None:
    """Cut off after 1 s, it may have taken any time: it does not pull the median down."""
    plot_effort(ax, frame_of([{"seconds": s, "censored": s == 1} for s in (1.0, 5.0, 6.0)]))
    assert times(ax)[0] == 6.0


def test_a_model_that_reports_no_tokens_is_not_shown_to_take_none(ax: Axes) -> None:
    plot_effort(ax, frame_of([{"prompt_tokens": 0, "completion_tokens": 0}]), "tokens")
    assert "not measured: the model reports no usage" in said(ax)


def test_tokens_that_are_counted_in_part_are_not_shown(ax: Axes) -> None:
    plot_effort(ax, frame_of([{}, {"uncounted_calls": 2}]), "tokens")
    assert "not measured: no usage for calls of 1 of 2 episodes" in said(ax)


def test_recovery_is_over_the_episodes_that_met_an_error(ax: Axes) -> None:
    rows = [
        {"success": True, "accepted": True, "tool_errors": 0},  # met none
        {"success": True, "accepted": True, "tool_errors": 2},
        {"success": False, "accepted": True},
        {"success": False, "accepted": False},
        {"success": None, "accepted": None, "tool_errors": 3},  # nothing judges it
    ]
    plot_recovery(ax, frame_of(rows))
    np.testing.assert_allclose(np.asarray(ax.lines[0].get_ydata(), dtype=float), [2 / 3])
    assert "m: 2 of 3 recovered" in said(ax)
