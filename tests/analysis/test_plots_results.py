"""Pictures of what others computed."""

import json
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patches import Rectangle
from plot_frames import said

from hermes_lab.analysis.audit.claims import NOT_MEASURED, Claim, Measured, audit
from hermes_lab.analysis.plots import (
    LaneChange,
    figure,
    lane_changes,
    plot_claims,
    plot_contour,
    plot_growth,
    plot_paired_difference,
    plot_power,
    plot_survival,
    plot_training,
    plot_transfer,
    plot_uplift,
    png,
    read_metrics,
)
from hermes_lab.analysis.plots.style import PAPER
from hermes_lab.analysis.stats.intervals import Interval
from hermes_lab.errors import ConfigError


@pytest.fixture
def ax() -> Axes:
    return figure().add_subplot()


def rows(ax: Axes) -> list[str]:
    return [label.get_text() for label in ax.get_yticklabels()]


LANES = {"r0 w0": LaneChange(10, 1, 4), "r1 w0": LaneChange(10, 6, 1), "r2 w0": LaneChange(0, 0, 0)}


def test_lanes_stand_by_their_difference_and_those_without_a_pair_are_left_out(ax: Axes) -> None:
    plot_paired_difference(ax, LANES, 0.1, Interval(0.02, 0.2), before="off", after="on")
    assert rows(ax) == ["r1 w0", "r0 w0"]
    assert "overall: +10 points (+2 to +20)" in said(ax)
    assert "no difference shown" not in said(ax)


def test_changes_are_counted_by_lane_over_the_pairs_that_have_both_sides() -> None:
    told = [(0, "a", False, True), (0, "b", True, False), (0, "c", None, True), (1, "a", False, True)]
    columns = ["replicate", "task_id", "success_before", "success_after"]
    pairs = pd.DataFrame(told, columns=columns).assign(world=0)
    found = lane_changes(pairs.astype({"success_before": "boolean", "success_after": "boolean"}))
    assert found == {"replicate 0, world 0": LaneChange(2, 1, 1), "replicate 1, world 0": LaneChange(1, 1, 0)}


def test_an_interval_with_zero_in_it_is_said_to_show_no_difference(ax: Axes) -> None:
    plot_paired_difference(ax, LANES, 0.1, Interval(-0.02, 0.2))
    assert "no difference shown" in said(ax)


def test_an_interval_that_ends_close_to_zero_says_on_which_side(ax: Axes) -> None:
    plot_paired_difference(ax, LANES, -0.1, Interval(-0.28, -0.002))
    assert "overall: -10 points (-28 to -0.2)" in said(ax)
    plot_paired_difference(ax, LANES, 0.1, Interval(0.004, 0.2))
    assert "(+0.4 to +20)" in said(ax)


def test_without_pairs_there_is_no_difference_to_draw(ax: Axes) -> None:
    plot_paired_difference(ax, {}, None, None)
    assert "no pairs measured on both sides" in said(ax)


class Effect(NamedTuple):
    skill: str
    pairs: int
    helped: int
    harmed: int
    interval: Interval
    world: int = 0
    shown: bool = True

    @property
    def difference(self) -> float:
        return (self.helped - self.harmed) / self.pairs


def test_skills_stand_by_what_they_cause_with_their_pairs_and_harm(ax: Axes) -> None:
    effects = [
        Effect("harmful", 20, 0, 8, Interval(-0.6, -0.2)),
        Effect("useful", 20, 9, 1, Interval(0.1, 0.6)),
        Effect("unclear", 20, 7, 2, Interval(0.01, 0.4), shown=False),  # not once it is adjusted
        Effect("never replayed", 0, 0, 0, Interval(-1, 1)),
    ]
    plot_uplift(ax, effects)
    assert rows(ax) == ["useful", "unclear", "harmful"]
    assert "20 pairs   +9  −1" in said(ax)
    full = {line.get_ydata()[0]: line.get_markerfacecolor() != PAPER for line in ax.lines if line.get_marker() == "s"}
    assert full == {0: True, 1: False, 2: True}
    assert "filled: shown after Holm's adjustment" in ax.get_xlabel()


def test_a_skill_of_several_worlds_is_told_apart(ax: Axes) -> None:
    plot_uplift(ax, [Effect("a", 9, 2, 1, Interval(-0.1, 0.3), world) for world in (0, 3)])
    assert rows(ax) == ["a, world 0", "a, world 3"]


def test_without_replays_no_effect_is_drawn(ax: Axes) -> None:
    plot_uplift(ax, [])
    assert "not measured" in said(ax)


def test_transfer_writes_every_score_and_marks_the_block_learnt_last(ax: Axes) -> None:
    plot_transfer(ax, np.array([[0.2, np.nan], [0.9, 0.3], [0.8, 0.95]]))
    assert [text.get_text() for text in ax.texts] == ["20 %", "–", "90 %", "30 %", "80 %", "95 %"]
    frames = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    assert [(round(f.get_x() + 0.47), round(f.get_y() + 0.47)) for f in frames] == [(0, 1), (1, 2)]
    assert rows(ax) == ["none", "1", "1 to 2"]


def test_transfer_that_was_not_measured_says_so(ax: Axes) -> None:
    plot_transfer(ax, np.full((3, 2), np.nan))
    assert "not measured" in said(ax)


def test_the_contour_at_one_is_the_joint_region_and_profiles_stand_at_the_edges(ax: Axes) -> None:
    x_X, y_Y = np.linspace(-2, 2, 41), np.linspace(-2, 2, 41)
    drop_Y_X = y_Y[:, None] ** 2 / 4 + x_X**2
    plot_contour(ax, x_X, y_Y, drop_Y_X, (0.0, 0.0), profile=(Interval(-0.9, 0.9), None))
    edge = next(c for c in ax.collections if list(getattr(c, "levels", ())) == [1])
    points = edge.get_paths()[0].vertices
    assert np.abs(points[:, 0]).max() == pytest.approx(1, abs=0.01)
    assert np.abs(points[:, 1]).max() == pytest.approx(2, abs=0.01)
    (bar,) = [c for c in ax.collections if isinstance(c, LineCollection)]
    assert bar.get_segments()[0][:, 0].tolist() == [-0.9, 0.9]


def test_a_curve_that_is_not_identified_has_no_contour(ax: Axes) -> None:
    plot_contour(ax, np.arange(2.0), np.arange(2.0), np.ones((2, 2)), None)
    assert "not identified" in said(ax)
    assert not ax.collections


def test_a_likelihood_that_is_infinite_far_out_is_drawn(ax: Axes) -> None:
    drop = np.array([[0.0, 2.0, np.inf], [0.5, 3.0, np.inf], [2.0, 4.0, np.inf]])
    plot_contour(ax, np.arange(3.0), np.arange(3.0), drop, (0.0, 0.0))


def claim(what: str, claimed: float | None, computed: float | None, measured: Measured = NOT_MEASURED) -> Claim:
    return Claim(what, what, claimed, computed, "tasks", "contradicts", measured=measured)


def test_a_claim_that_nobody_measured_says_so(ax: Axes) -> None:
    measured = Measured(25, Interval(19, 33))
    plot_claims(ax, [claim("a", 18, 19.8), claim("b", None, 28.9, measured), claim("c", 31, math.inf)])
    assert rows(ax) == ["a", "b", "c"]
    assert said(ax).count("not measured") == 2
    assert "computed: never" in said(ax)
    drawn = sorted((line.get_ydata()[0], line.get_xdata()[0]) for line in ax.lines if len(line.get_xdata()))
    assert drawn == [(0, 18), (0, 19.8), (1, 25), (1, 28.9), (2, 31)]


def test_claims_of_several_units_have_no_axis_in_common(ax: Axes) -> None:
    units = {one.unit: one for one in audit()}
    assert len(units) > 1
    with pytest.raises(ValueError, match="no common scale"):
        plot_claims(ax, list(units.values()))


def test_every_claim_of_the_audit_can_be_drawn() -> None:
    made = figure(12, 20)
    units = sorted({one.unit for one in audit()})
    for ax, unit in zip(made.subplots(len(units), 1), units, strict=True):
        plot_claims(ax, [one for one in audit() if one.unit == unit])
    assert png(made).startswith(b"\x89PNG")


def growth(**series: list[tuple[int, float, float]]) -> pd.DataFrame:
    told = [(name, *point) for name, points in series.items() for point in points]
    return pd.DataFrame(told, columns=["series", "experience", "skills", "success"])


def test_a_librarys_path_goes_by_experience_and_names_its_last_check(ax: Axes) -> None:
    plot_growth(ax, growth(on=[(20, 8.0, 0.7), (0, 0.0, 0.3), (10, 5.0, 0.6)], off=[(0, 0.0, 0.3), (20, 0.0, 0.3)]))
    on = next(line for line in ax.lines if line.get_label() == "on")
    assert (list(on.get_xdata()), list(on.get_ydata())) == ([0, 5, 8], [0.3, 0.6, 0.7])
    # Of checks that stand on one another, of any series, only one is named.
    assert [text.get_text() for text in ax.texts] == ["n=20", "n=10", "n=0"]


def test_without_held_out_checks_growth_is_not_measured(ax: Axes) -> None:
    plot_growth(ax, growth())
    assert "not measured: no held-out check" in said(ax)


def test_training_shows_what_was_logged_and_no_zero_where_nothing_was(ax: Axes) -> None:
    steps = [{"step": n, "loss": 1 / n, "heldout_success": 0.5 if n % 10 == 0 else None} for n in range(1, 31)]
    plot_training(ax, steps, "heldout_success")
    assert (list(ax.lines[0].get_xdata()), list(ax.lines[0].get_ydata())) == ([10, 20, 30], [0.5] * 3)
    other = figure().add_subplot()
    plot_training(other, steps, "reward")
    assert "not measured" in said(other)


def test_many_steps_have_a_running_mean_of_the_last_ones(ax: Axes) -> None:
    plot_training(ax, [{"step": n, "reward": float(n)} for n in range(100)], "reward")
    _, mean = ax.lines
    assert (mean.get_xdata()[0], mean.get_ydata()[0]) == (4, 2)


def test_metrics_are_read_but_for_a_torn_last_line(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(json.dumps({"step": 1, "loss": 2.0}) + "\n" + '{"step": 2, "lo')
    assert read_metrics(path) == [{"step": 1, "loss": 2.0}]
    path.write_text("7\n")
    with pytest.raises(ConfigError, match=r"metrics\.jsonl:1: not a training step"):
        read_metrics(path)
    with pytest.raises(ConfigError, match="no such file"):
        read_metrics(tmp_path / "none")


def test_power_tells_from_where_on_it_stays_above_the_target(ax: Axes) -> None:
    # The test's power goes up in a saw.
    curves = {"+16": ([10, 20, 30, 40], [0.5, 0.81, 0.79, 0.85]), "+5": ([10, 20], [0.1, 0.2])}
    plot_power(ax, curves, planned=25)
    assert "+16: 80 % from 40 pairs" in said(ax)
    assert ax.get_title(loc="left") == "Power of the paired mid-p test (McNemar)"
    assert "+5: 80 % not reached" in said(ax)
    assert "0.80" in said(ax)
    assert "planned: 25" in said(ax)


class Survival(NamedTuple):
    times_T: np.ndarray
    survival_T: np.ndarray
    low_T: np.ndarray
    high_T: np.ndarray


def survival(times: list[float], left: list[float]) -> Survival:
    at = np.array(left)
    return Survival(np.array(times), at, at - 0.1, at + 0.1)


def test_survival_steps_down_at_its_times_and_ticks_those_cut_off_on_the_line(ax: Axes) -> None:
    plot_survival(ax, {"on": survival([2.0, 5.0], [0.7, 0.4])}, {"on": [2.0, 3.0, 9.0]})
    line, ticks = ax.lines
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([0, 2, 5, 9], [1, 0.7, 0.4, 0.4])
    assert (list(ticks.get_xdata()), list(ticks.get_ydata())) == ([2, 3, 9], [0.7, 0.7, 0.4])
    assert "on: median 5 seconds, 3 censored" in said(ax)


def test_where_less_than_half_were_solved_there_is_no_median(ax: Axes) -> None:
    plot_survival(ax, {"none": survival([], []), "some": survival([2.0], [0.8])}, {"none": [60.0, 60.0]})
    assert "none: median not reached, 2 censored" in said(ax)
    assert "some: median not reached" in said(ax)


def test_pictures_of_results_can_be_saved() -> None:
    made = figure(10, 8)
    axes = made.subplots(2, 2)
    plot_paired_difference(
        axes[0][0], {f"lane {n}": LaneChange(10, n % 5, 2) for n in range(1000)}, 0.0, Interval(0, 0)
    )
    plot_uplift(axes[0][1], [Effect(f"skill {n}", 9, n % 4, 1, Interval(-0.1, 0.2)) for n in range(300)])
    plot_transfer(axes[1][0], np.random.default_rng(0).random((21, 20)))
    plot_claims(axes[1][1], [])
    assert png(made).startswith(b"\x89PNG")
