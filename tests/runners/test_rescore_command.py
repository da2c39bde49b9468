"""`hermes-lab rescore`: what is judged again, what is not, and that the run itself stays as it was."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from fakes.command import lab
from fakes.episodes import episode as episode_of
from fakes.episodes import write_run
from fakes.openai_server import FakeOpenAIServer, Reply, function_call, running

from hermes_lab.commit import package_version
from hermes_lab.config.schema import RunConfig
from hermes_lab.records import read_episodes
from hermes_lab.runners.engine.folder import keep_suite
from hermes_lab.types import Episode

NOOP = ("-c", "model.provider=scripted", "-c", "model.name=hermes_lab.tasks.learner:noop")
RIGHT = {"id": "right", "prompt": "Say that you are done now.", "expected_output": "Done."}
WRONG = {"id": "wrong", "prompt": "Say that you are done too.", "expected_output": "Finished."}
FILE = {"id": "file", "prompt": "Write a to a.txt please now.", "verify": "grep -q a a.txt"}


def write(path: Path, *rows: Mapping[str, Any]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def run_of(tmp_path: Path, *rows: Mapping[str, Any], options: tuple[str, ...] = NOOP) -> Path:
    tasks, run = write(tmp_path / "tasks.jsonl", *rows), tmp_path / "run"
    done = lab("run", "-c", f"suite.path={tasks}", *options, "--out", run, "--quiet")
    assert done.returncode in (0, 3), done.stderr
    return run


def rescored(run: Path, *args: str, code: int = 0) -> dict[str, Any]:
    done = lab("rescore", run, "--json", *args)
    assert done.returncode == code, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def episodes_of(run: Path) -> dict[str, Episode]:
    return {episode.task_id: episode for episode in read_episodes(run)}


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def wrote_a(body: dict[str, Any]) -> Reply | str:
    """An agent that writes a.txt for the task that asks for it, and says Done."""
    if "a.txt" not in str(body["messages"][1]["content"]) or body["messages"][-1]["role"] == "tool":
        return "Done."
    return Reply(tool_calls=[function_call("1", "terminal", {"command": "echo a > a.txt; ln -s /etc/passwd link"})])


def test_answers_are_judged_again_from_the_records_alone_and_the_run_stays_as_it_was(tmp_path: Path) -> None:
    run = run_of(tmp_path, RIGHT, WRONG)
    before = content(run)
    write(tmp_path / "tasks.jsonl", RIGHT | {"expected_output": "Finished."}, WRONG | {"expected_output": "Done."})
    found = rescored(run)
    assert (found["rescored"], found["0_to_1"], found["1_to_0"], found["unchanged"]) == (2, 1, 1, 0)
    assert (found["success_before"], found["success_after"]) == ({"count": 1, "of": 2}, {"count": 1, "of": 2})
    assert found["not_possible"] == found["errored"] == {}
    assert content(run) == before
    new = episodes_of(tmp_path / "run-rescored")
    for episode in read_episodes(run):
        again = new[episode.task_id]
        assert again.key == episode.key
        assert again.trajectory == episode.trajectory
        assert again.success is (not episode.success)
        assert again.reward is not None
        assert again.reward.value == again.score
        assert again.rescored is not None
        assert (again.rescored.score, again.rescored.success) == (episode.score, episode.success)
        assert again.rescored.verifier == found["verifier"]
        assert (again.lab, again.rescored.lab) == (episode.lab, package_version())
    summary = json.loads(lab("summary", tmp_path / "run-rescored", "--json").stdout)
    assert (summary["wanted"], summary["finished"], summary["solved"]) == (2, 2, 1)
    assert summary["rescored"] == {"from": str(run.resolve()), "verifier": found["verifier"], "not_possible": {}}
    assert json.loads(lab("summary", run, "--json").stdout)["rescored"] is None
    assert "old score was" in lab("show", tmp_path / "run-rescored", "--episode", "0").stdout
    assert lab("compare", run, tmp_path / "run-rescored").returncode == 0


def test_what_cannot_be_judged_again_has_no_score_and_is_counted_with_the_reason(tmp_path: Path) -> None:
    gone, other = RIGHT | {"id": "gone"}, RIGHT | {"id": "other"}
    unjudged = RIGHT | {"id": "unjudged"}
    run = run_of(tmp_path, RIGHT, FILE, gone, other, unjudged, {"id": "broken", "prompt": "Go on.", "setup": "exit 3"})
    new = write(
        tmp_path / "new.jsonl",
        RIGHT,
        FILE | {"verify": "test ! -e a.txt"},  # true of no workspace at all
        other | {"prompt": "Say something else now."},
        {"id": "unjudged", "prompt": unjudged["prompt"]},
        {"id": "broken", "prompt": "Go on.", "setup": "exit 3"},
    )
    found = rescored(run, "-c", f"suite.path={new}", "--out", str(tmp_path / "new"))
    assert found["rescored"] == found["unchanged"] == 1
    assert found["not_possible"] == {
        "errored in the run, so there is nothing to judge": 1,
        "the suite has no such task any more": 1,
        "the task has changed since (prompt)": 1,
        "the task has no verifier any more": 1,
        "the verifier reads the workspace, which was not kept (run.keep_workspaces)": 1,
    }
    episodes = episodes_of(tmp_path / "new")
    assert {name for name, each in episodes.items() if each.score is not None} == {"right"}
    assert {name for name, each in episodes.items() if each.status == "errored"} == {"broken"}
    assert episodes["file"].rescored is not None
    assert episodes["file"].rescored.score == 0.0
    told = lab("rescore", run, "-c", f"suite.path={new}", "--dry-run").stdout
    assert "not possible, without a score    5" in told
    assert "1/1 = 100% -> 1/1 = 100%" in told
    assert "not rescored, without a score" in lab("summary", tmp_path / "new").stdout


def test_a_kept_workspace_is_judged_as_it_stood(tmp_path: Path) -> None:
    with running(FakeOpenAIServer(wrote_a)) as server:
        model = ("-c", "model.name=fake", "-c", f"model.base_url={server.base_url}", "-c", "run.keep_workspaces=true")
        run = run_of(tmp_path, FILE | {"verify": "grep -q b a.txt"}, RIGHT, options=model)
    kept = episodes_of(run)["file"].workspaces
    assert [(run / "workspaces" / each.file).stat().st_size for each in kept] == [kept[0].size]
    new = write(tmp_path / "new.jsonl", FILE | {"verify": ["grep -q a a.txt", "test -L link"]}, RIGHT)
    found = rescored(run, "-c", f"suite.path={new}")
    assert (found["0_to_1"], found["unchanged"], found["not_possible"]) == (1, 1, {})
    verdict = episodes_of(tmp_path / "run-rescored")["file"].verdicts[0]
    assert verdict.criteria == {"verify_1": 1.0, "verify_2": 1.0}
    again = rescored(tmp_path / "run-rescored", "-c", f"suite.path={new}", "--dry-run")
    assert again["unchanged"] == 2, "the workspaces went along"
    (run / "workspaces" / kept[0].file).unlink()
    (run / "workspaces" / kept[0].file).write_bytes(b"other")
    found = rescored(run, "-c", f"suite.path={new}", "--dry-run")
    assert found["not_possible"] == {"the kept workspace cannot be used: was changed since the run wrote it": 1}


def test_a_workspace_over_the_limit_is_not_kept_and_that_is_said(tmp_path: Path) -> None:
    row = FILE | {"setup": "head -c 200000 /dev/urandom > big"}
    run = run_of(tmp_path, row, options=(*NOOP, "-c", "run.keep_workspaces=true", "-c", "run.workspace_mb=0.1"))
    (kept,) = episodes_of(run)["file"].workspaces
    assert (kept.file, kept.problem) == ("", "larger than run.workspace_mb=0.1")
    assert rescored(run)["not_possible"] == {"the workspace was not kept: larger than run.workspace_mb=0.1": 1}


def test_a_judge_can_be_given_to_a_run_that_had_none(tmp_path: Path) -> None:
    run = run_of(tmp_path, RIGHT, WRONG)
    rubric = {"expected_output": None, "judge": "The answer says that it is done."}
    new = write(tmp_path / "new.jsonl", RIGHT | rubric, WRONG | rubric)
    missing = lab("rescore", run, "-c", f"suite.path={new}")
    assert missing.returncode == 2
    assert "is graded by a model, and none is given; set judge.model.name" in missing.stderr

    def graded(body: dict[str, Any]) -> str:
        return "So.\nGRADE: C" if "too." in body["messages"][-1]["content"] else "No grade."

    with running(FakeOpenAIServer(graded)) as server:
        judge = (f"suite.path={new}", "judge.model.name=fake", f"judge.model.base_url={server.base_url}")
        options = [part for each in judge for part in ("-c", each)]
        assert rescored(run, *options, "--dry-run")["not_possible"] == {
            "graded by the judge, whom a dry run does not ask": 2
        }
        assert not server.requests
        found = rescored(run, *options, code=3)
        assert (found["0_to_1"], found["judge_votes"]) == (1, 2)
        assert list(found["errored"].values()) == [1]
        errored = episodes_of(tmp_path / "run-rescored")["right"]
        assert (errored.status, errored.score, errored.error and errored.error.kind) == ("errored", None, "judge")
        assert errored.judgements[0].votes[0].reply == "No grade."
        server.script = lambda body: Reply("So.\nGRADE: I", counted=False)
        asked = len(server.requests)
        found = rescored(run, *options, "--resume")
        assert len(server.requests) == asked + 1, "only what errored is asked again"
        assert (found["judge_votes"], found["uncounted_votes"]) == (2, 1)
    assert (found["rescored"], found["0_to_1"], found["1_to_0"], found["errored"]) == (2, 1, 1, {})
    assert json.loads(lab("summary", tmp_path / "run-rescored", "--json").stdout)["judge_votes"] == 2


def test_a_killed_rescoring_is_continued_and_no_other_is_mixed_in(tmp_path: Path) -> None:
    run, out = run_of(tmp_path, RIGHT, WRONG), tmp_path / "run-rescored"
    whole = rescored(run)
    (log,) = (out / "episodes").glob("*.jsonl")
    first, second = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(first + second[:50])  # killed while it wrote the second
    refused = lab("rescore", run)
    assert refused.returncode == 2
    assert "holds this rescoring; continue it with --resume" in refused.stderr
    assert rescored(run, "--resume") == whole
    write(tmp_path / "tasks.jsonl", RIGHT | {"expected_output": "Other."}, WRONG)
    for args, why in (
        (("rescore", run, "--resume"), "now it is"),
        (("rescore", run, "--out", run), "is the run itself, which is never changed"),
        (("rescore", run, "--out", tmp_path), "not empty and not a run"),
        (("rescore", run, "-c", "agent.max_iterations=3"), "agent: rescore runs no agent"),
        (("rescore", run, "-c", "run.samples=3"), "run: rescore runs no agent"),
        (("run", "-c", f"suite.path={tmp_path / 'tasks.jsonl'}", *NOOP, "--out", out, "--resume"), "by `rescore`"),
    ):
        done = lab(*args)
        assert done.returncode == 2, done.stderr
        assert why in done.stderr
    (tmp_path / "tasks.jsonl").unlink()
    assert "name the file with the changed verifier" in lab("rescore", run, "--dry-run").stderr


def test_a_failing_verifier_is_an_error_with_its_traceback_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(tmp_path, RIGHT, FILE, options=(*NOOP, "-c", "run.keep_workspaces=true"))
    write(tmp_path / "tasks.jsonl", RIGHT, FILE | {"verify": "no-such-checker a.txt"})
    found = rescored(run, code=3)
    (why,) = found["errored"]
    assert "tasks.jsonl:2: verify command 'no-such-checker a.txt' cannot run (exit code 127)" in why
    assert found["rescored"] == 1


def test_an_experiment_is_judged_again_in_every_submission_and_told_what_followed_the_old_verdicts(
    tmp_path: Path,
) -> None:
    run, out = tmp_path / "run", tmp_path / "out"
    learner = ("-c", "model.provider=scripted", "-c", "model.name=hermes_lab.tasks.learner:learner")
    small = ("suite.name=ledger", "learning.rounds=2", "run.keep_workspaces=true", "skills.review_every=0")
    options = [part for each in small for part in ("-c", each)]
    assert lab("experiment", *learner, *options, "--out", run, "--quiet").returncode == 0
    found = rescored(run, "--out", str(out))
    assert (found["rescored"], found["unchanged"], found["not_possible"]) == (4, 4, {})
    plan = (out / "plan.json").read_bytes()
    (out / "plan.json").unlink()  # as if killed right after it wrote run.json
    rescored(run, "--out", str(out), "--resume")
    assert (out / "plan.json").read_bytes() == plan == (run / "plan.json").read_bytes()
    assert "learned from the old verdicts" in found["warnings"][0]
    before = {episode.key: episode for episode in read_episodes(run)}
    assert max(len(episode.verdicts) for episode in before.values()) > 1
    for episode in read_episodes(out):
        assert episode.verdicts == before[episode.key].verdicts
        assert episode.review == before[episode.key].review
        assert (out / "skills" / episode.skills.snapshot).is_dir()
    assert lab("skills", "health", out).returncode == 0


def test_a_run_without_episodes_that_begins_again_keeps_the_tasks_that_it_runs(tmp_path: Path) -> None:
    tasks, run = tmp_path / "tasks.jsonl", tmp_path / "run"
    config = RunConfig.model_validate({"suite": {"path": str(tasks)}})
    for row in (WRONG, RIGHT):
        write(tasks, row)
        keep_suite(run, config)
        assert json.loads((run / "suite" / "tasks.jsonl").read_text()) == row
    write_run(run, episode_of("right"))
    write(tasks, WRONG)
    keep_suite(run, config)
    assert json.loads((run / "suite" / "tasks.jsonl").read_text()) == RIGHT


def test_a_run_rescored_with_a_file_of_another_name_can_be_replayed(tmp_path: Path) -> None:
    run, new = run_of(tmp_path, RIGHT), write(tmp_path / "new.jsonl", RIGHT | {"expected_output": "Finished."})
    found = rescored(run, "-c", f"suite.path={new}", "--out", str(tmp_path / "out"))
    assert found["1_to_0"] == 1
    done = lab("replay", tmp_path / "out", "--episode", "right")
    assert done.returncode == 0, done.stderr
    assert "byte for byte" in done.stdout


def test_a_run_is_the_same_whatever_folder_its_path_is_given_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "tasks.jsonl", RIGHT, WRONG)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path)
    first = ("-c", "suite.path=tasks.jsonl", "-c", "budget.tasks=1", *NOOP, "--out", tmp_path / "run", "--quiet")
    assert lab("run", *first).returncode == 3
    monkeypatch.chdir(tmp_path / "below")
    again = ("-c", "suite.path=../tasks.jsonl", *NOOP, "--out", tmp_path / "run", "--quiet", "--resume")
    done = lab("run", *again)
    assert done.returncode == 0, done.stderr
    found = episodes_of(tmp_path / "run")
    assert found.keys() == {"right", "wrong"}
    assert len({episode.config_digest for episode in found.values()}) == 1
    write(tmp_path / "tasks.jsonl", RIGHT, WRONG | {"expected_output": "Other."})
    refused = lab("run", *again)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    write(tmp_path / "other.jsonl", RIGHT, WRONG)
    other = lab("run", "-c", "suite.path=../other.jsonl", *again[2:])
    assert "was started with suite.path=tasks.jsonl, now ../other.jsonl" in other.stderr
