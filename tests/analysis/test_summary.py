import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from synthetic_episodes import make_episode

from analysis.summary import summarize
from hermes_lab.errors import ConfigError
from hermes_lab.types import EpisodeError, ModelIdentity, Review, SkillUse, Trajectory
from runners.commands.summary import show_summary

WriteRun = Callable[..., Path]


def test_totals_are_over_the_whole_run(write_run: WriteRun) -> None:
    error = EpisodeError("model", "down")
    lost = make_episode(None, task=3, status="errored", error=error, trajectory=None, metrics={}, seconds=1.0)
    failed = Review(error=error, seconds=1.0)
    episodes = [
        make_episode(True, review=Review(seconds=0.5)),
        make_episode(False, task=1, review=failed),
        make_episode(None, task=2),
        lost,
    ]
    found = summarize(write_run(episodes, wanted=5))
    assert {name: value for name, value in found.items() if name != "groups"} == {
        "wanted": 5,
        "finished": 3,
        "errored": 1,
        "scored": 2,
        "solved": 1,
        "success_rate": 0.5,
        "api_calls": 9,
        "tool_calls": 6,
        "tokens": 45,
        "reviews": 2,
        "reviews_failed": 1,
        "review_tokens": 0,
        "review_seconds": 1.5,
        "seconds": 7.0,
        "skills_written": 0,
        "skills_dropped": 0,
    }
    assert found["groups"][0]["reused"]["of"] == 3


def test_nothing_scored_has_no_success_rate(write_run: WriteRun) -> None:
    found = summarize(write_run([make_episode(None)]))
    assert found["success_rate"] is None
    assert found["groups"][0]["success"] == {"count": 0, "of": 0, "rate": None, "low": 0.0, "high": 1.0}


def test_arms_and_adapters_are_told_apart(write_run: WriteRun) -> None:
    tuned = ModelIdentity("vllm", "model-a", adapter="v1", adapter_digest="d1")
    used = SkillUse(loaded=("a",))
    episodes = [
        make_episode(False, lane="off-r0-w0", first_call_ok=False),
        make_episode(True, lane="on-r0-w0", skills=used),
        make_episode(True, lane="on-r0-w0", task=1, model=tuned),
    ]
    groups = summarize(write_run(episodes))["groups"]
    assert [(group["arm"], group["adapter"]) for group in groups] == [("off", ""), ("on", ""), ("on", "v1")]
    assert [group["first_call_ok"]["rate"] for group in groups] == [0.0, 1.0, 1.0]
    assert [group["reused"]["count"] for group in groups] == [0, 1, 0]
    assert [group["solved"] for group in groups] == [0, 1, 1]


def test_writes_that_a_border_dropped_are_counted_with_their_arm(write_run: WriteRun) -> None:
    episodes = [make_episode(True, lane=f"{arm}-r0-w0", task=task) for arm in ("on", "placebo") for task in range(2)]
    run = write_run(episodes)
    history = run / "lanes" / "on-r0-w0" / "history.jsonl"
    history.parent.mkdir(parents=True)
    lines = [{"round": 0, "dropped": [{"episode": episodes[1].key}] * 2}, {"round": 1, "dropped": []}]
    history.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    found = summarize(run)
    assert found["skills_dropped"] == 2
    assert {group["arm"]: group["skills_dropped"] for group in found["groups"]} == {"on": 2, "placebo": 0}


def test_held_out_episodes_are_counted_apart_in_their_group(write_run: WriteRun) -> None:
    learnt = [make_episode(bool(task), task=task, lane="on-r0-w0") for task in range(2)]
    held_out = [make_episode(True, task=task, lane="on-r0-w0", phase="heldout") for task in range(2, 5)]
    found = summarize(write_run([*learnt, *held_out]))
    (group,) = found["groups"]
    assert (found["finished"], group["finished"], group["success"]["count"]) == (5, 5, 4)
    assert {phase: (part["solved"], part["scored"]) for phase, part in group["phases"].items()} == {
        "learn": (1, 2),
        "heldout": (3, 3),
    }
    assert group["phases"]["heldout"]["success"]["rate"] == 1.0
    assert group["phases"]["learn"].keys() | {"phases", "arm", "model", "adapter", "adapter_digest"} == group.keys()


def test_a_run_without_held_out_tasks_has_the_phase_learn_alone(write_run: WriteRun) -> None:
    (group,) = summarize(write_run([make_episode(True)]))["groups"]
    assert list(group["phases"]) == ["learn"]


def test_the_table_shows_held_out_tasks_in_a_line_of_their_own(
    write_run: WriteRun, capsys: pytest.CaptureFixture[str]
) -> None:
    held_out = [make_episode(True, task=task, phase="heldout") for task in range(3)]
    show_summary(summarize(write_run([make_episode(False, task=9), *held_out])), json=False)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert next(line for line in lines if line[:2] == ["solved", "at"])[5] == "0/1"
    assert next(line for line in lines if line[:5] == ["solved", "of", "held-out,", "all", "checks"])[5] == "3/3"


def test_tokens_that_nobody_reported_are_not_told_as_0(write_run: WriteRun, capsys: pytest.CaptureFixture[str]) -> None:
    silent = Trajectory((), (), "native", "answered")
    found = summarize(write_run([make_episode(True, trajectory=silent, review=Review(silent))]))
    assert found["tokens"] == found["groups"][0]["review_tokens"] == 0  # a number: the format is stable
    show_summary(found, json=False)
    told = capsys.readouterr().out
    assert told.count("no tokens reported") == 2
    assert "0 tokens" not in told
    show_summary(summarize(write_run([make_episode(True)], "told")), json=False)
    assert "; 15 tokens" in capsys.readouterr().out


def test_summary_is_json(write_run: WriteRun) -> None:
    found = summarize(write_run([make_episode(True), make_episode(None, task=1)]))
    assert msgspec.json.decode(msgspec.json.encode(found)) == found


def test_a_manifest_that_lacks_a_field_is_named(tmp_path: Path) -> None:
    (tmp_path / "episodes").mkdir()
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"run\.json: .*missing required field"):
        summarize(tmp_path)


def test_summary_imports_no_numeric_library() -> None:
    heavy = {"numpy", "pandas", "scipy", "matplotlib"}
    subprocess.run(
        [sys.executable, "-c", f"import sys, analysis.summary; assert not {heavy} & set(sys.modules)"],
        check=True,
    )
