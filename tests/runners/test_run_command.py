"""`hermes-lab run` and `learn` as a user calls them: the real command, the real sandbox, a scripted model."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fakes.openai_server import FakeOpenAIServer, Reply, running

from analysis.load import load_episodes
from hermes_lab.records import episode_files, read_attempts, read_episodes

LEARN = [
    "learn",
    *("-c", "model.provider=scripted", "-c", "model.name=tasks.learner:learner"),
    *("-c", "agent.toolsets=[terminal,skills]", "-c", "suite.name=ledger", "-c", "run.concurrency=4"),
    *("-c", "learning.rounds=3", "-c", "learning.round_size=2", "-c", "learning.worlds=2"),
]
WANTED = 2 * 2 * 3 * 2


def lab(*args: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "runners", *map(str, args)],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
    )


def rows(run: Path) -> list[tuple[object, ...]]:
    """What must be the same however often a run was interrupted: everything but clocks."""
    return sorted(
        (
            e.key,
            e.status,
            e.score,
            e.experience,
            e.skills.snapshot,
            e.trajectory and [(m.role, m.content) for m in e.trajectory.messages],
            e.review and [w.text for w in e.review.writes],
        )
        for e in read_episodes(run)
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("whole") / "run"
    done = lab(*LEARN, "--out", run)
    assert done.returncode == 0, done.stderr
    return run


def test_a_run_writes_every_wanted_episode_once(whole: Path) -> None:
    keys = [episode.key for episode in read_attempts(whole)]
    assert len(keys) == len(set(keys)) == WANTED


def test_arms_differ_only_in_what_was_learnt(whole: Path) -> None:
    def first_round(arm: str) -> list[tuple[object, ...]]:
        return sorted(
            (e.task_id, e.score, e.trajectory and [m.content for m in e.trajectory.messages])
            for e in read_episodes(whole)
            if e.lane.startswith(f"{arm}-") and e.round == 0
        )

    assert first_round("on") == first_round("off")
    assert {e.skills.snapshot for e in read_episodes(whole) if e.lane.startswith("off-")} == {
        e.skills.snapshot for e in read_episodes(whole) if e.round == 0
    }


def test_every_snapshot_that_an_episode_names_is_on_the_disk_and_lanes_link_to_their_last(
    whole: Path,
) -> None:
    for episode in read_episodes(whole):
        assert (whole / "skills" / episode.skills.snapshot).is_dir()
    for lane in ("on-r0-w0", "on-r0-w1"):
        written = [w.name for e in read_episodes(whole) if e.lane == lane and e.review for w in e.review.writes]
        home = whole / "lanes" / lane / "home" / "skills"
        assert {path.name for path in home.iterdir()} == set(written)


def test_kill_9_in_mid_run_then_resume_gives_the_rows_of_an_uninterrupted_run(whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    for rounds in range(1, 4):
        resume = ["--resume"] if run.exists() else []
        process = subprocess.Popen(
            [sys.executable, "-m", "runners", *LEARN, "--out", str(run), *resume], stderr=subprocess.DEVNULL
        )
        while count(run) < rounds * 5 and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "the run ended before it could be killed"
    assert count(run) < WANTED
    tear_last_line(run)
    done = lab(*LEARN, "--out", run, "--resume")
    assert done.returncode == 0, done.stderr
    assert rows(run) == rows(whole)
    keys = [episode.key for episode in read_attempts(run)]
    assert len(keys) == len(set(keys))


def count(run: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in episode_files(run))


def tear_last_line(run: Path) -> None:
    last = [path for path in episode_files(run) if path.stat().st_size][-1]
    last.write_bytes(last.read_bytes()[:-30])


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_what_is_finished_and_says_how_to_go_on(sent: signal.Signals, tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = subprocess.Popen(
        [sys.executable, "-m", "runners", *LEARN, "--out", str(run)], stderr=subprocess.PIPE, text=True
    )
    while count(run) < 3:
        time.sleep(0.01)
    process.send_signal(sent)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "--resume" in errors
    assert json.loads((run / "summary.json").read_text())["finished"] == count(run)


def test_summary_is_over_the_whole_run(whole: Path) -> None:
    summary = json.loads(lab("summary", whole, "--json").stdout)
    frame = load_episodes(whole)
    assert summary["wanted"] == summary["finished"] == summary["scored"] == WANTED == len(frame)
    assert summary["solved"] == frame["success"].sum()
    for name in ("errored", "success_rate", "api_calls", "tool_calls", "tokens", "seconds"):
        assert name in summary


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["run"], "--out"),
        (["run", "-c", "suite.name=nope", "--out", "OUT"], "nope"),
        (["run", "-c", "model.nme=x", "--out", "OUT"], "override model.nme=x: model.nme: no such field"),
        (["run", "-c", "absent.yaml", "--out", "OUT"], "absent.yaml: cannot be read"),
        (["summary", "OUT"], "no run here (no run.json)"),
        (["frobnicate"], "No such command"),
        (["run", "-c", "sute.count=2", "--out", "OUT"], "override sute.count=2: sute: no such field"),
        (["train", "sft", "-c", "configs/train/sft.yaml"], "data: must be given"),
        ([*LEARN, "--out", "WHOLE"], "holds a run already; continue it with --resume"),
        ([*LEARN, "-c", "learning.rounds=4", "--out", "WHOLE", "--resume"], "learning.rounds=3, now 4"),
        (
            ["run", "-c", "suite.name=ledger", "-c", "suite.count=2", "--out", "WHOLE", "--resume"],
            "was begun by `learn`",
        ),
        ([*LEARN, "--out", "OUT", "--resume"], "no run to resume"),
        ([*LEARN, "-c", "learning.arms=[on,on]", "--out", "OUT"], "an arm stands there twice"),
        ([*LEARN, "-c", "learning.arms=[]", "--out", "OUT"], "learning.arms"),
        ([*LEARN, "-c", "suite.count=5", "--out", "OUT"], "suite.count: `learn` takes its tasks from"),
        ([*LEARN, "-c", "agent.toolsets=[nope]", "--out", "OUT"], "no toolset 'nope'"),
        ([*LEARN, "-c", "run.out=2026-13-45", "-c", "x=1", "--out", "OUT"], "x: no such field; there are: model"),
    ],
)
def test_a_mistake_gets_one_line_and_exit_code_2(args: list[str], message: str, whole: Path, tmp_path: Path) -> None:
    places = {"OUT": str(tmp_path / "out"), "WHOLE": str(whole)}
    before = rows(whole)
    done = lab(*(places.get(arg, arg) for arg in args))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("hermes-lab: error: ")
    assert message in line
    assert not (tmp_path / "out" / "run.json").exists()
    assert rows(whole) == before


def test_a_second_process_on_the_same_run_is_refused(tmp_path: Path) -> None:
    run = tmp_path / "run"
    first = subprocess.Popen([sys.executable, "-m", "runners", *LEARN, "--out", str(run)], stderr=subprocess.DEVNULL)
    while count(run) < 1:
        time.sleep(0.01)
    first.send_signal(signal.SIGSTOP)
    second = lab(*LEARN, "--out", run, "--resume")
    first.kill()
    first.wait()
    assert second.returncode == 2
    assert "another process" in second.stderr


def test_jsonl_rows_are_run_sampled_and_judged(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"prompt": "Say nothing."}\n{"prompt": "x", "verify": "test -e answer.json"}\n')
    args = ["-c", "model.provider=scripted", "-c", "model.name=tasks.learner:noop", "-c", "run.samples=3"]
    done = lab("run", "-c", f"suite.path={file}", *args, "--out", tmp_path / "run", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["finished"], summary["scored"], summary["solved"]) == (6, 3, 0)


def test_other_data_under_the_same_name_is_refused_on_resume(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"prompt": "one"}\n')
    args = [
        "run",
        "-c",
        f"suite.path={file}",
        "-c",
        "model.provider=scripted",
        "-c",
        "model.name=tasks.learner:noop",
    ]
    assert lab(*args, "--out", tmp_path / "run").returncode == 0
    file.write_text('{"prompt": "two"}\n')
    done = lab(*args, "--out", tmp_path / "run", "--resume")
    assert done.returncode == 2
    assert "not those it was begun with" in done.stderr


def test_a_disk_that_takes_no_more_ends_the_run_with_one_line_and_loses_nothing(whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = [sys.executable, "-m", "runners", *LEARN, "--out", str(run)]
    full = subprocess.run(["bash", "-c", 'ulimit -S -f 60; exec "$@"', "-", *command], capture_output=True, text=True)
    assert full.returncode == 3, full.stderr
    assert "File too large" in full.stderr.splitlines()[-1]
    assert "Traceback" not in full.stderr
    assert 0 < count(run) < WANTED
    assert lab(*LEARN, "--out", run, "--resume").returncode == 0
    assert rows(run) == rows(whole)


def test_an_endpoint_that_is_down_marks_nothing_done_and_resume_runs_everything(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"prompt": "one"}\n{"prompt": "two"}\n')
    run = tmp_path / "run"
    replies = ["Fine.", Reply(status=503), Reply(status=503)]
    with running(FakeOpenAIServer(replies)) as server:
        args = ["run", "-c", f"suite.path={file}", "-c", f"model.base_url={server.base_url}"]
        args += ["-c", "model.name=fake", "-c", "model.max_retries=0", "-c", "run.concurrency=1", "--out", str(run)]
        done = lab(*args)
        assert done.returncode == 3, done.stderr
        assert "1 of 2 episodes are owed" in done.stderr
        errored = [episode for episode in read_episodes(run) if episode.error]
        assert [(e.error and e.error.kind, e.score, e.success) for e in errored] == [("model", None, None)]
        server.script = ["Fine."]
        assert lab(*args, "--resume").returncode == 0
    assert {episode.status for episode in read_episodes(run)} == {"ok"}
    down = lab(*args[:-1], str(tmp_path / "other"))
    assert down.returncode == 3
    assert len(down.stderr.splitlines()) == 1


def test_other_skills_or_another_adapter_under_the_same_name_are_refused_on_resume(tmp_path: Path) -> None:
    skill, run = tmp_path / "skills" / "tidy" / "SKILL.md", tmp_path / "run"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: tidy\ndescription: Tidy.\n---\nTidy up.\n")
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text("{}")
    (adapter / "adapter_model.safetensors").write_text("one")
    args = ["run", "-c", "suite.name=ledger", "-c", "suite.count=2", "-c", "model.provider=scripted", "--out", str(run)]
    args += ["-c", "model.name=tasks.learner:noop", "-c", f"skills.library={tmp_path}/skills"]
    args += ["-c", f"model.adapter={adapter}"]
    assert lab(*args).returncode == 0
    skill.write_text(skill.read_text() + "More.\n")
    assert "skills.library are not those" in lab(*args, "--resume").stderr
    skill.write_text(skill.read_text().removesuffix("More.\n"))
    (adapter / "adapter_model.safetensors").write_text("two")
    assert "model.adapter are not those" in lab(*args, "--resume").stderr
    (adapter / "adapter_model.safetensors").write_text("one")
    assert lab(*args, "--resume").returncode == 0


def test_a_finished_run_needs_no_endpoint_to_be_resumed(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"prompt": "one"}\n')
    with running(FakeOpenAIServer(["Fine."])) as server:
        args = ["run", "-c", f"suite.path={file}", "-c", f"model.base_url={server.base_url}", "-c", "model.name=fake"]
        assert lab(*args, "--out", tmp_path / "run").returncode == 0
    assert lab(*args, "--out", tmp_path / "run", "--resume").returncode == 0


def test_a_run_that_never_began_leaves_its_folder_free(tmp_path: Path) -> None:
    with running(FakeOpenAIServer(["Fine."])) as server:
        args = ["run", "-c", "suite.name=ledger", "-c", "suite.count=1", "-c", f"model.base_url={server.base_url}"]
        wrong = lab(*args, "-c", "model.name=typo", "--out", tmp_path / "run")
        assert (wrong.returncode, "serves fake" in wrong.stderr) == (2, True)
        assert lab(*args, "-c", "model.name=fake", "--out", tmp_path / "run").returncode == 0


def test_packages_of_the_same_names_beside_the_user_do_not_shadow_ours(tmp_path: Path) -> None:
    for name in ("tasks", "envs", "runners", "training", "analysis", "configs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('shadowed')")
    command = [str(Path(sys.executable).with_name("hermes-lab")), "tasks", "list"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "ledger" in done.stdout
