"""A suite of the user's own as `module:Class`, without a package, and rows that tell the agent why they reject."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes.command import lab

from hermes_lab.records import read_episodes
from hermes_lab.runners.experiments.ground_truth import from_suite

RULE = "Labels are ITEM: PIECES."
SUITE = f'''
from hermes_lab import Task, Verdict

class Labels:
    name, splits = "labels", ("train",)

    def __init__(self, goods="chairs"):
        self.goods = goods

    def load(self, *, split, count, seed, world):
        orders = [(f"{{seed}}-{{n}}", n + 2) for n in range(count or 2)]
        return [
            Task(
                id=name, suite="labels", prompt="Write the label for order.txt to label.txt.", attempts=2,
                files={{"order.txt": f"{{pieces}} {{self.goods}}"}}, truth={{"label": f"{{self.goods}}: {{pieces}}"}},
            )
            for name, pieces in orders
        ]

    async def verify(self, task, workspace, answer, attempt=1):
        right = (await workspace.read("label.txt")).decode() == task.truth["label"]
        return Verdict(score=float(right), success=right, feedback="" if right else "{RULE}")
'''
AGENT = f'''
from hermes_lab.types import Message, ToolCall

def agent():
    return turn

def turn(messages):
    last = messages[-1]
    if last.role != "user":
        return Message(role="assistant", content="Done.")
    text = "$(cut -d' ' -f2 order.txt): $(cut -d' ' -f1 order.txt)" if "{RULE}" in last.content else "no idea"
    call = ToolCall("c", "terminal", {{"command": f'printf %s "{{text}}" > label.txt'}})
    return Message(role="assistant", content="", tool_calls=(call,))
'''
MODEL = ("-c", "model.provider=scripted", "-c", "model.name=mine.labeller:agent", "-c", "agent.toolsets=[terminal]")
PROCESSES = {"local": (), "processes": ("-c", "run.executor=processes", "-c", "run.processes=1")}
OWN = ("-c", "suite.name=mine.labels:Labels")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with the modules `mine.labels` and `mine.labeller`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/labels.py").write_text(SUITE)
    (tmp_path / "mine/labeller.py").write_text(AGENT)
    _forget()
    yield tmp_path
    _forget()


def _forget() -> None:
    for module in ("mine", "mine.labels", "mine.labeller"):
        sys.modules.pop(module, None)


def run(*sources: str, code: int = 0) -> str:
    done = lab("run", *MODEL, *sources)
    assert done.returncode == code, done.stderr
    return done.stderr


def outcomes(folder: Path) -> list[list[bool]]:
    return [[verdict.success for verdict in episode.verdicts] for episode in read_episodes(folder)]


@pytest.mark.parametrize("executor", ["local", "processes"])
def test_a_class_in_the_current_folder_is_a_suite(folder: Path, executor: str) -> None:
    run(*OWN, "-c", "suite.count=2", *PROCESSES[executor], "--out", "run")
    assert outcomes(folder / "run") == [[False, True], [False, True]]
    assert json.loads((folder / "run/run.json").read_text())["config"]["suite"]["name"] == "mine.labels:Labels"
    assert {episode.suite for episode in read_episodes(folder / "run")} == {"labels"}


def test_a_run_of_it_can_be_read_and_resumed_later(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(*OWN, "-c", "suite.count=2", "-c", "run.keep_workspaces=true", "--out", "run")
    run(*OWN, "-c", "suite.count=2", "-c", "run.keep_workspaces=true", "--out", "run", "--resume")
    run("-c", "suite.name=mine.labels:Labels", "-c", "suite.options.goods=lamps", "--out", "lamps")
    digests = [json.loads((folder / name / "run.json").read_text())["tasks_digest"] for name in ("run", "lamps")]
    assert digests[0] != digests[1]
    assert lab("rescore", "run").returncode == 0
    _forget()
    for read in (("summary", "run"), ("report", "run"), ("compare", "run", "run-rescored")):
        assert lab(*read).returncode == 0, read
    assert "mine.labels" not in sys.modules
    assert from_suite([folder / "run"]).searched.startswith("the suite is a class of yours, and a report does not run")
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(folder)])
    assert lab("summary", folder / "run").returncode == 0
    done = lab("rescore", folder / "run", "-o", "again")
    assert done.returncode == 2
    assert "no module mine.labels in the current folder" in done.stderr
    assert "run the command in the folder that contains it" in done.stderr


@pytest.mark.parametrize(
    ("code", "name", "message"),
    [
        (SUITE, "mine.labels:Label", "Label does not exist in mine.labels"),
        (SUITE, "mine.label:Labels", "no module mine.label in the current folder"),
        (SUITE, "mine/labels.py:", "did you mean mine.labels:Labels?"),
        (SUITE, "mine.labels:", "is not of the form module:Class; did you mean mine.labels:Labels?"),
        ("import nothing_there", "mine.labels:Labels", "ModuleNotFoundError: No module named 'nothing_there'"),
        ("Labels = 3", "mine.labels:Labels", "Labels is not a class in mine.labels"),
        ("class Labels: name = 'labels'", "mine.labels:Labels", "not a suite: Labels lacks load, verify"),
        (SUITE.replace('goods="chairs"', "goods"), "mine.labels:Labels", "needs goods; set each"),
        ("from subprocess import run as Labels", "mine.labels:Labels", "Labels is not a class in mine.labels"),
        (SUITE, "subprocess:run", "run is not a class in subprocess"),
        (SUITE, "subprocess:Popen", "not a suite: Popen lacks load, verify"),
        (SUITE.replace("orders = ", "{}['x']; orders = "), "mine.labels:Labels", "/mine/labels.py:11)"),
        (SUITE.replace("orders = ", "orders = 1 / 0 or "), "mine.labels:Labels", "load(): ZeroDivisionError: division"),
    ],
)
def test_a_mistake_is_one_line(folder: Path, code: str, name: str, message: str) -> None:
    (folder / "mine/labels.py").write_text(code)
    done = lab("tasks", "show", name)
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert message in line


def test_a_file_of_tasks_is_one_beside_a_module_of_its_name(folder: Path) -> None:
    """As `tasks.jsonl` in a clone of this repository, which has a module `tasks/jsonl.py`."""
    (folder / "labels.jsonl").write_text('{"prompt": "Go.", "verify": "test -e a"}\n')
    (folder / "labels").mkdir()
    (folder / "labels/jsonl.py").write_text(SUITE)
    for name in ("labels.jsonl", "./labels.jsonl", str(folder / "labels.jsonl")):
        assert json.loads(lab("tasks", "show", name, "--json").stdout)["prompt"] == "Go.", name
    done = lab("tasks", "show", "labels/jsonl.py")
    assert (done.returncode, "did you mean labels.jsonl:Labels?" in done.stderr) == (2, True)


def test_a_record_cannot_name_a_function_to_call(folder: Path) -> None:
    run(*OWN, "-c", "suite.count=1", "--out", "run")
    record = json.loads((folder / "run/run.json").read_text())
    for name in ("os:system", "posix:system", "mine.labels:system"):
        record["config"]["suite"] |= {"name": name, "options": {"command": "touch executed"}}
        (folder / "run/run.json").write_text(json.dumps(record))
        (folder / "mine/labels.py").write_text("from os import system\n")
        _forget()
        for read in (("rescore", "run"), ("skills", "effects", "run")):
            assert f"suite.name: {name}: " in lab(*read).stderr, read
        lab("report", "run")
        assert not (folder / "executed").exists(), name


def test_a_changed_verifier_is_seen(folder: Path) -> None:
    run(*OWN, "-c", "suite.count=1", "-c", "run.keep_workspaces=true", "--out", "run")
    verifiers = set()
    for addition in ("", "# the same\n", "# changed\n"):
        (folder / "mine/labels.py").write_text(SUITE + addition)
        _forget()
        verifiers.add(json.loads(lab("rescore", "run", "--dry-run", "--json").stdout)["verifier"])
    assert len(verifiers) == 3


def test_the_configuration_check_loads_it(folder: Path) -> None:
    (folder / "run.yaml").write_text("suite: {name: mine.labels:Labels}\n")
    assert lab("config", "check", "run.yaml").returncode == 0
    (folder / "run.yaml").write_text("suite: {name: mine.labels:Label}\n")
    done = lab("config", "check", "run.yaml")
    assert done.returncode != 0
    assert "run.yaml:1: suite.name: mine.labels:Label: Label does not exist" in done.stdout + done.stderr
    (folder / "run.yaml").write_text("suite:\n  name: mine.labels:Labels\n  options: {nope: 1}\n")
    done = lab("config", "check", "run.yaml")
    assert done.stdout.startswith("run.yaml:3: suite.options: mine.labels:Labels: "), done.stdout


def rows(folder: Path, **fields: Any) -> None:
    row = {"prompt": "Write the label for order.txt to label.txt.", "files": {"order.txt": "7 chairs\n"}, **fields}
    (folder / "rows.jsonl").write_text(json.dumps(row))


def test_a_row_tells_why_it_rejects_and_takes_another_submission(folder: Path) -> None:
    verify = f"echo hidden >&2; grep -qx 'chairs: 7' label.txt || {{ echo '{RULE}'; false; }}"
    rows(folder, attempts=2, feedback=True, verify=verify)
    run("-c", "suite.path=rows.jsonl", "--out", "run")
    assert outcomes(folder / "run") == [[False, True]]
    (episode,) = read_episodes(folder / "run")
    assert episode.verdicts[0].feedback == RULE
    assert RULE in [message.content for message in episode.trajectory.messages if message.role == "user"]
    assert (episode.score, episode.success) == (0.0, False)  # those of the first submission


def test_without_feedback_there_is_one_submission(folder: Path) -> None:
    rows(folder, verify=f"grep -qx 'chairs: 7' label.txt || {{ echo '{RULE}'; false; }}")
    run("-c", "suite.path=rows.jsonl", "--out", "run")
    assert outcomes(folder / "run") == [[False]]


def test_a_rejection_without_feedback_ends_the_episode(folder: Path) -> None:
    silent = SUITE.replace(f'feedback="" if right else "{RULE}"', 'feedback=""').replace("attempts=2", "attempts=3")
    (folder / "mine/labels.py").write_text(silent)
    run(*OWN, "-c", "suite.count=1", "--out", "run")
    assert outcomes(folder / "run") == [[False]]
    (episode,) = read_episodes(folder / "run")
    assert episode.trajectory is not None
    assert "" not in [message.content for message in episode.trajectory.messages if message.role == "user"]


def test_it_is_an_environment_and_so_are_rows(folder: Path) -> None:
    # The checker submits at once, so a verifier that takes a missing file for its own failure would stop it.
    (folder / "mine/labels.py").write_text(
        SUITE.replace('(await workspace.read("label.txt")).decode()', '(answer or "")')
    )
    rows(folder, verify="true")
    for name in ("mine.labels:Labels", "rows.jsonl"):
        done = lab("env", "check", name)
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"{name}: passed Gymnasium's environment checker\n"
    done = lab("env", "check", "mine.labels:Label")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "Label does not exist" in done.stderr
