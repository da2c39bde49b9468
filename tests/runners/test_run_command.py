"""`hermes-lab run` and `experiment` as a user calls them: the real command, the real sandbox, a scripted model."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fakes.adapters import write_lora
from fakes.command import lab
from fakes.openai_server import FakeOpenAIServer, running

from hermes_lab.analysis.data.load import load_episodes
from hermes_lab.commit import package_version
from hermes_lab.prompts_version import PROMPTS
from hermes_lab.records import episode_files, read_attempts, read_episodes
from hermes_lab.types import Episode

LEARN = [
    "experiment",
    *("-c", "model.provider=scripted", "-c", "model.name=hermes_lab.tasks.learner:learner"),
    *("-c", "agent.toolsets=[terminal,skills]", "-c", "suite.name=ledger", "-c", "run.concurrency=4"),
    *("-c", "learning.rounds=3", "-c", "learning.round_size=2", "-c", "learning.worlds=2"),
]
WANTED = 2 * 2 * 3 * 2


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


def test_each_episode_says_which_version_of_the_package_ran_it(whole: Path) -> None:
    """`run.json` names the one that began the run; it may be resumed by another."""
    assert {episode.lab for episode in read_attempts(whole, Episode)} == {package_version()}


def test_a_run_writes_every_wanted_episode_once(whole: Path) -> None:
    keys = [episode.key for episode in read_attempts(whole, Episode)]
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


def count(run: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in episode_files(run))


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
        (["run", "-c", "model.nme=x", "--out", "OUT"], "override model.nme=x: model.nme: unknown field"),
        (["run", "-c", "absent.yaml", "--out", "OUT"], "absent.yaml: cannot be read"),
        (["summary", "OUT"], "no run here (no such folder)"),
        (["frobnicate"], "No such command"),
        (["run", "-c", "sute.count=2", "--out", "OUT"], "override sute.count=2: sute: unknown field"),
        (["train", "sft", "-c", "configs/train/sft.yaml"], "data: is required"),
        ([*LEARN, "--out", "WHOLE"], "already holds a run; continue it with --resume"),
        ([*LEARN, "-c", "learning.rounds=4", "--out", "WHOLE", "--resume"], "learning.rounds=3, now 4"),
        (
            ["run", "-c", "suite.name=ledger", "-c", "suite.count=2", "--out", "WHOLE", "--resume"],
            "was started by `experiment`",
        ),
        ([*LEARN, "--out", "OUT", "--resume"], "no run to resume"),
        ([*LEARN, "-c", "learning.arms=[on,on]", "--out", "OUT"], "an arm is listed twice"),
        ([*LEARN, "-c", "learning.arms=[]", "--out", "OUT"], "learning.arms"),
        ([*LEARN, "-c", "suite.count=5", "--out", "OUT"], "suite.count: not used by experiments"),
        ([*LEARN, "-c", "agent.toolsets=[nope]", "--out", "OUT"], "no toolset 'nope'"),
        ([*LEARN, "-c", "agent.distribution=nope", "--out", "OUT"], "no distribution 'nope'; there are: default"),
        ([*LEARN, "-c", "sandbox.backend=local", "--out", "OUT"], "set sandbox.allow_local=true"),
        ([*LEARN, "-c", "run.out=2026-13-45", "-c", "x=1", "--out", "OUT"], "x: unknown field; valid fields: model"),
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


def test_a_run_made_with_other_prompts_is_not_resumed(whole: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(whole, copy, symlinks=True)
    manifest = json.loads((copy / "run.json").read_text())
    assert manifest["versions"].pop("prompts") == PROMPTS
    (copy / "run.json").write_text(json.dumps(manifest))
    done = lab(*LEARN, "--out", copy, "--resume")
    assert done.returncode == 2
    assert done.stderr == (
        f"hermes-lab: error: {copy}: was started with version 1 of the prompts, and this Hermes Lab has version "
        f"{PROMPTS}; resume with the Hermes Lab that started it, or choose another --out\n"
    )


def test_what_a_backend_cannot_keep_is_said_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_text('{"prompt": "Go.", "expected_output": "Done."}')
    model = ["-c", "model.provider=scripted", "-c", "model.name=hermes_lab.tasks.learner:noop"]
    local = ["-c", "sandbox.backend=local", "-c", "sandbox.allow_local=true"]
    suite = ["-c", f"suite.path={tmp_path / 'tasks.jsonl'}"]
    done = lab("run", *suite, *model, *local, "--quiet", "--out", tmp_path / "out")
    assert (done.returncode, count_solved(tmp_path / "out")) == (0, 1)
    assert done.stderr.startswith("sandbox.backend=local: no isolation: the agent's commands run as you")


def count_solved(run: Path) -> int:
    return sum(episode.success is True for episode in read_episodes(run))


def test_a_second_process_on_the_same_run_is_refused(tmp_path: Path) -> None:
    run = tmp_path / "run"
    first = subprocess.Popen([sys.executable, "-m", "hermes_lab", *LEARN, "--out", str(run)], stderr=subprocess.DEVNULL)
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
    args = ["-c", "model.provider=scripted", "-c", "model.name=hermes_lab.tasks.learner:noop", "-c", "run.samples=3"]
    done = lab("run", "-c", f"suite.path={file}", *args, "--out", tmp_path / "run", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["finished"], summary["scored"], summary["solved"]) == (6, 3, 0)


def test_other_skills_or_another_adapter_under_the_same_name_are_refused_on_resume(tmp_path: Path) -> None:
    skill, run = tmp_path / "skills" / "tidy" / "SKILL.md", tmp_path / "run"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: tidy\ndescription: Tidy.\n---\nTidy up.\n")
    adapter = write_lora(tmp_path / "adapter", "one")
    # An adapter for the default provider, which the scripted one then replaces: set after it, it would be an error.
    args = [
        "run",
        "-c",
        "suite.name=ledger",
        "-c",
        "suite.count=2",
        "-c",
        f"model.adapter={adapter}",
        "--out",
        str(run),
    ]
    args += ["-c", "model.provider=scripted", "-c", "model.name=hermes_lab.tasks.learner:noop"]
    args += ["-c", f"skills.library={tmp_path}/skills"]
    assert lab(*args).returncode == 0
    skill.write_text(skill.read_text() + "More.\n")
    assert "skills.library have changed since" in lab(*args, "--resume").stderr
    skill.write_text(skill.read_text().removesuffix("More.\n"))
    write_lora(adapter, "two")
    assert "model.adapter have changed since" in lab(*args, "--resume").stderr
    write_lora(adapter, "one")
    assert lab(*args, "--resume").returncode == 0


def test_an_episode_whose_line_stands_twice_is_counted_once(tmp_path: Path) -> None:
    args = ["run", "-c", "suite.name=ledger", "-c", "suite.count=3", "-c", "model.provider=scripted", "--quiet"]
    args += ["-c", "model.name=hermes_lab.tasks.learner:noop", "--out", str(tmp_path / "run")]
    assert lab(*args).returncode == 0
    (log,) = (tmp_path / "run" / "episodes").iterdir()
    first, *others = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([first, first, *others]))
    again = lab(*args, "--resume", "--json")
    assert (again.returncode, again.stderr) == (0, "")
    assert json.loads(again.stdout)["finished"] == 3
    log.write_bytes(first * 3)
    again = lab(*args, "-c", "budget.tasks=1", "--resume")
    assert "1 of 3 episodes are kept" in again.stderr
    assert lab(*args, "--resume").returncode == 0


def test_a_finished_run_needs_no_endpoint_to_be_resumed(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"prompt": "one"}\n')
    with running(FakeOpenAIServer(["Fine."])) as server:
        args = ["run", "-c", f"suite.path={file}", "-c", f"model.base_url={server.base_url}", "-c", "model.name=fake"]
        assert lab(*args, "--out", tmp_path / "run").returncode == 0
    assert [name for request in server.requests for name in request if "stream" in name] == []
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


def test_a_plan_tells_the_size_of_a_run_and_writes_nothing(tmp_path: Path) -> None:
    asked = ["run", "-c", "model.provider=scripted", "-c", "model.name=hermes_lab.tasks.learner:noop"]
    asked += ["-c", "suite.name=ledger", "-c", "suite.count=3", "-c", "run.samples=2", "--out", tmp_path / "run"]
    told = lab(*asked, "--plan")
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout == ("plan: 3 tasks x 2 samples = 6 episodes\nsuite ledger, model tasks.learner:noop\n")
    assert not (tmp_path / "run").exists()
    assert lab(*asked, "--quiet").returncode == 0
    size = json.loads(lab(*asked, "--plan", "--json").stdout)
    assert (size["tasks"], size["samples"], size["episodes"], size["finished"]) == (3, 2, 6, 6)
    assert "budget used: 6 of 10 tasks" in lab(*asked, "-c", "budget.tasks=10", "--plan").stdout
