"""Pictures, a file a family. A plot takes axes and gives them back; only `save_*` makes files.

All take frames of `analysis.load`, or small results that others computed. What was not measured is said to be so in its
axes, and a curve is drawn only where its fit is identified.
"""

from analysis.plots.audit import plot_claims
from analysis.plots.contour import plot_contour
from analysis.plots.effort import plot_effort
from analysis.plots.growth import plot_growth
from analysis.plots.learning import learning_figure, plot_lanes, plot_learning_curve, save_learning_curve
from analysis.plots.paired import LaneChange, lane_changes, plot_paired_difference
from analysis.plots.points import BINS, Point, success_points
from analysis.plots.power import plot_power
from analysis.plots.recovery import plot_recovery
from analysis.plots.skills import plot_skill_tasks, plot_skill_timeline
from analysis.plots.study import plot_arms, save_study, study_figure
from analysis.plots.style import figure, png, svg
from analysis.plots.survival import plot_survival
from analysis.plots.training import PANELS, plot_training, read_metrics
from analysis.plots.transfer import plot_transfer
from analysis.plots.uplift import plot_uplift

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
    "plot_recovery",
    "plot_skill_tasks",
    "plot_skill_timeline",
    "plot_survival",
    "plot_training",
    "plot_transfer",
    "plot_uplift",
    "png",
    "read_metrics",
    "save_learning_curve",
    "save_study",
    "study_figure",
    "success_points",
    "svg",
]
