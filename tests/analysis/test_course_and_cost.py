"""The course of a run by ranges, its cost, its recovery from a drift, and how much lanes differ."""

import math

import msgspec
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_episodes import WriteRun, make_episode

from hermes_lab.analysis.comparison.course import course, growth
from hermes_lab.analysis.comparison.drift import recovery_from_drift
from hermes_lab.analysis.data.load import load_episodes
from hermes_lab.analysis.stats.lane_variance import lane_variance
from hermes_lab.analysis.stats.paired import rate_of
from hermes_lab.analysis.summaries.cost import costs
from hermes_lab.types import Episode, Message, Review, SkillUse, Step, Trajectory, Usage, Verdict

MADE = make_episode(True)


def lane(outcomes: list[bool], name: str = "on-r0-w0", **fields: object) -> list[Episode]:
    return [make_episode(outcome, task=n, lane=name, **fields) for n, outcome in enumerate(outcomes)]


def row_of(frame: pd.DataFrame, **where: object) -> dict[str, object]:
    for column, value in where.items():
        frame = frame[frame[column] == value]
    (row,) = frame.to_dict("records")
    return row


def test_ranges_are_those_of_the_case_study_and_one_for_the_rest(write_run: WriteRun) -> None:
    found = course(load_episodes(write_run(lane([n >= 10 for n in range(104)]))))
    ranges = [(1, 10), (11, 20), (21, 30), (31, 50), (51, 100), (101, 104)]
    assert list(zip(found["first"], found["last"], strict=True)) == ranges
    assert found["success"].tolist() == [0.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    assert found["episodes"].tolist() == [10, 10, 10, 20, 50, 4]


def test_episodes_of_a_world_are_alike_in_the_course(write_run: WriteRun) -> None:
    """Ten worlds of ten tasks that are all solved, or all failed: they say as much as ten trials."""
    worlds = [make_episode(w % 2 == 0, task=n, lane=f"on-r0-w{w}") for w in range(10) for n in range(10)]
    frame = load_episodes(write_run(worlds))
    (row,) = course(frame).to_dict("records")
    assert (row["success"], row["scored"]) == (0.5, 100)
    assert (row["low"], row["high"]) == rate_of(frame).interval
    assert row["high"] - row["low"] > 0.4, "0.19 if they were independent"


def test_a_task_of_a_round_has_its_own_iteration(write_run: WriteRun) -> None:
    rounds = [
        make_episode(n < 10, task=n, lane="on-r0-w0", round=n // 6, experience=6 * (n // 6), place=n % 6)
        for n in range(12)
    ]
    assert course(load_episodes(write_run(rounds)))["episodes"].tolist() == [10, 2]


def test_held_out_and_errored_episodes_are_no_part_of_the_course(write_run: WriteRun) -> None:
    more = [
        make_episode(False, task=50, lane="on-r0-w0", phase="heldout"),
        make_episode(None, task=51, lane="on-r0-w0", status="errored"),
    ]
    (row,) = course(load_episodes(write_run(lane([True, False]) + more))).to_dict("records")
    assert (row["episodes"], row["scored"], row["success"]) == (2, 2, 0.5)


def test_recovery_is_of_those_that_met_an_error(write_run: WriteRun) -> None:
    calm = {"metrics": {"tool_errors": 0}}
    mended = make_episode(False, task=0, **calm, verdicts=(Verdict(0.0, False), Verdict(1.0, True)))
    stumbled = make_episode(True, task=1, metrics={"tool_errors": 1})
    failed = make_episode(False, task=2, **calm)
    smooth = make_episode(True, task=3, **calm)
    (row,) = course(load_episodes(write_run([mended, stumbled, failed, smooth]))).to_dict("records")
    assert row["recovery"] == pytest.approx(2 / 3)
    (row,) = course(load_episodes(write_run([smooth], "smooth"))).to_dict("records")
    assert row["recovery"] is None


def test_reuse_skills_and_cut_off_episodes_are_told(write_run: WriteRun) -> None:
    episodes = [
        make_episode(
            True,
            task=n,
            seconds=float(n),
            skills=SkillUse(listed=("a",) * n, loaded=("a",) if n > 1 else ()),
            trajectory=Trajectory((), (), "native", "max_seconds" if n == 3 else "answered", usage=Usage(10, 5)),
        )
        for n in range(4)
    ]
    (row,) = course(load_episodes(write_run(episodes))).to_dict("records")
    assert (row["reuse"], row["skills"], row["seconds"], row["censored"]) == (0.5, 3.0, 1.5, 0.25)


def test_growth_has_the_library_and_the_success_of_each_check(write_run: WriteRun) -> None:
    checks = [
        make_episode(
            task < 1 + round_,
            task=100 + task,
            lane=f"on-r{replicate}-w0",
            round=round_,
            experience=round_,
            phase="heldout",
            skills=SkillUse(listed=("a",) * (round_ + replicate)),
        )
        for round_ in (0, 3)
        for replicate in (0, 1)
        for task in range(4)
    ]
    found = growth(load_episodes(write_run(checks)))
    assert found["skills"].tolist() == [0.5, 3.5]
    assert found["success"].tolist() == [0.25, 1.0]
    assert found["lanes"].tolist() == [2, 2]
    assert growth(load_episodes(write_run([MADE], "learnt"))).empty


def reviewed(prompt: int, completion: int, calls: int) -> Review:
    steps = tuple(Step(n, "stop", Usage()) for n in range(calls))
    messages = (Message(role="assistant", content="x"),)
    return Review(Trajectory(messages, (), "native", "answered", steps, usage=Usage(prompt, completion)), seconds=4.0)


def test_cost_includes_reviews_and_failures(write_run: WriteRun) -> None:
    episodes = [
        make_episode(True, task=0, lane="on-r0-w0", review=reviewed(100, 20, 2)),
        make_episode(False, task=1, lane="on-r0-w0"),
    ]
    row = row_of(costs(load_episodes(write_run(episodes)), (2.0, 10.0)), series="skills on")
    assert (row["tokens"], row["review_tokens"], row["seconds"], row["calls"]) == (150, 120, 8.0, 8)
    assert (row["tokens_per_solved"], row["seconds_per_solved"], row["calls_per_solved"]) == (150.0, 8.0, 8.0)
    assert row["money"] == pytest.approx(((20 + 100) * 2.0 + (10 + 20) * 10.0) / 1e6)


def test_where_nothing_was_solved_nothing_is_a_cost_per_solved_task(write_run: WriteRun) -> None:
    (row,) = costs(load_episodes(write_run(lane([False, False])))).to_dict("records")
    assert row["tokens"] == 30
    assert row["tokens_per_solved"] is row["money"] is row["money_per_solved"] is None


def test_where_no_usage_was_reported_tokens_are_missing_and_not_0(write_run: WriteRun) -> None:
    silent = Trajectory((), (), "native", "answered")
    frame = load_episodes(write_run(lane([True, False], trajectory=silent)))
    (row,) = costs(frame, (2.0, 10.0)).to_dict("records")
    names = ("prompt_tokens", "completion_tokens", "review_tokens", "tokens", "tokens_per_solved", "money")
    assert all(row[name] is None for name in (*names, "money_per_solved"))
    assert (row["seconds"], row["calls_per_solved"]) == (4.0, 6.0)
    (stretch,) = course(frame).to_dict("records")
    assert stretch["tokens"] is None
    (row,) = costs(load_episodes(write_run(lane([True]), "told"))).to_dict("records")
    assert (row["tokens"], row["review_tokens"]) == (15, 0)  # no review, and that is known


@pytest.mark.parametrize("of_review", [False, True])
def test_where_some_calls_had_no_usage_tokens_are_missing_and_not_too_low(write_run: WriteRun, of_review: bool) -> None:
    part = Trajectory((), (), "native", "answered", usage=Usage(10, 5, uncounted=1))
    episodes = lane([True, False])
    episodes[1] = msgspec.structs.replace(
        episodes[1], **({"review": Review(part)} if of_review else {"trajectory": part})
    )
    frame = load_episodes(write_run(episodes))
    (row,) = costs(frame, (2.0, 10.0)).to_dict("records")
    names = ("prompt_tokens", "completion_tokens", "review_tokens", "tokens", "tokens_per_solved", "money")
    assert all(row[name] is None for name in (*names, "money_per_solved"))
    (stretch,) = course(frame).to_dict("records")
    assert stretch["tokens"] is None


def test_measuring_is_no_work(write_run: WriteRun) -> None:
    checks = [make_episode(True, task=9, lane="on-r0-w0", phase="heldout")]
    (row,) = costs(load_episodes(write_run(lane([True]) + checks))).to_dict("records")
    assert (row["episodes"], row["tokens"]) == (1, 15)


FRAME_COLUMNS = {
    **dict.fromkeys(("run", "lane", "arm", "model", "adapter", "adapter_digest"), "x"),
    **{"phase": "learn", "status": "ok", "review_completion_tokens": 0, "review_calls": 0},
    **{"uncounted_calls": 0, "uncounted_review_calls": 0},
}


def spent(rows: list[tuple[bool, int, int]]) -> pd.DataFrame:
    numbers = ("prompt_tokens", "completion_tokens", "review_tokens", "seconds", "review_seconds", "api_calls")
    return pd.DataFrame(
        [FRAME_COLUMNS | dict.fromkeys(numbers, own) | {"success": won, "review_tokens": of} for won, own, of in rows]
    ).astype({"success": "boolean"})


one = st.tuples(st.booleans(), st.integers(1, 1000), st.integers(0, 1000))


@given(st.lists(one, min_size=1, max_size=8), one)
def test_another_failure_never_makes_a_solved_task_cheaper(
    rows: list[tuple[bool, int, int]], more: tuple[bool, int, int]
) -> None:
    (before,) = costs(spent(rows), (1.0, 2.0)).to_dict("records")
    (after,) = costs(spent([*rows, (False, *more[1:])]), (1.0, 2.0)).to_dict("records")
    for name in ("tokens", "seconds", "calls", "money"):
        assert after[name] >= before[name] >= 0
        if before["solved"]:
            assert after[f"{name}_per_solved"] >= before[f"{name}_per_solved"]
        else:
            assert after[f"{name}_per_solved"] is None


def test_equal_lanes_have_no_excess_and_unequal_ones_more_than_chance(write_run: WriteRun) -> None:
    alike = [e for r in range(4) for e in lane([True, False] * 20, f"on-r{r}-w0")]
    apart = [e for r in range(4) for e in lane([r % 2 == 0] * 40, f"off-r{r}-w0")]
    found = lane_variance(load_episodes(write_run(alike + apart)))
    same, other = row_of(found, series="skills on"), row_of(found, series="skills off")
    assert (same["sd"], same["excess"]) == (0.0, 0.0)
    assert same["chance"] == pytest.approx(math.sqrt(0.25 / 40))
    assert other["sd"] == pytest.approx(np.std([1, 0, 1, 0], ddof=1))
    assert other["excess"] == pytest.approx(math.sqrt(1 / 3 - 0.25 / 40))
    assert (other["low"], other["high"]) == (0.0, 1.0)
    (single,) = lane_variance(load_episodes(write_run(lane([True, False]), "single"))).to_dict("records")
    assert single["sd"] is None


def drifting(lanes: int, back: int) -> list[Episode]:
    """All solved until a drift at task 10, none for `back` tasks after it, and then all again."""
    outcomes = [n < 10 or n >= 10 + back for n in range(40)]
    return [e for r in range(lanes) for e in lane(outcomes, f"on-r{r}-w0")]


def test_the_half_life_counts_the_tasks_until_half_the_drop_is_made_up(write_run: WriteRun) -> None:
    found = recovery_from_drift(load_episodes(write_run(drifting(6, back=12))), 10)
    assert found is not None
    assert (found.before, found.after, found.drop.value) == (1.0, 0.0, 1.0)
    assert found.half_life is not None
    assert found.half_life.value == 10.0  # the window of tasks 10 to 14 has 3 of 5 solved
    assert found.half_life.interval is None  # all lanes agree
    assert found.drop.interval is not None
    assert 0.5 < found.drop.interval.low < found.drop.interval.high == 1.0


def test_a_half_life_that_the_run_does_not_see_is_infinite(write_run: WriteRun) -> None:
    found = recovery_from_drift(load_episodes(write_run(drifting(6, back=30))), 10)
    assert found is not None
    assert found.half_life is not None
    assert found.half_life.value == math.inf
    assert found.half_life.interval is None


def test_lanes_that_disagree_widen_the_drop(write_run: WriteRun) -> None:
    # In four of eight lanes the rules do not change: as many solved tasks as where every lane loses every other one.
    lanes = [e for r in range(8) for e in lane([n < 10 or bool(r % 2) for n in range(30)], f"on-r{r}-w0")]
    even = [e for r in range(8) for e in lane([n < 10 or bool((n + r) % 2) for n in range(30)], f"on-r{r}-w0")]
    apart, alike = (recovery_from_drift(load_episodes(write_run(e, n)), 10) for n, e in (("a", lanes), ("b", even)))
    assert apart is not None
    assert alike is not None
    assert apart.drop.value == alike.drop.value == 0.5
    assert apart.drop.interval is not None
    assert alike.drop.interval is not None
    assert apart.drop.interval.width > 1.5 * alike.drop.interval.width > 0


def test_replicates_of_worlds_that_all_agree_do_not_narrow_the_recovery(write_run: WriteRun) -> None:
    def lanes(replicates: int) -> list[Episode]:
        worlds = [[n < 10 or n >= 12 + w for n in range(40)] for w in range(8)]
        return [e for w, of in enumerate(worlds) for r in range(replicates) for e in lane(of, f"on-r{r}-w{w}")]

    once, thrice = (recovery_from_drift(load_episodes(write_run(lanes(n), f"x{n}")), 10) for n in (1, 3))
    assert once is not None
    assert thrice is not None
    assert (once.over, thrice.over, thrice.to_dict()["over"]) == ("8 lanes", "8 worlds", "8 worlds")
    assert once.half_life is not None
    assert once.half_life.interval is not None
    assert thrice.half_life == once.half_life
    assert thrice.drop.value == pytest.approx(once.drop.value)


def test_without_a_drop_or_without_lanes_there_is_no_half_life(write_run: WriteRun) -> None:
    steady = recovery_from_drift(load_episodes(write_run(drifting(6, back=0))), 10)
    assert steady is not None
    assert steady.drop.value == 0.0
    assert steady.half_life is None
    few = recovery_from_drift(load_episodes(write_run(drifting(2, back=12), "few")), 10)
    assert few is not None
    assert few.drop == (1.0, None)
    assert few.half_life is None


def test_a_run_that_ends_at_the_drift_tells_nothing_of_it(write_run: WriteRun) -> None:
    frame = load_episodes(write_run(drifting(6, back=12)))
    assert recovery_from_drift(frame[frame["experience"] < 12], 10) is None
    assert recovery_from_drift(frame[frame["experience"] >= 8], 10) is None
