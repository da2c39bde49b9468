"""Runs whose answers a model grades, at a real endpoint."""

import json
from pathlib import Path
from typing import Any

import pytest
from fakes.command import lab
from fakes.openai_server import FakeOpenAIServer, Reply, running

from hermes_lab.records import read_episodes
from hermes_lab.types import Episode

NOOP = ("-c", "model.provider=scripted", "-c", "model.name=hermes_lab.tasks.learner:noop")
JUDGED = {"id": "judged", "prompt": "Say that you are done now.", "judge": "The answer says that it is done."}


def run_of(tmp_path: Path, server: FakeOpenAIServer, *rows: dict[str, Any], options: tuple[str, ...] = ()) -> Any:
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text("\n".join(map(json.dumps, rows)))
    judge = ("judge.model.name=fake", f"judge.model.base_url={server.base_url}", "judge.model.max_retries=0", *options)
    more = [part for each in (f"suite.path={tasks}", *judge) for part in ("-c", each)]
    resume = ["--resume"] if (tmp_path / "run").exists() else []
    return lab("run", *more, *NOOP, "--out", tmp_path / "run", *resume)


def episodes_of(tmp_path: Path) -> dict[str, Episode]:
    return {episode.task_id: episode for episode in read_episodes(tmp_path / "run")}


@pytest.mark.parametrize("executor", ["local", "processes"])
def test_votes_are_recorded_and_counted_apart_from_the_agents_tokens(tmp_path: Path, executor: str) -> None:
    workers = (f"run.executor={executor}", *(["run.processes=1"] if executor == "processes" else []))
    with running(FakeOpenAIServer(["<think>hm\nGRADE: I</think>It does.\nGRADE: C"])) as server:
        options = ("judge.votes=3", "judge.model.price.completion=1000000", *workers)
        done = run_of(tmp_path, server, JUDGED, options=options)
        assert done.returncode == 0, done.stderr
        assert len(server.requests) == 3
    episode = episodes_of(tmp_path)["judged"]
    assert episode.verdicts[0].criteria == {"judge": 1.0}
    assert (episode.score, episode.success) == (1.0, True)
    (judgement,) = episode.judgements
    assert (judgement.passed, judgement.model.name) == (True, "fake")
    assert [vote.grade for vote in judgement.votes] == ["C"] * 3
    assert [vote.prompt for vote in judgement.votes] != [judgement.votes[0].prompt] * 3, "each vote has its own mark"
    sent = [request["messages"][0]["content"] for request in server.requests]
    assert sorted(vote.prompt for vote in judgement.votes) == sorted(sent)
    summary = json.loads(lab("summary", tmp_path / "run", "--json").stdout)
    spent = sum(vote.usage.prompt_tokens + vote.usage.completion_tokens for vote in judgement.votes)
    cost = sum(vote.usage.completion_tokens for vote in judgement.votes)
    assert (summary["tokens"], summary["judge_votes"], summary["judge_tokens"]) == (0, 3, spent)
    assert summary["judge_cost"] == pytest.approx(cost)
    assert f"judge, not counted above         3 votes; {spent:,} tokens, cost" in done.stdout
    shown = lab("show", tmp_path / "run", "--episode", "0").stdout
    assert "[judge] submission 1, fake: passed" in shown
    assert "It does.\nGRADE: C" in shown
    assert "all 3 messages are the same" in lab("replay", tmp_path / "run", "--episode", "0").stdout


def test_votes_without_usage_are_counted_and_named(tmp_path: Path) -> None:
    with running(FakeOpenAIServer([Reply("It does.\nGRADE: C", counted=False)])) as server:
        done = run_of(tmp_path, server, JUDGED, options=("judge.model.price.completion=1000000",))
    assert done.returncode == 0, done.stderr
    assert "1 vote; no tokens reported, 1 vote without usage" in done.stdout
    summary = json.loads(lab("summary", tmp_path / "run", "--json").stdout)
    assert (summary["uncounted_votes"], summary["uncounted_calls"]) == (1, 0)
    assert "(vote 1: C, no usage)" in lab("show", tmp_path / "run", "--episode", "0").stdout


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("I cannot say.", "the last line is neither `GRADE: C` nor `GRADE: I`: 'I cannot say.'"),
        (Reply("So.\nGRADE: C", finish_reason="length"), "raise judge.model.sampling.max_tokens"),
        (Reply("So.\nGRADE: I", finish_reason="length"), "raise judge.model.sampling.max_tokens"),
        (Reply(status=500, body={"error": {"message": "overloaded"}}), "overloaded"),
    ],
)
def test_a_judge_without_a_grade_errors_the_episode_and_a_resume_asks_again(
    tmp_path: Path, reply: str | Reply, why: str
) -> None:
    with running(FakeOpenAIServer([reply])) as server:
        done = run_of(tmp_path, server, JUDGED)
        assert done.returncode == 3
        assert why in done.stderr
        episode = episodes_of(tmp_path)["judged"]
        assert (episode.status, episode.score, episode.success, episode.verdicts) == ("errored", None, None, ())
        assert episode.error is not None
        assert episode.error.kind == "judge"
        assert episode.judgements[0].votes[0].error
        server.script = ["So.\nGRADE: I"]
        done = run_of(tmp_path, server, JUDGED)
        assert done.returncode == 0, done.stderr
    episode = episodes_of(tmp_path)["judged"]
    assert (episode.status, episode.score, episode.verdicts[0].reasons) == ("ok", 0.0, {"judge": "0 of 1 votes for it"})


def test_the_judge_is_not_asked_where_the_verdict_is_known(tmp_path: Path) -> None:
    with running(FakeOpenAIServer(["So.\nGRADE: C"])) as server:
        both = JUDGED | {"id": "both", "expected_output": "Done."}
        wrong = JUDGED | {"id": "wrong", "expected_output": "Finished."}
        plain = {"id": "plain", "prompt": "Say that you are done too."}
        done = run_of(tmp_path, server, both, wrong, plain)
        assert done.returncode == 0, done.stderr
        assert len(server.requests) == 1
    episodes = episodes_of(tmp_path)
    assert episodes["both"].verdicts[0].criteria == {"expected_output": 1.0, "judge": 1.0}
    assert (episodes["wrong"].score, episodes["wrong"].judgements) == (0.0, ())
    assert episodes["plain"].success is None


def test_a_judge_is_never_the_default_and_never_idle(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.jsonl"
    run = ("run", *NOOP, "-c", f"suite.path={tasks}", "--out", tmp_path / "run")
    tasks.write_text(json.dumps(JUDGED))
    none = lab(*run)
    tasks.write_text(json.dumps({"prompt": "Say that you are done now."}))
    idle = lab(*run, "-c", "judge.model.name=fake")
    assert (none.returncode, idle.returncode) == (2, 2)
    assert "judge: tasks: task judged is graded by a model, and none is given; set judge.model.name" in none.stderr
    assert "judge: no task of tasks has a rubric" in idle.stderr
    assert not (tmp_path / "run").exists()


def test_a_checker_that_cannot_run_errors_the_episode_with_its_command(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text(json.dumps({"prompt": "Write a to a.txt please.", "verify": "no-such-checker a.txt"}))
    done = lab("run", *NOOP, "-c", f"suite.path={tasks}", "--out", tmp_path / "run")
    assert done.returncode == 3
    why = f"verifier: {tasks}:1: verify command 'no-such-checker a.txt' cannot run (exit code 127): no-such-checker"
    assert why in done.stderr
    assert [(e.status, e.score) for e in read_episodes(tmp_path / "run")] == [("errored", None)]
