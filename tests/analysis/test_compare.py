from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from synthetic_episodes import make_episode

from hermes_lab.analysis.comparison.compare import compare_arms, compare_runs, compare_to_first
from hermes_lab.analysis.comparison.result import Comparison, MetricComparison
from hermes_lab.analysis.stats.intervals import Rate
from hermes_lab.analysis.stats.paired import change_interval
from hermes_lab.errors import ConfigError
from hermes_lab.types import Episode, EpisodeError, ModelIdentity, Verdict

WriteRun = Callable[..., Path]


def by_metric(report: Comparison, metric: str) -> MetricComparison:
    return next(comparison for comparison in report.comparisons if comparison.metric == metric)


def test_change_on_held_out_tasks_is_of_the_arm_that_both_runs_have(write_run: WriteRun) -> None:
    """Arm on goes from 1 to 3 of 4 held-out tasks in both runs; the second run's other arms stay at 1."""

    def checks(arm: str, after: int) -> list[Episode]:
        return [
            make_episode(task < solved, task=task, lane=f"{arm}-r0-w{w}", phase="heldout", round=round_)
            for w in range(6)
            for round_, solved in ((0, 1), (8, after))
            for task in range(4)
        ]

    one, other = checks("on", 3), [*checks("on", 3), *checks("placebo", 1), *checks("oracle", 1)]
    found = compare_runs(write_run(one, "one"), write_run(other, "other"))
    assert [change.comparison.after.trials for change in found.changes] == [24, 24]
    assert [change.comparison.difference for change in found.changes] == [0.5, 0.5]
    both = [*one, *checks("placebo", 1)]
    assert compare_runs(write_run(both, "both"), write_run(other, "third")).changes == ()


def test_tuning_that_teaches_the_call_format_is_shown(write_run: WriteRun) -> None:
    base = write_run([make_episode(False, task=t, first_call_ok=False) for t in range(40)], "base")
    tuned = write_run([make_episode(False, task=t, first_call_ok=t > 0) for t in range(40)], "tuned")
    report = compare_runs(base, tuned)
    calls = by_metric(report, "first_call_ok")
    assert calls.shown
    assert calls.sentence() == (
        "parsed first calls: 0/40 (0-9 %) -> 39/40 (87-100 %), +98 points (95 % interval 80 to 100), p = 2e-12"
    )
    solved = by_metric(report, "success")
    assert not solved.shown
    assert "no difference shown: +0 points" in solved.sentence()


def test_two_runs_are_compared_in_one_arm_where_that_is_asked(write_run: WriteRun) -> None:
    def lanes(on: bool) -> list[Episode]:
        arms = {"off-r0-w0": False, "on-r0-w0": on}
        return [make_episode(solved, task=t, lane=lane) for lane, solved in arms.items() for t in range(8)]

    before, after = write_run(lanes(False), "before"), write_run(lanes(True), "after")
    assert by_metric(compare_runs(before, after), "success").after == Rate(8, 16)
    report = compare_runs(before, after, "on")
    assert (report.before, report.after) == (f"{before}, on", f"{after}, on")
    assert by_metric(report, "success").after == Rate(8, 8)
    with pytest.raises(ConfigError, match="has no arm 'oracle'; it has off, on"):
        compare_runs(before, after, "oracle")


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
    assert "3 unpaired episodes excluded" in success.sentence()


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
    with pytest.raises(ConfigError, match="no task at the same position"):
        compare_runs(a, b)


def test_arms_of_a_run_are_paired_task_by_task(write_run: WriteRun) -> None:
    episodes = [
        make_episode(arm == "on" or task % 2 == 0, task=task, lane=f"{arm}-r0-w{replicate}")
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
        make_episode((arm == "on") == (replicate < 4), task=task, lane=f"{arm}-r0-w{replicate}")
        for arm in ("off", "on")
        for replicate in range(6)
        for task in range(20)
    ]
    success = by_metric(compare_arms(write_run(episodes), "off", "on"), "success")
    tasks_alone = change_interval(np.repeat([1, -1], [80, 40]), np.arange(120))
    assert success.mcnemar < 0.05 < success.p_value
    assert success.over == "worlds"
    assert success.interval.low < 0 < tasks_alone.low
    assert not success.shown


@pytest.mark.parametrize(("worlds", "said"), [(6, True), (7, False)])
def test_too_few_worlds_for_several_tests_are_named(write_run: WriteRun, worlds: int, said: bool) -> None:
    """Beside the headline five tests, which all change in every task: six worlds leave their p of 1/64 at 5/64."""
    base, tuned = (
        write_run(
            [
                make_episode(better, first_call_ok=better, lane=f"off-r0-w{w}", phase=phase, round=at)
                for w in range(worlds)
                for at, phase in enumerate(("heldout", "learn", "heldout"))
            ],
            name,
        )
        for name, better in (("base", False), ("tuned", True))
    )
    report = compare_runs(base, tuned)
    assert [c.family for c in report.comparisons] == [5, 1, 5, 5, 5, 5]
    note = "  6 worlds are too few for 5 tests: no Holm-adjusted p can fall below 0.078"
    assert (note in report.lines()) is said
    assert any("not shown once adjusted: +100 points" in line for line in report.lines()) is said


def test_runs_of_both_arms_give_weights_by_skills(write_run: WriteRun) -> None:
    solved = {("base", "off"): 2, ("base", "on"): 5, ("tuned", "off"): 4, ("tuned", "on"): 9}
    models = {
        "base": ModelIdentity("vllm", "packaged"),
        "tuned": ModelIdentity("vllm", "packaged", adapter="sft-v1-0123456789ab", adapter_digest="0123456789abcdef"),
    }
    runs = [
        write_run(
            [
                make_episode(
                    task < solved[weights, arm],
                    task=task,
                    lane=f"{arm}-r0-w0",
                    model=models[weights],
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


def arms_with_checks(solved: dict[str, tuple[int, int, int]], lanes: int = 6) -> list[Episode]:
    """Lanes of four tasks to learn from and ten held-out ones, these before the first round and after the last; how
    many each arm solves: of the four, of the ten before, of the ten after."""
    episodes = []
    for arm, (learning, before, after) in solved.items():
        for replicate in range(lanes):
            lane = f"{arm}-r{replicate}-w0"
            episodes += [make_episode(task < learning, task=task, lane=lane) for task in range(4)]
            for check, count in ((0, before), (4, after)):
                episodes += [
                    make_episode(task < count, task=100 + task, lane=lane, round=check, phase="heldout")
                    for task in range(10)
                ]
    return episodes


def test_headline_is_the_last_check_of_held_out_tasks(write_run: WriteRun) -> None:
    report = compare_arms(write_run(arms_with_checks({"off": (2, 2, 2), "on": (3, 2, 9)})), "off", "on")
    assert report.headline.part == "after learning, on held-out tasks"
    assert (report.headline.before[:2], report.headline.after[:2]) == ((12, 60), (54, 60))
    learning = next(c for c in report.comparisons if c.part == "while learning" and c.metric == "success")
    assert (learning.before[:2], learning.after[:2]) == ((12, 24), (18, 24))
    lines = report.lines()
    assert lines[0] == "off -> on, after learning, on held-out tasks"
    assert "off -> on, while learning" in lines


def test_arm_is_compared_with_itself_before_it_learnt(write_run: WriteRun) -> None:
    report = compare_arms(write_run(arms_with_checks({"off": (2, 2, 2), "on": (3, 2, 9)}, lanes=8)), "off", "on")
    gains = {change.side: change.comparison for change in report.changes}
    assert (gains["on"].gained, gains["on"].lost, gains["on"].shown) == (56, 0, True)
    assert (gains["off"].gained, gains["off"].lost, gains["off"].shown) == (0, 0, False)
    assert report.changes[1].sentence().startswith("on, the same held-out tasks before -> after learning: solved")


def test_one_check_alone_is_no_before_and_after(write_run: WriteRun) -> None:
    episodes = [e for e in arms_with_checks({"off": (2, 2, 2), "on": (3, 2, 9)}) if e.round == 0 or e.phase == "learn"]
    report = compare_arms(write_run(episodes), "off", "on")
    assert report.headline.part == "while learning"
    assert report.changes == ()


def test_arms_that_have_come_to_other_checks_are_compared_at_the_last_common_one(write_run: WriteRun) -> None:
    episodes = arms_with_checks({"off": (2, 2, 4), "on": (3, 2, 9)})
    ahead = [
        make_episode(True, task=100 + task, lane=f"off-r{replicate}-w0", round=9, phase="heldout")
        for replicate in range(6)
        for task in range(10)
    ]
    headline = compare_arms(write_run([*episodes, *ahead]), "off", "on").headline
    assert (headline.before[:2], headline.after[:2]) == ((24, 60), (54, 60))


def test_other_arms_are_compared_with_the_first_and_adjusted_together(write_run: WriteRun) -> None:
    """Six worlds that all agree have p = 1/64, which four tests cannot be shown with."""
    arms = {"off": 2, "on": 9, "placebo": 5, "frozen": 6, "oracle": 10}
    episodes = [
        make_episode(task < solved, task=task, lane=f"{arm}-r0-w{replicate}")
        for arm, solved in arms.items()
        for replicate in range(6)
        for task in range(10)
    ]
    run = write_run(episodes)
    assert compare_arms(run, "off", "on").headline.shown
    on, placebo, *_ = compare_to_first(run, list(arms))
    assert (on.before, on.after, placebo.before, placebo.after) == ("off", "on", "off", "placebo")
    assert on.headline.p_value == pytest.approx(1 / 64)
    assert on.headline.p_adjusted == pytest.approx(4 / 64)
    assert not on.headline.shown
    assert on.headline.interval.low > 0  # of this arm alone
    assert ", not shown once adjusted: +70 points (" in on.headline.sentence()
    assert "p = 0.016 (0.062 after Holm's adjustment for 4 tests)" in on.headline.sentence()


def test_other_metrics_are_a_family_of_their_own(write_run: WriteRun) -> None:
    episodes = [
        make_episode(arm == "on", task=task, lane=f"{arm}-r0-w{replicate}", first_call_ok=arm == "on")
        for arm in ("off", "on")
        for replicate in range(6)
        for task in range(5)
    ]
    report = compare_arms(write_run(episodes), "off", "on")
    assert (report.headline.family, report.headline.shown) == (1, True)
    calls = by_metric(report, "first_call_ok")
    assert (calls.family, calls.p_value, calls.p_adjusted) == (2, pytest.approx(1 / 64), pytest.approx(2 / 64))


def test_no_pair_mixes_adapters(write_run: WriteRun) -> None:
    """Under the second weights skills help, under the first they harm: mixed pairs would see neither."""
    episodes = [
        make_episode((arm == "on") == bool(weights), task=task, lane=f"{arm}-r0-w{replicate}-a{weights}")
        for arm in ("off", "on")
        for weights in (0, 1)
        for replicate in range(6)
        for task in range(5)
    ]
    success = by_metric(compare_arms(write_run(episodes), "off", "on"), "success")
    assert (success.gained, success.lost, success.unpaired, success.lanes) == (30, 30, 0, 6)


def test_run_still_going_and_errored_episodes_are_said(write_run: WriteRun) -> None:
    down = {"status": "errored", "error": EpisodeError("model", "down"), "trajectory": None, "metrics": {}}
    episodes = [make_episode(task < 2, task=task, lane=f"{arm}-r0-w0") for arm in ("off", "on") for task in range(5)]
    episodes.append(make_episode(None, task=5, lane="on-r0-w0", **down))
    run = write_run(episodes, wanted=40)
    notes = compare_arms(run, "off", "on").notes
    assert notes == (
        f"{run} is not finished: results are based on 11 of 40 episodes",
        f"{run}: 1 errored episodes excluded (model 1)",
    )


def test_empty_run_is_said(write_run: WriteRun) -> None:
    with pytest.raises(ConfigError, match="has no episodes yet, so there is nothing to compare"):
        compare_arms(write_run([]), "off", "on")


def test_pairs_that_nothing_judged_are_said(write_run: WriteRun) -> None:
    episodes = [make_episode(None, task=t, lane=f"{arm}-r0-w0", metrics={}) for arm in ("off", "on") for t in range(3)]
    with pytest.raises(ConfigError, match="none of 3 pairs was judged on both sides"):
        compare_arms(write_run(episodes), "off", "on")


def test_samples_of_one_task_are_not_independent_pairs(write_run: WriteRun) -> None:
    runs = [
        write_run([make_episode(right, task=t, sample=s) for t in range(3) for s in range(8)], name)
        for name, right in (("a", False), ("b", True))
    ]
    success = by_metric(compare_runs(*runs), "success")
    assert success.mcnemar < 0.001
    assert success.p_value == pytest.approx(0.125)
