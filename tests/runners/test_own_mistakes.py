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
    assert code == 2
    assert line.startswith("hermes-lab: error: suite: labels: w0-0: verify() ")
    assert why in line
    assert f"({mine}/labels.py:{line_of(mine / 'labels.py', 'def verify')})" in line
    assert "return Verdict(score=1.0, success=True), or None" in line
    assert lab("run", *SCRIPTED, "-c", "suite.count=1", "--out", "run").returncode != 0
    (episode,) = read_episodes(Path("run"))
    assert episode.error
    assert (episode.error.kind, why in episode.error.message) == ("verifier", True)
    assert episode.error.message.startswith("labels: w0-0: verify() ")


def test_an_error_of_the_labs_own_kind_in_a_verifier_is_told_with_its_line(mine: Path) -> None:
    raises = "from hermes_lab.errors import ConfigError; raise ConfigError('no such thing')"
    edit(mine / "labels.py", VERDICT, raises)
    assert lab("run", *SCRIPTED, "-c", "suite.count=1", "--out", "run").returncode != 0
    (episode,) = read_episodes(Path("run"))
    assert episode.error
    assert f"no such thing ({mine}/labels.py:{line_of(mine / 'labels.py', raises)})" in episode.error.message


def test_a_verifier_without_a_verdict_is_vague(mine: Path) -> None:
    edit(mine / "labels.py", VERDICT, "return None")
    code, lines = checked(1)
    assert code == 1
    assert any("is vague: the verifier gives no verdict" in line for line in lines)


def test_a_verifier_that_is_not_async_is_told(mine: Path) -> None:
    edit(mine / "labels.py", "async def verify", "def verify")
    edit(mine / "labels.py", '(await workspace.read("label.txt")).decode()', "answer")
    code, lines = checked(1)
    assert code == 2
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


def refused(*args: str) -> str:
    """The one line with which a command refuses its input."""
    done = lab(*args)
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    return line


@pytest.mark.parametrize(
    ("old", "new", "why", "remedy"),
    [
        ("answer, attempt=1)", "answer)", "too many positional", "async def verify(self, task, workspace, answer, att"),
        ("*, split, count, seed, world)", "split, count)", "'seed'", "def load(self, *, split, count, seed, world)"),
        ("def oracle(self, task)", "def oracle(task)", "too many positional", "def oracle(self, task)"),
        ("def naive(self, task)", "def naive()", "no parameter `self`", "def naive(self, task)"),
        (
            "    def naive(",
            "    def known_skills(self):\n        pass\n\n    def naive(",
            "'split'",
            "known_skills(self, *, sp",
        ),
    ],
)
def test_a_method_that_cannot_be_called_is_told_before_anything_runs(
    mine: Path, old: str, new: str, why: str, remedy: str
) -> None:
    edit(mine / "labels.py", old, new)
    method = remedy.partition("(")[0].removeprefix("async ").removeprefix("def ")
    for command in (("tasks", "check", NAME), ("experiment", *SCRIPTED, "--plan")):
        line = refused(*command)
        assert f"{method}() " in line
        assert why in line
        assert remedy in line
        assert f"({mine}/labels.py:{line_of(mine / 'labels.py', f'def {method}')})" in line


def test_a_wrong_oracle_gives_its_failures(mine: Path) -> None:
    text = (mine / "labels.py").read_text()
    right, wrong = '{"path": "label.txt", "content": task.truth["label"]}', '{"path": "label.txt", "content": "label"}'
    (mine / "labels.py").write_text(text.replace(right, "RIGHT").replace(wrong, right).replace("RIGHT", wrong))
    code, lines = checked(2)
    assert code == 1
    assert any("the oracle scores 0.0, not 1" in line for line in lines)
    (part,) = json.loads(lab("tasks", "check", NAME, "-n", "2", "--json").stdout)["splits"][0]["families"]
    assert part["headroom"] == {"points": -100.0, "low": None, "high": None}


@pytest.mark.parametrize("missing", [("oracle", "naive"), ("naive",)])
def test_a_suite_without_solutions_is_checked_without_them(mine: Path, missing: tuple[str, ...]) -> None:
    for method in missing:
        edit(mine / "labels.py", f"def {method}(", f"def no_{method}(")
    done = lab("tasks", "check", NAME, "-n", "2", "--quiet")
    assert (done.returncode, f"not checked (no {', no '.join(missing)})" in done.stdout) == (0, True)
    edit(mine / "labels.py", "            right = False", "            right = True")
    _forget()  # imported above, as it was
    code, lines = checked(2)
    assert (code, any("doing nothing scores 1.0, not 0" in line for line in lines)) == (1, True)


@pytest.mark.parametrize("number", ["3", "count + 1"])
def test_another_number_of_tasks_than_asked_for_is_refused(mine: Path, number: str) -> None:
    edit(mine / "labels.py", "range(count)", f"range({number})")
    line = refused("experiment", *SCRIPTED, "--plan")
    assert "10 training tasks and 0 held-out tasks are needed in each world (learning.rounds" in line
    assert f"returned {3 if number == '3' else 11} tasks of split 'train' and world 0" in line
    assert f"{mine}/labels.py:" in line
    assert "2 were asked for" in refused("run", *SCRIPTED, "--plan", "-c", "suite.count=2")


@pytest.mark.parametrize("command", ["run", "experiment"])
def test_a_split_that_the_suite_does_not_have_is_refused(mine: Path, command: str) -> None:
    line = refused(command, *SCRIPTED, "--plan", "-c", "suite.split=trian")
    assert "suite.split: labels has no split 'trian'; did you mean train?; there are: train" in line


@pytest.mark.parametrize("name", ["mine/labels.py", "mine.labels.Labels", "mine/labels:Labels", "mine/labels:Label"])
def test_a_path_or_dots_in_place_of_a_class_suggest_its_name(mine: Path, name: str) -> None:
    assert refused("tasks", "check", name).endswith(f"did you mean {NAME}?")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("mine.agen:agent", "no module mine.agen in the current folder "),
        ("mine.agen:agent", "; did you mean mine.agent?"),
        ("mine.agent:agen", "agen does not exist in mine.agent; did you mean agent?"),
        ("packaged", "model.name: set it to module:factory for provider `scripted`"),
    ],
)
def test_a_plan_needs_its_policy(mine: Path, name: str, why: str) -> None:
    assert why in refused("experiment", *SCRIPTED, "--plan", "-c", f"model.name={name}")


def test_the_arm_oracle_names_the_method_that_it_needs(mine: Path) -> None:
    line = refused("experiment", *SCRIPTED, "--plan", "-c", "learning.arms=[off,oracle]")
    assert "labels has no method `known_skills` that states them (docs/howto/suite.md)" in line


def test_a_tool_that_does_not_exist_is_told_with_the_nearest(mine: Path) -> None:
    turn = "def turn(messages):\n    from hermes_lab import Action, Conversation, go_on\n"
    turn += "    return go_on(script(Action), Conversation.read(messages).exchanges[-1].results)\n\n"
    turn += "def script(Action):\n    yield Action('write_fil', {'path': 'a', 'content': 'b'})\n    return 'Done.'\n\n"
    edit(mine / "agent.py", "def turn(messages):", f"{turn}def old(messages):")
    done = lab("run", *SCRIPTED, "-c", "suite.count=1", "--out", "run")
    assert "no tool `write_fil`, which the script calls; did you mean write_file?" in done.stderr


def test_episodes_that_were_never_started_are_counted(mine: Path) -> None:
    edit(mine / "agent.py", "def turn(messages):", "def turn(messages):\n    raise KeyError('rule')")
    done = lab("experiment", *SCRIPTED, "-c", "learning.arms=[on]", "-c", "learning.worlds=1", "--out", "run")
    assert done.returncode == 3
    assert "10 of 10 episodes did not finish: 1 errored, 9 never started (" in done.stderr
