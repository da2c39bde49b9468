"""The funnel of skills: stages, rates, and what was not measured."""

from pathlib import Path

from fakes.episodes import episode, write_run

from hermes_lab.analysis.skill_effects.funnel import Funnel, funnels, read_seen
from hermes_lab.analysis.stats.intervals import Rate
from hermes_lab.types import Episode
from hermes_lab.types.episode import SkillTrace, SkillUse


def seen(
    task: str, trace: SkillTrace, success: bool | None = True, lane: str = "on-r0-w0", **fields: object
) -> Episode:
    return episode(task, lane=lane, success=success, skills=SkillUse(traces=(trace,)), **fields)


def trace(eligible: bool | None, listed: bool, loaded: bool, followed: bool | None = None) -> SkillTrace:
    return SkillTrace("fleet", eligible, "trigger", listed, loaded, followed)


def funnel(run: Path, *episodes: Episode) -> Funnel:
    (only,) = funnels(read_seen(write_run(run, *episodes)))
    return only


def test_every_stage_counts_what_came_through_all_before_it(tmp_path: Path) -> None:
    found = funnel(
        tmp_path,
        seen("a", trace(True, True, True, True)),
        seen("b", trace(True, True, True, True), success=False),
        seen("c", trace(True, True, True, False)),
        seen("d", trace(True, True, False), success=False),
        seen("e", trace(True, False, False), success=False),
        seen("f", trace(False, True, True, True)),
    )
    assert (found.eligible, found.listed, found.loaded, found.followed, found.solved) == (5, 4, 3, 2, 1)
    assert found.astray == 1
    assert (found.with_it, found.without_it) == (Rate(2, 3), Rate(0, 2))


def test_what_nothing_could_tell_is_none_and_never_a_zero(tmp_path: Path) -> None:
    found = funnel(tmp_path, seen("a", trace(None, True, True), success=None))
    assert (found.eligible, found.listed, found.followed, found.solved, found.astray) == (None,) * 5
    assert found.loaded == 1
    assert found.to_dict()["with_it"]["rate"] is None


def test_without_a_line_to_follow_the_solved_are_of_those_that_loaded(tmp_path: Path) -> None:
    found = funnel(tmp_path, seen("a", trace(True, True, True)), seen("b", trace(True, True, False)))
    assert (found.followed, found.solved) == (None, 1)


def test_arms_are_counted_apart_and_their_lanes_together(tmp_path: Path) -> None:
    loaded = trace(True, True, True)
    run = write_run(
        tmp_path,
        seen("a", loaded, lane="on-r0-w0"),
        seen("a", loaded, lane="on-r1-w0"),
        seen("a", loaded, lane="placebo-r0-w0"),
        seen("a", loaded, lane="main"),
    )
    assert [(one.arm, one.loaded) for one in funnels(read_seen(run))] == [("main", 1), ("on", 2), ("placebo", 1)]


def test_an_errored_episode_and_a_superseded_record_count_nowhere(tmp_path: Path) -> None:
    loaded = trace(True, True, True)
    found = funnel(
        tmp_path,
        seen("a", trace(True, False, False), success=False),
        seen("a", loaded),
        seen("b", loaded, status="errored"),
    )
    assert (found.eligible, found.loaded, found.solved) == (1, 1, 1)


def off(task: str, success: bool | None, **fields: object) -> Episode:
    return episode(task, lane="off-r0-w0", success=success, **fields)


def test_helped_and_hurt_are_against_the_same_task_without_skills(tmp_path: Path) -> None:
    followed = trace(True, True, True, True)
    found = funnel(
        tmp_path,
        *(seen(task, followed) for task in "abc"),
        *(seen(task, followed, success=False) for task in "de"),
        seen("f", trace(True, True, True, False)),  # not followed
        *(off(task, success) for task, success in zip("abcdef", (False, False, True, True, False, False), strict=True)),
    )
    assert (found.followed, found.solved, found.helped, found.hurt) == (5, 3, 2, 1)
    assert (found.to_dict()["helped"], found.to_dict()["hurt"]) == (2, 1)


def test_without_a_judged_counterpart_nothing_helped_or_hurt(tmp_path: Path) -> None:
    followed = trace(True, True, True, True)
    found = funnel(
        tmp_path,
        seen("a", followed),
        seen("b", followed),
        seen("c", followed, lane="on-r1-w0"),
        off("a", None),
        off("b", False, status="errored"),
        off("c", False),  # of another replicate
        off("a", False, round=1),  # another check
    )
    assert (found.solved, found.helped, found.hurt) == (3, None, None)


def test_where_nothing_can_be_followed_those_that_loaded_are_paired(tmp_path: Path) -> None:
    found = funnel(tmp_path, seen("a", trace(True, True, True)), seen("b", trace(True, True, False)), off("a", False))
    assert (found.helped, found.hurt) == (1, 0)
