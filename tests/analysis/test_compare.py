from collections.abc import Callable
from pathlib import Path

import pytest
from synthetic_episodes import make_episode

from analysis.compare import Comparison, Report, compare_arms, compare_runs, mcnemar
from analysis.intervals import Rate, paired_difference
from hermes_lab.errors import ConfigError
from hermes_lab.types import EpisodeError, ModelIdentity, Verdict

WriteRun = Callable[..., Path]


def by_metric(report: Report, metric: str) -> Comparison:
    return next(comparison for comparison in report.comparisons if comparison.metric == metric)


def test_tuning_that_teaches_the_call_format_is_shown(write_run: WriteRun) -> None:
    base = write_run([make_episode(False, task=t, first_call_ok=False) for t in range(40)], "base")
    tuned = write_run([make_episode(False, task=t, first_call_ok=t > 0) for t in range(40)], "tuned")
    report = compare_runs(base, tuned)
    calls = by_metric(report, "first_call_ok")
    assert calls.shown
    assert calls.sentence() == (
        "parsed first calls: 0/40 (0-9 %) -> 39/40 (87-100 %), +98 points (95 % interval 84 to 100), p = 4e-12"
    )
    solved = by_metric(report, "success")
    assert not solved.shown
    assert "no difference shown: +0 points" in solved.sentence()


def test_pairs_are_made_by_key_and_not_by_order(write_run: WriteRun) -> None:
    a = write_run([make_episode(t < 5, task=t) for t in range(10)], "a")
    b = write_run([make_episode(t < 5, task=t) for t in reversed(range(10))], "b")
    success = by_metric(compare_runs(a, b), "success")
    assert (success.gained, success.lost) == (0, 0)
    assert success.p_value == 1.0


def test_pairs_without_a_counterpart_or_a_score_are_left_out_and_said(write_run: WriteRun) -> None:
    error = EpisodeError("model", "down")
    lost = make_episode(None, task=1, status="errored", error=error, trajectory=None, metrics={})
    a = write_run([make_episode(True, task=t) for t in range(4)], "a")
    b = write_run([make_episode(True, task=0), lost, make_episode(True, task=2)], "b")
    success = by_metric(compare_runs(a, b), "success")
    assert success.before == Rate(2, 2)
    assert success.unpaired == 3
    assert "3 episodes without a pair left out" in success.sentence()


def test_any_right_submission_counts_as_accepted(write_run: WriteRun) -> None:
    late = (Verdict(0.0, False), Verdict(1.0, True))
    a = write_run([make_episode(False, task=t) for t in range(3)], "a")
    b = write_run([make_episode(False, task=t, verdicts=late) for t in range(3)], "b")
    report = compare_runs(a, b)
    assert by_metric(report, "accepted").after == Rate(3, 3)
    assert by_metric(report, "success").after == Rate(0, 3)


@pytest.mark.parametrize(("field", "was", "now"), [("seed", 0, 1), ("name", "x", "y"), ("split", "train", "test")])
def test_runs_of_other_tasks_are_refused_with_the_difference(
    write_run: WriteRun, field: str, was: object, now: object
) -> None:
    a = write_run([make_episode(True)], "a", digest="d1", **{field: was})
    b = write_run([make_episode(True)], "b", digest="d2", **{field: now})
    with pytest.raises(ConfigError, match=rf"cannot be paired: suite\.{field} is {was!r} in one and {now!r}"):
        compare_runs(a, b)


def test_more_tasks_of_the_same_draw_can_be_paired(write_run: WriteRun) -> None:
    a = write_run([make_episode(True)], "a", count=1)
    b = write_run([make_episode(True), make_episode(True, task=1)], "b", count=2)
    assert by_metric(compare_runs(a, b), "success").unpaired == 1


def test_runs_without_a_task_in_the_same_place_are_refused(write_run: WriteRun) -> None:
    a = write_run([make_episode(True)], "a")
    b = write_run([make_episode(True, lane="on-r0-w0")], "b")
    with pytest.raises(ConfigError, match="no task in the same place"):
        compare_runs(a, b)


def test_arms_of_a_run_are_paired_task_by_task(write_run: WriteRun) -> None:
    episodes = [
        make_episode(arm == "on" or task % 2 == 0, task=task, lane=f"{arm}-r{replicate}-w0")
        for arm in ("off", "on")
        for replicate in range(6)
        for task in range(10)
    ]
    success = by_metric(compare_arms(write_run(episodes), "off", "on"), "success")
    assert (success.before, success.after) == (Rate(30, 60), Rate(60, 60))
    assert (success.gained, success.lost, success.lanes) == (30, 0, 6)
    assert success.shown


def test_missing_arm_is_named(write_run: WriteRun) -> None:
    with pytest.raises(ConfigError, match="has no arm 'off'; it has main"):
        compare_arms(write_run([make_episode(True)]), "off", "on")


def test_lanes_that_disagree_widen_the_interval(write_run: WriteRun) -> None:
    """Four lanes gain everything and two lose everything: tasks alone would be sure of a gain."""
    episodes = [
        make_episode((arm == "on") == (replicate < 4), task=task, lane=f"{arm}-r{replicate}-w0")
        for arm in ("off", "on")
        for replicate in range(6)
        for task in range(20)
    ]
    success = by_metric(compare_arms(write_run(episodes), "off", "on"), "success")
    tasks_alone = paired_difference(0, 40, 80, 0)
    assert success.p_value < 0.05
    assert success.interval.low < 0 < tasks_alone.low
    assert not success.shown


def test_runs_of_both_arms_give_weights_by_skills(write_run: WriteRun) -> None:
    solved = {("base", "off"): 2, ("base", "on"): 5, ("tuned", "off"): 4, ("tuned", "on"): 9}
    adapters = {"base": "", "tuned": "sft-v1-0123456789ab"}
    runs = [
        write_run(
            [
                make_episode(
                    task < solved[weights, arm],
                    task=task,
                    lane=f"{arm}-r0-w0",
                    model=ModelIdentity("vllm", "packaged", adapter=adapters[weights]),
                )
                for arm in ("off", "on")
                for task in range(10)
            ],
            weights,
        )
        for weights in ("base", "tuned")
    ]
    cells = compare_runs(*runs).cells
    assert [cell.success.successes for cell in cells] == list(solved.values())
    assert [(cell.weights, cell.skills) for cell in cells[1:3]] == [("packaged untuned", "on"), ("sft-v1", "off")]
    assert cells[0].sentence() == "packaged untuned, skills off: 2/10 (6-51 %) solved at the first submission"


def test_runs_without_both_arms_have_no_cells(write_run: WriteRun) -> None:
    a, b = write_run([make_episode(True)], "a"), write_run([make_episode(True)], "b")
    assert compare_runs(a, b).cells == ()


def test_mcnemar_is_the_exact_binomial() -> None:
    assert mcnemar(0, 0) == 1.0
    assert mcnemar(0, 6) == pytest.approx(2 * 0.5**6)
    assert mcnemar(3, 3) == 1.0
