"""The life of skills, and its pictures."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from plot_frames import said
from synthetic_episodes import make_episode

from hermes_lab.analysis.plots import figure, plot_skill_tasks, plot_skill_timeline, png
from hermes_lab.analysis.skill_effects.timeline import SkillEvent, SkillLoads, skill_tasks, timeline
from hermes_lab.errors import ConfigError
from hermes_lab.types import Episode, SkillUse, TaskInfo

WriteRun = Callable[..., Path]


@pytest.fixture
def ax() -> Axes:
    return figure().add_subplot()


def using(number: int, success: bool | None, *loaded: str, kind: str = "", **changes: Any) -> Episode:
    """The episode of round `number`, whose prompt named the skills a and b."""
    use = SkillUse(listed=("a", "b"), loaded=loaded)
    episode = make_episode(success, task=number, **{"lane": "on-r0-w0", "skills": use, **changes})
    return msgspec.structs.replace(episode, task=TaskInfo("code", "train", metadata={"rule_type": kind}))


def write_history(run: Path, lane: str, *borders: dict[str, Any]) -> None:
    path = run / "lanes" / lane / "history.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(msgspec.json.encode(merge) + b"\n" for merge in borders))


def test_borders_tell_what_became_of_each_skill(write_run: WriteRun) -> None:
    run = write_run([using(0, True)])
    writes = [{"action": action, "name": name} for action, name in (("create", "a"), ("patch", "b"), ("delete", "c"))]
    write_history(run, "on-r0-w0", {"round": 0, "merged": writes}, {"round": 1, "deprecated": [{"name": "a"}]})
    write_history(run, "on-r1-w0", {"round": 0, "merged": [], "dropped": [{"action": "create", "name": "d"}]})
    assert timeline(run, "on-r0-w0").events == [
        SkillEvent(0, "a", "created"),
        SkillEvent(0, "b", "patched"),
        SkillEvent(0, "c", "deleted"),
        SkillEvent(1, "a", "deprecated"),
    ]
    assert timeline(run, "on-r1-w0").events == [SkillEvent(0, "d", "dropped")]


def test_loads_are_judged_episodes_of_the_lane_by_round(write_run: WriteRun) -> None:
    episodes = [
        using(0, True, "a", "b"),
        using(0, False, "a", sample=1),
        using(1, None, "a"),
        using(2, True, "a", phase="heldout"),
        using(0, True, "a", lane="on-r1-w0"),
    ]
    assert timeline(write_run(episodes), "on-r0-w0").loads == [SkillLoads(0, "a", 2, 1), SkillLoads(0, "b", 1, 1)]


def test_a_line_that_is_no_border_is_named(write_run: WriteRun) -> None:
    run = write_run([using(0, True)])
    write_history(run, "on-r0-w0", {"round": 0}, {"round": "x"})
    with pytest.raises(ConfigError, match=r"history\.jsonl:2: not a merge record"):
        timeline(run, "on-r0-w0")


def test_shares_are_of_the_episodes_whose_prompt_named_the_skill(write_run: WriteRun) -> None:
    unlisted = SkillUse(listed=("b",))
    episodes = [
        using(0, True, "a", kind="scale"),
        using(1, True, kind="scale"),
        using(2, True, "b", kind="cap", skills=SkillUse(listed=("b",), loaded=("b",))),
        using(3, True, kind="cap", skills=unlisted),
        using(4, True),
    ]
    shares = skill_tasks(write_run(episodes))
    assert (list(shares.index), list(shares.columns)) == (["a", "b"], ["cap", "none", "scale"])
    np.testing.assert_array_equal(shares.to_numpy(), [[np.nan, 0, 0.5], [0.5, 0, 0]])
    assert list(skill_tasks(write_run(episodes), by="task").columns) == ["t0", "t1", "t2", "t3", "t4"]


def test_a_run_without_skills_has_an_empty_table_and_its_picture_says_so(write_run: WriteRun, ax: Axes) -> None:
    shares = skill_tasks(write_run([make_episode(True)]))
    assert shares.empty
    plot_skill_tasks(ax, shares)
    assert "not measured" in said(ax)


def marks(ax: Axes) -> dict[str, tuple[list[float], list[float]]]:
    return {str(line.get_label()): (list(line.get_xdata()), list(line.get_ydata())) for line in ax.lines}


def test_events_stand_at_the_ends_of_their_rounds_in_the_row_of_their_skill(ax: Axes) -> None:
    events = [SkillEvent(2, "b", "created"), SkillEvent(0, "a", "created"), SkillEvent(3, "a", "deprecated")]
    plot_skill_timeline(ax, events, [SkillLoads(1, "a", 4, 1)])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]
    drawn = marks(ax)
    assert drawn["created"] == ([2.5, 0.5], [1, 0])
    assert drawn["deprecated"] == ([3.5], [0])
    assert "loaded, fewer than half solved" in said(ax)


def test_a_life_goes_from_creation_and_is_dotted_once_it_is_deprecated(ax: Axes) -> None:
    events = [SkillEvent(1, "a", "created"), SkillEvent(3, "a", "deprecated"), SkillEvent(5, "a", "deleted")]
    plot_skill_timeline(ax, events)
    named, listed_no_more = (c.get_segments()[0][:, 0].tolist() for c in ax.collections)
    assert (named, listed_no_more) == ([1.5, 3.5], [3.5, 5.5])


def test_a_skill_that_was_there_before_the_run_has_a_life_from_its_start(ax: Axes) -> None:
    plot_skill_timeline(ax, [], [SkillLoads(4, "given", 1, 1), SkillLoads(6, "given", 1, 0)])
    begin, end = ax.collections[0].get_segments()[0][:, 0]
    assert begin < 4
    assert end > 6


def test_nothing_written_and_nothing_loaded_is_said(ax: Axes) -> None:
    plot_skill_timeline(ax, [])
    assert "no skill was written or loaded" in said(ax)


def test_a_small_map_has_its_shares_written_in_and_a_large_one_its_size() -> None:
    made = figure(8, 5)
    small, large = made.subplots(1, 2)
    plot_skill_tasks(small, pd.DataFrame([[0.25, np.nan]], index=["a"], columns=["x", "y"]))
    assert [text.get_text() for text in small.texts] == ["25"]
    plot_skill_tasks(large, pd.DataFrame(np.zeros((60, 1000))))
    assert large.get_xlabel().startswith("1,000 columns")
    assert large.get_ylabel() == "60 rows"
    assert png(made).startswith(b"\x89PNG")
