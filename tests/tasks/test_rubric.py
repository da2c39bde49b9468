"""The four marks, counted from tasks and from runs."""

import json
from typing import Any

import pytest
from fakes.episodes import record
from msgspec import structs

from hermes_lab.tasks.data_analysis.ledger import FAMILY
from hermes_lab.tasks.rubric import (
    Measured,
    action_kinds,
    fit_length,
    grade,
    grade_runs,
    is_knowledge,
    named_outputs,
    succeeded,
)
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.tasks.worlds import WorldSpec
from hermes_lab.types import Episode, Message, Task, ToolCall, ToolResult, Trajectory, Verdict

GOOD = Measured(
    repeats=(True, True, True), met=1.0, named=1.0, length=1.0, actions=("ls", "python3"), erred=True, mended=True
)


def measured(**changes: Any) -> Measured:
    return Measured(**{**vars(GOOD), **changes})


def test_repeatability_is_the_share_of_repetitions_that_came_out_the_same() -> None:
    rubric = grade([GOOD, measured(repeats=(True, False, False))])
    assert rubric.repeatability.value == pytest.approx(4 / 6)
    assert rubric.repeatability.reason == "4 of 6 repetitions gave the same result"


@pytest.mark.parametrize(("changes", "value"), [({"met": 0.5}, 0.5), ({"named": 0.0}, 0.0), ({"length": 0.25}, 0.25)])
def test_clarity_falls_with_what_the_prompt_leaves_open(changes: dict[str, float], value: float) -> None:
    assert grade([GOOD]).clarity.value == 1.0
    assert grade([measured(**changes)]).clarity.value == value


def test_diversity_counts_kinds_of_action_in_effect() -> None:
    assert grade([measured(actions=("ls",) * 9)]).tool_diversity.value == 0.0
    assert grade([measured(actions=("ls", "cat") * 9)]).tool_diversity.value == pytest.approx(0.5)
    assert grade([measured(actions=tuple("abcde"))]).tool_diversity.value == pytest.approx(0.8)
    rare = grade([measured(actions=("ls",) * 99 + ("cat",))]).tool_diversity.value
    assert 0 < rare < 0.1
    assert grade([measured(actions=())]).tool_diversity == (0.0, "no tool is needed")


def test_an_error_counts_where_a_second_attempt_mends_it() -> None:
    lost, smooth = measured(mended=False), measured(erred=False, mended=False)
    assert grade([GOOD, lost, smooth, smooth]).error_scenarios == (
        0.25,
        "2 of 4 tasks fail at first, 1 are then fixed",
    )


@pytest.mark.parametrize(
    ("command", "programs"),
    [
        (
            "cat > a.py <<'EOF'\nimport os\nfor x in y:\nEOF\npython3 a.py && ls -l | wc -l",
            ("cat", "python3", "ls", "wc"),
        ),
        ('for f in *.log; do gzip "$f"; done', ("gzip",)),
        ("A=1 make all; cd src && ./run --all > out 2>&1", ("make", "cd", "run")),
        ("python3 -c 'import json\nprint(1)'", ("python3",)),
        ("/usr/bin/sort a 'unclosed", ("sort",)),
        ("", ("terminal",)),
    ],
)
def test_a_command_is_the_programs_that_it_runs(command: str, programs: tuple[str, ...]) -> None:
    assert action_kinds("terminal", {"command": command}) == programs


def test_another_tool_is_its_name() -> None:
    assert action_kinds("read_file", {"path": "a"}) == ("read_file",)


@pytest.mark.parametrize(
    ("ok", "content", "good"),
    [
        (True, '{"exit_code": 0}', True),
        (True, '{"exit_code": 1}', False),
        (False, '{"error": "no"}', False),
        (True, "[]", True),
        (True, "text", True),
    ],
)
def test_a_call_succeeds_without_an_error_and_with_exit_code_0(ok: bool, content: str, good: bool) -> None:
    assert succeeded(ok, content) is good


def test_the_parts_of_clarity_are_read_off_a_task() -> None:
    task = WorldSuite("ledger", (FAMILY,), WorldSpec()).load(split="train", count=1, seed=0, world=0)[0]
    assert (named_outputs(task), fit_length(task), is_knowledge(task)) == (1.0, 1.0, False)
    bare = structs.replace(task, prompt="Do it.", files={})
    assert (named_outputs(bare), fit_length(bare), is_knowledge(bare)) == (0.0, 0.25, True)
    assert fit_length(structs.replace(task, prompt="word " * 800)) == 0.5
    assert is_knowledge(Task(id="a", suite="s", prompt="p"))
    assert not is_knowledge(Task(id="a", suite="s", prompt="p", setup=("mkdir a",)))


def episode(task_id: str, *verdicts: bool, sample: int = 0, exit_code: int = 0) -> Episode:
    call = ToolCall("c", "terminal", {"command": "ls"})
    result = ToolResult("c", "terminal", json.dumps({"exit_code": exit_code}))
    messages = (
        Message("user", "Go."),
        Message("assistant", tool_calls=(call,)),
        Message("tool", result.content, results=(result,)),
    )
    return record(
        task_id=task_id,
        sample=sample,
        success=bool(verdicts) and verdicts[0],
        verdicts=tuple(Verdict(float(v), v, {"present": 1.0, "correct": float(v)}) for v in verdicts),
        trajectory=Trajectory(messages, (), "native", "answered"),
    )


def test_runs_give_the_same_marks() -> None:
    rubric = grade_runs(
        [
            episode("a", True),
            episode("a", True, sample=1),
            episode("a", False, True, sample=2),
            episode("b", True, exit_code=1),
            episode("c"),
        ]
    )
    assert rubric.repeatability == (pytest.approx(1 / 3), "1 of 3 pairs of samples agree")
    assert rubric.clarity.value == 0.5
    assert rubric.tool_diversity.value == 0.0
    assert rubric.error_scenarios == (0.5, "2 of 4 had an error or a rejection, 2 recovered")
    assert rubric.lines()[0] == "repeatability 0.33: 1 of 3 pairs of samples agree"
    assert rubric.to_dict()["tool_diversity"]["value"] == 0.0


def test_runs_without_samples_or_verdicts_say_so() -> None:
    assert "set run.samples to at least 2" in grade_runs([episode("a", True)]).repeatability.reason
    with pytest.raises(ValueError, match="no episode was judged"):
        grade_runs([episode("a")])
