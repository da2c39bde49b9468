"""The picture of a study: what was measured, a panel a part and variant."""

from typing import Any

import pytest
from plot_frames import frame_of, said

from hermes_lab.analysis.data.series import series_of
from hermes_lab.analysis.plots import figure, plot_arms, study_figure
from hermes_lab.analysis.plots.style import looks


def lane(arm: str, *outcomes: bool | None, **more: Any) -> list[dict[str, Any]]:
    return [{"arm": arm, "experience": n, "success": each, **more} for n, each in enumerate(outcomes)]


def lines(ax: Any) -> list[list[float]]:
    """The heights of every joined line."""
    return [list(line.get_ydata()) for line in ax.lines if line.get_linestyle() != "None" and len(line.get_ydata()) > 2]


def test_every_arm_is_a_line_through_its_measured_shares() -> None:
    learnt = [*lane("off", False, False, True), *lane("on", False, True, True), *lane("on", True, True, True)]
    frame = frame_of([*learnt, *lane("on", True, True, True, phase="heldout"), *lane("on", None, status="error")])
    ax = plot_arms(figure().add_subplot(), frame, "ledger", looks=looks(series_of(frame)))
    assert sorted(lines(ax)) == [[0.0, 0.0, 1.0], [0.5, 1.0, 1.0]]
    assert ax.get_legend_handles_labels()[1] == ["skills on", "skills off"]


def test_what_has_no_episode_says_so() -> None:
    frame = frame_of(lane("on", None, None))
    ax = plot_arms(figure().add_subplot(), frame, "ledger", looks=looks(series_of(frame)))
    assert said(ax) == "not measured"


@pytest.mark.parametrize(("parts", "grid"), [(1, (2, 1)), (4, (2, 4)), (5, (4, 3))])
def test_variants_stand_below_each_other_and_arms_look_alike_everywhere(parts: int, grid: tuple[int, int]) -> None:
    base, tuned = frame_of(lane("off", False, False, False)), frame_of(lane("on", True, True, True))
    drawn = study_figure({f"part {n}": {"base": base, "tuned": tuned} for n in range(parts)})
    axes = [ax for ax in drawn.axes if ax.axison]
    assert drawn.axes[0].get_gridspec().get_geometry() == grid
    assert sorted(ax.get_title(loc="left") for ax in axes) == sorted(
        f"part {n}, {variant}" for n in range(parts) for variant in ("base", "tuned")
    )
    for variant, look in (("base", looks(["skills off"])["skills off"]), ("tuned", looks(["skills on"])["skills on"])):
        drawn_in = [ax for ax in axes if ax.get_title(loc="left").endswith(variant)]
        assert {line.get_color() for ax in drawn_in for line in ax.lines if len(line.get_ydata()) > 2} == {look.color}
    (legend,) = drawn.legends
    assert [text.get_text() for text in legend.get_texts()] == ["skills off", "skills on"]


def test_a_variant_that_no_part_of_a_band_has_takes_no_row() -> None:
    frame = frame_of(lane("on", True, True))
    one, both = {"tuned": frame}, {"base": frame, "tuned": frame}
    drawn = study_figure({"a": both, "b": one, "c": one}, across=2)
    titles = [ax.get_title(loc="left") for ax in drawn.axes if ax.axison]
    assert titles == ["a, base", "a, tuned", "b, tuned", "c, tuned"]
    assert drawn.axes[0].get_gridspec().get_geometry() == (3, 2)
    assert [bool(ax.get_xlabel()) for ax in drawn.axes if ax.axison] == [False, True, True, True]


def test_a_study_with_one_variant_names_its_parts_alone() -> None:
    drawn = study_figure({"ledger": {"tuned": frame_of(lane("on", True, True))}})
    assert drawn.axes[0].get_title(loc="left") == "ledger"
