"""Plots. Functions take axes and return them; only `save_*` writes files.

They take frames of `hermes_lab.analysis.data.load` or computed results. Axes without data say "not measured", and a
curve is drawn only if its fit is identified."""

from hermes_lab.analysis.plots.audit import plot_claims
from hermes_lab.analysis.plots.contour import plot_contour
from hermes_lab.analysis.plots.effort import plot_effort
from hermes_lab.analysis.plots.growth import plot_growth
from hermes_lab.analysis.plots.learning import learning_figure, plot_lanes, plot_learning_curve, save_learning_curve
from hermes_lab.analysis.plots.paired import LaneChange, lane_changes, plot_paired_difference
from hermes_lab.analysis.plots.points import BINS, Point, success_points
from hermes_lab.analysis.plots.power import plot_power
from hermes_lab.analysis.plots.rates import plot_rates, verdict_figure
from hermes_lab.analysis.plots.recovery import plot_recovery
from hermes_lab.analysis.plots.skills import plot_skill_tasks, plot_skill_timeline
from hermes_lab.analysis.plots.study import plot_arms, save_study, study_figure
from hermes_lab.analysis.plots.style import figure, png, save, svg
from hermes_lab.analysis.plots.survival import plot_survival
from hermes_lab.analysis.plots.training import PANELS, plot_training, read_metrics
from hermes_lab.analysis.plots.transfer import plot_transfer
from hermes_lab.analysis.plots.uplift import plot_uplift

__all__ = [
    "BINS",
    "PANELS",
    "LaneChange",
    "Point",
    "figure",
    "lane_changes",
    "learning_figure",
    "plot_arms",
    "plot_claims",
    "plot_contour",
    "plot_effort",
    "plot_growth",
    "plot_lanes",
    "plot_learning_curve",
    "plot_paired_difference",
    "plot_power",
    "plot_rates",
    "plot_recovery",
    "plot_skill_tasks",
    "plot_skill_timeline",
    "plot_survival",
    "plot_training",
    "plot_transfer",
    "plot_uplift",
    "png",
    "read_metrics",
    "save",
    "save_learning_curve",
    "save_study",
    "study_figure",
    "success_points",
    "svg",
    "verdict_figure",
]
