"""Mistakes in a user's suite or scripted policy: one line with the file, never a traceback of the lab."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.command import lab

from hermes_lab.records import read_episodes

SUITE = """
from msgspec import structs

from hermes_lab import Action, Task, ToolError, Verdict

class Labels:
    name = "labels"
    splits = ("train",)

    def load(self, *, split, count, seed, world):
        return [self.task(world, n) for n in range(count)]

    def task(self, world, n):
        return Task(
            id=f"w{world}-{n}", suite="labels", prompt=f"Write the label of {world}-{n}.", files={"order.txt": str(n)},
            attempts=2, triggers=("rule",), truth={"label": f"label {world}-{n}"},
        )

    def same(self, n):
        return structs.replace(self.task(0, 0), id=f"same-{n}")

    async def verify(self, task, workspace, answer, attempt=1):
        try:
            right = (await workspace.read("label.txt")).decode() == task.truth["label"]
        except ToolError:
            right = False
        return Verdict(score=float(right), success=right, feedback="" if right else "Rejected: as the desk wants it.")

    def oracle(self, task):
        return [Action("write_file", {"path": "label.txt", "content": task.truth["label"]})]

    def naive(self, task):
        return [Action("write_file", {"path": "label.txt", "content": "label"})]
"""
VERDICT = next(line.strip() for line in SUITE.splitlines() if "return Verdict" in line)
TASKS = "return [self.task(world, n) for n in range(count)]"
AGENT = """
from hermes_lab.types import Message, ToolCall

def agent():
    return turn

def turn(messages):
    if "label" not in messages[-1].content.lower() or len(messages) > 8:
        return Message(role="assistant", content="Done.")
    return Message(role="assistant", content="Written.")
"""
NAME = "mine.labels:Labels"
SCRIPTED = ("-c", "model.provider=scripted", "-c", "model.name=mine.agent:agent", "-c", f"suite.name={NAME}")


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the modules `mine.labels` and `mine.agent`, in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "labels.py").write_text(SUITE)
    (folder / "agent.py").write_text(AGENT)
    _forget()
    yield folder
    _forget()


def _forget() -> None:
    for module in ("mine", "mine.labels", "mine.agent"):
        sys.modules.pop(module, None)


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def line_of(file: Path, text: str) -> int:
    return next(n for n, line in enumerate(file.read_text().splitlines(), 1) if text in line)


def checked(count: int = 10) -> tuple[int, list[str]]:
    """The exit code and the lines of `tasks check` on the standard error."""
    done = lab("tasks", "check", NAME, "-n", str(count), "--quiet")
    return done.returncode, done.stderr.strip().splitlines()


@pytest.mark.parametrize(
    ("returned", "why"),
    [
        ("return right", "returned False (bool), which is no Verdict"),
        ("return float(right)", "returned 0.0 (float), which is no Verdict"),
        ("return 'right'", "returned 'right' (str), which is no Verdict"),
        ("return 1.0, right", "returned (1.0, False) (tuple), which is no Verdict"),
        ("return {'score': 0.0}", "which is no Verdict"),
        ("return Verdict", "which is no Verdict"),
        ("return Verdict(score=1.0, success=1)", "returned a Verdict with success=1 (int) (expected `bool`"),
        ("return Verdict(score='no', success=right)", "returned a Verdict with score='no' (str) (expected `float`"),
        ("return Verdict(score=0.0, success=right, feedback=None)", "returned a Verdict with feedback=None (expected"),
    ],
)
def test_what_is_no_verdict_is_told_with_what_is(mine: Path, returned: str, why: str) -> None:
    edit(mine / "labels.py", VERDICT, returned)
    code, (line,) = checked(1)
    assert code != 0
    assert line.startswith("hermes-lab: error: labels: w0-0: verify() ")
    assert why in line
    assert f"({mine}/labels.py:{line_of(mine / 'labels.py', 'def verify')})" in line
    assert "return Verdict(score=1.0, success=True), or None" in line
    assert lab("run", *SCRIPTED, "-c", "suite.count=1", "--out", "run").returncode != 0
    (episode,) = read_episodes(Path("run"))
    assert episode.error
    assert (episode.error.kind, why in episode.error.message) == ("verifier", True)


def test_a_verifier_without_a_verdict_is_vague(mine: Path) -> None:
    edit(mine / "labels.py", VERDICT, "return None")
    code, lines = checked(1)
    assert code == 1
    assert any("is vague: the verifier gives no verdict" in line for line in lines)


def test_a_verifier_that_is_not_async_is_told(mine: Path) -> None:
    edit(mine / "labels.py", "async def verify", "def verify")
    edit(mine / "labels.py", '(await workspace.read("label.txt")).decode()', "answer")
    code, lines = checked(1)
    assert code != 0
    assert "verify() is not `async`" in lines[-1]
    assert "write `async def verify`" in lines[-1]


@pytest.mark.parametrize(
    ("file", "old", "new", "why"),
    [
        ("load", TASKS, "return None", "load() returned None, which is no list of tasks"),
        ("load", TASKS, "return {'a': 1}", "load() returned {'a': 1} (dict), which is no list of tasks"),
        ("load", TASKS, "return []", "load() returned no task"),
        ("load", TASKS, "return self.task(world, 0)", "which is no list of tasks"),
        ("load", TASKS, "yield {'id': 'a'}", "load() returned {'id': 'a'} (dict) as task 1, which is no Task"),
        ("load", TASKS, "return ['a', 'b']", "load() returned 'a' (str) as task 1, which is no Task"),
        ("load", "attempts=2", "attempts='2'", "with attempts='2' (str) (expected `int`, got `str`)"),
        ("load", "attempts=2", "setup='touch a'", "with setup='touch a' (str) (expected `array`, got `str`)"),
        ("load", '{"order.txt": str(n)}', '{"order.txt": n}', "expected `str`, got `int`"),
        ("oracle", "return [Action", "return Action", "oracle() returned"),
        ("naive", '"content": "label"})]', '"content": "label"}), 3]', "naive() returned 3 (int), which is no Action"),
    ],
)
def test_what_other_methods_return_is_checked(mine: Path, file: str, old: str, new: str, why: str) -> None:
    if file == "oracle":
        edit(mine / "labels.py", 'task.truth["label"]})]', 'task.truth["label"]})')
    edit(mine / "labels.py", old, new)
    code, (line,) = checked(1)
    assert code == 2
    assert why in line
    assert f"({mine}/labels.py:{line_of(mine / 'labels.py', f'def {file}')})" in line


@pytest.mark.parametrize("method", ["load", "verify", "oracle", "naive"])
def test_a_method_that_raises_is_told_with_its_line(mine: Path, method: str) -> None:
    head = next(line for line in SUITE.splitlines() if f"def {method}(" in line)
    edit(mine / "labels.py", head, f"{head}\n        raise LookupError('no such\\nthing')")
    code, (line,) = checked(1)
    assert code == 2
    assert f"LookupError: no such thing ({mine}/labels.py:{line_of(mine / 'labels.py', 'raise LookupError')})" in line


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('splits = ("train",)', 'splits = "train"', "its `splits` are 'train' (str); write a tuple"),
        ('splits = ("train",)', "splits = ()", "its `splits` are () (tuple); write a tuple"),
        ('name = "labels"', "name = None", "its `name` is None; give it a text"),
    ],
)
def test_what_names_a_suite_is_checked(mine: Path, old: str, new: str, why: str) -> None:
    edit(mine / "labels.py", old, new)
    code, (line,) = checked(1)
    assert (code, why in line) == (2, True), line


def test_a_sound_suite_has_no_notes(mine: Path) -> None:
    assert checked() == (0, [])


@pytest.mark.parametrize(
    ("old", "new", "note"),
    [
        ("attempts=2", "attempts=1", "no task has a second attempt"),
        ('"Rejected: as the desk wants it."', '""', "no rejection has feedback"),
        ("range(count)", "range(min(count, 3))", "an experiment has 10 rounds by default"),
        ("self.task(world, n)", "self.task(0, n)", "worlds 0 and 1 have the same tasks"),
        ("[self.task(world, n)", "[self.same(n)", "all 10 tasks are the same"),
    ],
)
def test_what_keeps_an_experiment_from_showing_learning_is_a_note(mine: Path, old: str, new: str, note: str) -> None:
    edit(mine / "labels.py", old, new)
    code, lines = checked()
    assert code == 0, lines
    assert all("note: train: " in line for line in lines)
    assert any(note in line for line in lines), lines
    told = json.loads(lab("tasks", "check", NAME, "-n", "10", "--json").stdout)
    assert any(note in each for each in told["notes"])


@pytest.mark.parametrize("number", [1, 2, 12])
def test_rows_of_a_file_have_the_notes_that_they_need(mine: Path, number: int) -> None:
    plain = [{"prompt": f"Write {n} to a.txt.", "verify": f"grep -qx {n} a.txt"} for n in range(number)]
    heard = [row | {"attempts": 2, "feedback": True} for row in plain]
    for rows, unheard in ((plain, True), (heard, False)):
        Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        done = lab("tasks", "check", "rows.jsonl")
        assert done.returncode == 0
        assert ("no task has a second attempt" in done.stderr) == unheard
        assert ("an experiment has 10 rounds by default" in done.stderr) == (number < 10)


POLICY = {
    "raise": ("raise KeyError('rule')", "KeyError: 'rule' ("),
    "lines": ("raise ValueError('one\\ntwo')", "ValueError: one two ("),
    "library": ("__import__('json').loads('{')", "JSONDecodeError: "),
    "none": ("return None", "mine.agent:agent: the policy returned None ("),
    "text": ("return 'Done.'", "the policy returned 'Done.' (str) ("),
}


@pytest.mark.parametrize("kind", POLICY)
def test_a_policy_that_fails_is_told_with_its_line(mine: Path, kind: str) -> None:
    does, why = POLICY[kind]
    edit(mine / "agent.py", "def turn(messages):", f"def turn(messages):\n    {does}")
    done = lab("run", *SCRIPTED, "-c", "suite.count=2", "--out", "run")
    line = next(line for line in (done.stdout + done.stderr).splitlines() if why in line)
    at = line_of(mine / "agent.py", "def turn" if kind in ("none", "text") else does)
    assert f"({mine}/agent.py:{at})" in line


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("def agent(:", "SyntaxError: "),
        ("1 / 0", "ZeroDivisionError: division by zero ("),
        ("def agent():\n    return [][1]", "IndexError: list index out of range ("),
        ("def agent():\n    return len()", "TypeError: len() takes exactly one argument (0 given) ("),
        ("def agent():\n    return 'done'", "mine.agent:agent returned 'done' (str) ("),
        ("def agent(name):\n    return print", "model.options: not accepted by mine.agent:agent"),
    ],
)
def test_a_policy_that_cannot_be_built_is_one_line(mine: Path, code: str, why: str) -> None:
    (mine / "agent.py").write_text(code)
    done = lab("run", *SCRIPTED, "-c", "suite.count=1", "--out", "run")
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert why in line
    assert "options" in line or f"{mine}/agent.py:" in line
