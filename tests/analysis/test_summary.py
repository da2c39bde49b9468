import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from synthetic_episodes import make_episode

from analysis.summary import summarize
from hermes_lab.errors import ConfigError
from hermes_lab.types import EpisodeError, ModelIdentity, Review, SkillUse

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
