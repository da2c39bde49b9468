"""Uplift of skills: pairs of a whole library and one less a skill."""

from pathlib import Path

import pandas as pd
import pytest
from synthetic_episodes import WriteRun, make_episode

from hermes_lab.analysis.data.load import load_episodes
from hermes_lab.analysis.skill_effects.uplift import uplift_sentence, uplifts
from hermes_lab.analysis.stats.intervals import Rate
from hermes_lab.lane import LaneKey, lane_key, lane_name, left_out, without
from hermes_lab.types import Episode


def episodes(arm: str, outcomes: str, *, replicate: int = 0, world: int = 0) -> list[Episode]:
    """One a character: 1 solved, 0 failed, e errored, ? unjudged."""
    lane = lane_name(LaneKey(arm, replicate, world), with_weights=False)
    made = []
    for task, outcome in enumerate(outcomes):
        status = {"status": "errored", "score": None} if outcome == "e" else {}
        made.append(make_episode({"1": True, "0": False}.get(outcome), task=task, lane=lane, **status))
    return made


def frame_of(write_run: WriteRun, *lanes: list[Episode]) -> pd.DataFrame:
    return load_episodes(write_run([episode for lane in lanes for episode in lane]))


def test_pairs_are_counted_by_who_solved_them(write_run: WriteRun) -> None:
    frame = frame_of(write_run, episodes("all", "111100"), episodes(without("fleet"), "110010"))
    (found,) = uplifts(frame)
    assert (found.skill, found.pairs, found.helped, found.harmed) == ("fleet", 6, 2, 1)
    assert (found.with_it, found.without_it) == (Rate(4, 6), Rate(3, 6))
    assert found.difference == pytest.approx(found.with_it.value - found.without_it.value)
    assert found.harm_rate == Rate(1, 6)
    assert found.p_value == pytest.approx(1 - 3 / 8)
    assert not found.shown


def test_a_skill_that_always_helps_is_shown_and_one_that_always_harms_comes_last(write_run: WriteRun) -> None:
    frame = frame_of(
        write_run,
        episodes("all", "1" * 8 + "0" * 8),
        episodes(without("harms"), "1" * 16),
        episodes(without("helps"), "0" * 16),
        episodes(without("idle"), "1" * 8 + "0" * 8),
    )
    helps, idle, harms = uplifts(frame)
    assert [each.skill for each in (helps, idle, harms)] == ["helps", "idle", "harms"]
    assert (helps.difference, idle.difference, harms.difference) == (0.5, 0.0, -0.5)
    assert (helps.shown, idle.shown, harms.shown) == (True, False, True)
    assert helps.interval.low > 0 > harms.interval.high


def test_tasks_without_two_judged_sides_are_left_out_and_counted(write_run: WriteRun) -> None:
    frame = frame_of(write_run, episodes("all", "1e1?"), episodes(without("fleet"), "01e01"))
    (found,) = uplifts(frame)
    assert (found.pairs, found.helped, found.unpaired) == (1, 1, 4)


def test_worlds_are_apart_and_their_replicates_together(write_run: WriteRun) -> None:
    lanes = [
        episodes(arm, outcome, replicate=replicate, world=world)
        for replicate, world in ((0, 0), (1, 0), (0, 1))
        for arm, outcome in (("all", "11"), (without("fleet"), "10" if world else "00"))
    ]
    first, second = uplifts(frame_of(write_run, *lanes))
    assert (first.world, first.lanes, first.pairs, first.helped) == (0, 2, 4, 4)
    assert (second.world, second.lanes, second.pairs, second.helped) == (1, 1, 2, 1)


def test_replicates_that_share_their_tasks_are_no_further_tasks(write_run: WriteRun) -> None:
    """3 tasks in 4 replicates are 12 pairs, and 3 facts: by McNemar over 12 the p would be 0.0002."""
    lanes = [
        episodes(arm, outcomes, replicate=replicate)
        for replicate in range(4)
        for arm, outcomes in (("all", "111"), (without("fleet"), "000"))
    ]
    (found,) = uplifts(frame_of(write_run, *lanes))
    assert (found.pairs, found.tasks, found.lanes, found.difference) == (12, 3, 4, 1.0)
    assert found.p_value == pytest.approx(1 / 2**3)
    assert not found.shown


def test_what_is_shown_is_by_holm_over_all_skills(write_run: WriteRun) -> None:
    helped = [episodes("all", "1" * 8), episodes(without("helps"), "11000000")]
    idle = [episodes(without(f"idle-{n}"), "1" * 8) for n in range(3)]
    (alone,) = uplifts(frame_of(write_run, *helped))
    assert alone.p_holm == alone.p_value == pytest.approx(1 / 2**6)
    assert (alone.shown, alone.effect) == (True, "helps")
    helps, *others = uplifts(load_episodes(write_run([e for lane in (*helped, *idle) for e in lane], "more")))
    assert (helps.p_value, helps.p_holm) == (pytest.approx(1 / 2**6), pytest.approx(4 / 2**6))
    assert helps.interval.low > 0  # of this skill alone
    assert (helps.shown, helps.effect) == (False, "not shown")
    assert uplift_sentence([alone]) == "of 1 skill 1 help, 0 harm, 0 with no effect shown (Holm, 5 %)"
    assert uplift_sentence([helps, *others]).startswith("of 4 skills 0 help, 0 harm, 4 with no effect shown")
    assert "not measured" in uplift_sentence([])


def test_other_runs_have_no_uplift(write_run: WriteRun) -> None:
    assert uplifts(frame_of(write_run, episodes("off", "10"), episodes("on", "11"))) == []


def test_no_name_of_a_skill_is_taken_for_a_place() -> None:
    for skill in ("fleet", "x-r1-w2", "x-r1-w2-a3", "all", "without-x"):
        for weights in (False, True):
            place = lane_key(lane_name(LaneKey(without(skill), 4, 5, 6 * weights), with_weights=weights))
            assert place == LaneKey(without(skill), 4, 5, 6 * weights)
            assert left_out(place.arm) == skill
    assert left_out("all") == left_out("on") == ""


def test_a_report_is_plain_data(write_run: WriteRun, tmp_path: Path) -> None:
    (found,) = uplifts(frame_of(write_run, episodes("all", "11"), episodes(without("fleet"), "00")))
    told = found.to_dict()
    assert (told["difference"], told["pairs"], told["tasks"], told["harm_rate"]["count"]) == (1.0, 2, 2, 0)
    assert (told["p_holm"], told["shown"]) == (pytest.approx(1 / 2**2), False)
