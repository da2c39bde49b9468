import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from synthetic_episodes import make_episode

from hermes_lab.analysis.summaries.summary import summarize
from hermes_lab.errors import ConfigError
from hermes_lab.runners.commands.summary import show_summary
from hermes_lab.types import (
    Episode,
    EpisodeError,
    Judgement,
    ModelIdentity,
    Review,
    SkillUse,
    Trajectory,
    Usage,
    Vote,
)

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
    assert {name: value for name, value in found.items() if name not in ("groups", "warnings")} == {
        "command": "learn",
        "wanted": 5,
        "program": None,
        "stopped": "",
        "rescored": None,
        "evaluation": None,
        "finished": 3,
        "errored": 1,
        "scored": 2,
        "solved": 1,
        "success_rate": 0.5,
        "mean_score": 0.5,
        "stop_reasons": {"answered": 3},
        "solved_by_stop_reason": {"answered": {"count": 1, "of": 2}},
        **dict.fromkeys(("truncated", "unparsed", "refused", "filtered", "empty", "repeated", "context_full"), 0),
        "errors": {"model": {"count": 1, "message": "down"}},
        "api_calls": 9,
        "tool_calls": 6,
        "cut_replies": None,
        "unparsed_calls": None,
        "refused_calls": None,
        "tokens": 45,
        "uncounted_calls": 0,
        "reviews": 2,
        "reviews_failed": 1,
        "review_stop_reasons": {},
        "review_tokens": 0,
        "uncounted_review_calls": 0,
        "review_seconds": 1.5,
        "judge_votes": 0,
        "judge_tokens": 0,
        "judge_cost": 0.0,
        "uncounted_votes": 0,
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
    assert (
        group["phases"]["learn"].keys() | {"phases", "treatment", "arm", "model", "adapter", "adapter_digest"}
        == group.keys()
    )


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


def ended(stop: str, *, task: int, success: bool = False, **metrics: float) -> Episode:
    usual = make_episode(success, task=task)
    spoken = msgspec.structs.replace(usual.trajectory, stop_reason=stop)
    return msgspec.structs.replace(usual, trajectory=spoken, metrics=usual.metrics | metrics)


def test_stop_reasons_and_lost_calls_are_counted_in_whole_and_by_arm(write_run: WriteRun) -> None:
    stops = ["length", "length", "unparsed", "filtered", "refused", "empty", "repeated", "context_full", "answered"]
    counts = {"cut_replies": 1, "unparsed_calls": 1, "refused_calls": 2}
    episodes = [ended(stop, task=task, success=task == 1, **counts) for task, stop in enumerate(stops)]
    other = msgspec.structs.replace(ended("max_cost", task=9), lane="off-r0-w0")
    found = summarize(write_run([*episodes, other]))
    assert found["stop_reasons"] == dict(sorted(Counter([*stops, "max_cost"]).items()))
    names = ("truncated", "unparsed", "filtered", "refused", "empty", "repeated", "context_full")
    assert [found[name] for name in names] == [2, 1, 1, 1, 1, 1, 1]
    assert found["solved_by_stop_reason"]["length"] == {"count": 1, "of": 2}
    # The record of the other arm tells nothing of these.
    assert [found[name] for name in counts] == [9, 9, 18]
    by_arm = {group["arm"]: group for group in found["groups"]}
    assert by_arm["off"]["stop_reasons"] == {"max_cost": 1}
    assert (by_arm["main"]["truncated"], by_arm["off"]["truncated"], by_arm["off"]["cut_replies"]) == (2, 0, None)


def test_an_answer_that_needed_no_call_is_no_failed_first_call(write_run: WriteRun) -> None:
    plain = {"tool_calls": 0, "first_call_ok": 0.0}
    broken = make_episode(False, task=2, first_call_ok=False)
    episodes = [
        make_episode(True),
        ended("answered", task=1, success=True, **plain, first_call=0.0),
        msgspec.structs.replace(broken, metrics=broken.metrics | {"first_call": 1.0}),
        ended("unparsed", task=3, **plain, first_call=1.0),
        ended("answered", task=4, success=True, **plain),  # an older record, in which nothing was called
    ]
    (group,) = summarize(write_run(episodes))["groups"]
    assert (group["first_call_ok"]["count"], group["first_call_ok"]["of"]) == (1, 3)


def test_the_mean_score_has_partial_credit_and_is_shown_where_there_is_any(
    write_run: WriteRun, capsys: pytest.CaptureFixture[str]
) -> None:
    found = summarize(
        write_run([make_episode(True), make_episode(False, task=1, score=0.5), make_episode(None, task=2)])
    )
    assert (found["success_rate"], found["mean_score"]) == (0.5, 0.75)
    show_summary(found, json=False)
    assert "1 solved at the first submission, mean score 0.75;" in capsys.readouterr().out


def test_each_kind_of_error_is_told_with_its_most_frequent_message(
    write_run: WriteRun, capsys: pytest.CaptureFixture[str]
) -> None:
    messages = ["b", "a\nmore", "a\nother", "c"]
    down = {"status": "errored", "trajectory": None, "metrics": {}}
    episodes = [
        make_episode(None, task=task, error=EpisodeError("model", message), **down)
        for task, message in enumerate(messages)
    ]
    found = summarize(write_run([*episodes, make_episode(None, task=9, error=EpisodeError("sandbox", "gone"), **down)]))
    assert found["errors"] == {"model": {"count": 4, "message": "a"}, "sandbox": {"count": 1, "message": "gone"}}
    show_summary(found, json=False)
    told = " ".join(capsys.readouterr().out.split())
    assert "errored: model 4, most often: a errored: sandbox 1, most often: gone" in told


def test_the_table_says_how_episodes_ended_only_where_not_all_were_answered(
    write_run: WriteRun, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = {"cut_replies": 2, "refused_calls": 1, "unparsed_calls": 1}
    show_summary(summarize(write_run([make_episode(True), ended("length", task=1, **cut)], "cut")), json=False)
    told = " ".join(capsys.readouterr().out.split())
    assert "episodes ended 1 answered, 1 reply cut (length)" in told
    assert "replies truncated 2 of 6" in told
    assert "tool calls that never ran 1 of 4, 1 of them not parsed" in told
    show_summary(summarize(write_run([make_episode(True)], "whole")), json=False)
    told = capsys.readouterr().out
    assert all(word not in told for word in ("ended", "cut", "never ran", "errored:", "without"))


def test_model_calls_without_usage_are_counted_and_named(
    write_run: WriteRun, capsys: pytest.CaptureFixture[str]
) -> None:
    def spent(uncounted: int) -> Trajectory:
        return Trajectory((), (), "native", "answered", usage=Usage(10, 5, uncounted=uncounted))

    judged = Judgement(1, ModelIdentity("openai", "j"), True, (Vote("?", usage=Usage(uncounted=1)), Vote("?")))
    episodes = [
        make_episode(True, lane="on-r0-w0", trajectory=spent(2), review=Review(spent(3)), judgements=(judged,)),
        make_episode(True, lane="off-r0-w0", trajectory=spent(0)),
    ]
    found = summarize(write_run(episodes))
    names = ("uncounted_calls", "uncounted_review_calls", "uncounted_votes")
    assert [found[name] for name in names] == [2, 3, 1]
    by_arm = {group["arm"]: [group[name] for name in names] for group in found["groups"]}
    assert by_arm == {"on": [2, 3, 1], "off": [0, 0, 0]}
    show_summary(found, json=False)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    told = "model calls without usage 5, 3 of them in reviews; no sum of tokens or cost includes them"
    assert lines.count(told) == 2, lines  # of the run, and of arm on
    assert "judge, not counted above 2 votes; no tokens reported, 1 vote without usage" in lines


def test_a_review_that_was_cut_is_counted(write_run: WriteRun) -> None:
    cut = Review(Trajectory((), (), "native", "length"))
    found = summarize(write_run([make_episode(True, review=cut)]))
    assert found["review_stop_reasons"] == {"length": 1}
    (warning,) = found["warnings"]
    assert warning.startswith("1 of 1 reviews (100 %) ended without a result (1 reply cut (length))")


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
        [
            sys.executable,
            "-c",
            f"import sys, hermes_lab.analysis.summaries.summary; assert not {heavy} & set(sys.modules)",
        ],
        check=True,
    )
