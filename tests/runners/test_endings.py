"""A run in which nothing could be solved says why: in `run`, `summary` and the report, with an endpoint on loopback."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.command import lab
from fakes.openai_server import FakeOpenAIServer, Reply, function_call, running

from hermes_lab.analysis.report.page import write_report
from hermes_lab.harness.metrics import episode_metrics
from hermes_lab.records import read_episodes
from hermes_lab.types import Message, Step, ToolCall, ToolResult, Trajectory, Usage

LIMIT = "model.sampling.max_tokens (15)"


@pytest.fixture(scope="module")
def server() -> Iterator[FakeOpenAIServer]:
    with running(FakeOpenAIServer([Reply("I was about to", finish_reason="length")])) as started:
        yield started


def command(server: FakeOpenAIServer, folder: Path) -> list[str]:
    file = folder / "tasks.jsonl"
    rows = [{"prompt": f"Task {number}", "expected_output": "42"} for number in range(12)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = [f"suite.path={file}", f"model.base_url={server.base_url}", "model.name=fake", "run.concurrency=1"]
    given.append("model.sampling.max_tokens=15")  # as many as the fake counts
    return ["run", *(part for each in given for part in ("-c", each)), "--out", str(folder / "run")]


def test_a_run_that_was_cut_everywhere_says_so_while_it_runs_and_at_its_end(
    server: FakeOpenAIServer, tmp_path: Path
) -> None:
    done = lab(*command(server, tmp_path))
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    early, last = (number for number, line in enumerate(lines) if line.startswith("warning: "))
    assert lines[early].startswith("warning: none of the first 10 episodes produced an answer (10 reply cut)")
    assert early < [line.split()[0] for line in lines].index("12/12")
    assert lines[last].startswith(f"warning: 12 of 12 episodes (100 %) ended with a reply truncated at {LIMIT}")
    assert "episodes ended                   12 reply cut (length)" in done.stdout
    assert "12 reply cut" in next(line for line in lines if line.startswith("12/12"))
    written = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert written["truncated"] == written["cut_replies"] == 12
    assert [f"warning: {warning}" for warning in written["warnings"]] == [lines[last]]
    again = lab("summary", tmp_path / "run")
    assert again.stderr.splitlines() == [lines[last]]
    assert json.loads(lab("summary", tmp_path / "run", "--json").stdout) == written
    write_report([tmp_path / "run"], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert f"truncated at {LIMIT}" in page[: page.index("<h2")]


@pytest.mark.parametrize("option", ["--quiet", "--json"])
def test_quiet_and_json_leave_the_warnings_to_the_summary(
    server: FakeOpenAIServer, tmp_path: Path, option: str
) -> None:
    done = lab(*command(server, tmp_path), option)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(json.loads((tmp_path / "run" / "summary.json").read_text())["warnings"]) == 1


def test_an_interrupted_or_failed_run_ends_with_what_is_owed(tmp_path: Path) -> None:
    with running(FakeOpenAIServer([Reply(status=404, body={"error": {"message": "no such page"}})])) as server:
        done = lab(*command(server, tmp_path), "-c", "model.max_retries=0")
    assert done.returncode == 3
    *_, warning, owed = done.stderr.splitlines()
    assert warning.startswith("warning: 12 of 12 episodes (100 %) errored and have no score; most often: model: ")
    assert owed.startswith("12 of 12 episodes did not finish")


def test_calls_that_never_ran_are_counted_in_the_record_and_an_answer_without_a_call_is_no_call(tmp_path: Path) -> None:
    broken = Reply(tool_calls=[function_call("c", "terminal", "{"), function_call("d", "no_such_tool", {})])
    with running(FakeOpenAIServer(lambda body: "42" if len(body["messages"]) > 2 else broken)) as server:
        done = lab(*command(server, tmp_path), "--json")
    summary = json.loads(done.stdout)
    assert (summary["tool_calls"], summary["refused_calls"], summary["unparsed_calls"]) == (24, 24, 12)
    first = summary["groups"][0]["first_call_ok"]
    assert (first["count"], first["of"], summary["solved"]) == (0, 12, 12)
    with running(FakeOpenAIServer(["42"])) as server:
        (tmp_path / "plain").mkdir()
        done = lab(*command(server, tmp_path / "plain"))
    assert "first calls" not in done.stdout
    assert "warning" not in done.stderr
    assert {episode.metrics["first_call"] for episode in read_episodes(tmp_path / "plain" / "run")} == {0.0}


def test_a_call_for_which_no_budget_was_left_is_not_a_refused_one(tmp_path: Path) -> None:
    call = Reply(tool_calls=[function_call("c", "terminal", {"command": "true"})])
    with running(FakeOpenAIServer([call])) as server:
        done = lab(*command(server, tmp_path), "-c", "agent.max_iterations=1", "--json")
    summary = json.loads(done.stdout)
    assert summary["stop_reasons"] == {"max_iterations": 12}
    assert (summary["tool_calls"], summary["refused_calls"]) == (24, 0)
    assert "agent.max_iterations (1)" in summary["warnings"][0]


def test_a_first_reply_whose_call_was_not_read_counts_as_a_call() -> None:
    def first_call(stop: str, *replies: Message) -> float:
        steps = tuple(Step(number, "max_tokens", Usage()) for number in range(len(replies)))
        found = episode_metrics(Trajectory(replies, (), "native", stop, steps=steps), 0)  # type: ignore[arg-type]
        assert found["cut_replies"] == len(replies)  # an older record has the endpoint's own word
        assert found["first_call_ok"] == 0.0
        return found["first_call"]

    unread = Message("assistant", "<tool_call>{}")
    assert first_call("unparsed", unread) == 1.0
    assert first_call("unparsed", Message("assistant", "Well."), unread) == 0.0
    assert first_call("answered", Message("assistant", "42")) == 0.0
    refused = ToolResult("c", "x", "{}", ok=False, executed=False)
    calls = Message("assistant", "", tool_calls=(ToolCall("c", "x", error="broken"),))
    assert first_call("answered", calls, Message("tool", "{}", results=(refused,))) == 1.0


def test_unparsed_calls_are_among_those_that_never_ran() -> None:
    """The calls of a last reply that was cut have no result, so they are in neither count."""
    refused = ToolResult("c", "x", "{}", ok=False, executed=False)
    broken = Message("assistant", "", tool_calls=(ToolCall("c", "x", error="broken"),))
    messages = (broken, Message("tool", "{}", results=(refused,)), broken)
    found = episode_metrics(Trajectory(messages, (), "native", "length"), 0)
    assert (found["tool_calls"], found["refused_calls"], found["unparsed_calls"]) == (1, 1, 1)
