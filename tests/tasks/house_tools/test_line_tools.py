"""The programs of the house and the judges of what they write, which share no code."""

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_lab.protocols import Sandbox
from hermes_lab.tasks.admission import forced
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Rule, draw_rule
from hermes_lab.tasks.house_tools._lines import LineTool
from hermes_lab.tasks.play import play
from hermes_lab.tasks.registry import domains, load_family
from hermes_lab.tasks.subtasks import subtasks_of
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.tasks.worlds import SPLITS, WorldSpec
from hermes_lab.types import Task

OpenSandbox = Callable[[], Sandbox]
FAMILIES = [family for name in domains()["house_tools"] if isinstance(family := load_family(name), LineTool)]
BY_NAME = pytest.mark.parametrize("family", FAMILIES, ids=[family.name for family in FAMILIES])


def suite_of(family: LineTool[Any]) -> WorldSuite:
    return WorldSuite(family.name, (family,), WorldSpec())


def written(folder: Path, family: LineTool[Any], task: Task, rule: Rule | None) -> list[str]:
    """The lines that the tool writes with the flags of `rule`."""
    for path, text in task.files.items():
        (folder / path).write_text(text)
    _, *arguments = shlex.split(family.command(subtasks_of(task.truth)[0].instance.file, rule))
    subprocess.run([sys.executable, family.tool, *arguments], cwd=folder, check=True, capture_output=True)
    return (folder / family.answer).read_text().splitlines()


@pytest.mark.parametrize(
    ("family", "kind"),
    [(f, k) for f in FAMILIES for k in (None, *f.rules)],
    ids=lambda each: getattr(each, "name", each),
)
def test_the_tool_writes_what_is_right_and_no_rule_is_as_if_there_were_none(
    family: LineTool[Any], kind: str | None, tmp_path: Path
) -> None:
    for split in SPLITS:
        for task in suite_of(family).load(split=split, count=4, seed=3, world=1):
            (subtask,) = subtasks_of(task.truth)
            rule = draw_rule(kind, family.rules[kind], Draws(kind, task.id), subtask.site.site_config) if kind else None
            found = written(tmp_path, family, task, rule)
            assert found == family.right(subtask.instance, rule)
            assert (found == family.right(subtask.instance, None)) == (rule is None)


@BY_NAME
def test_a_request_quotes_the_plain_command_alone(family: LineTool[Any]) -> None:
    for split in SPLITS:
        for task in suite_of(family).load(split=split, count=8, seed=0, world=0):
            assert f"`{family.command(subtasks_of(task.truth)[0].instance.file)}`" in task.prompt
            assert "--out" in task.prompt
            assert task.prompt.count("--") == 1


@BY_NAME
@pytest.mark.parametrize("arguments", [["none.csv", "--out", "x"], ["a.csv", "--out", "x"]])
def test_what_it_cannot_read_it_says_in_one_line(family: LineTool[Any], arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("size\n3\n")
    (tmp_path / family.tool).write_text(family.tool_text)
    command = [sys.executable, family.tool, family.verb, *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith((f"{family.tool}: none.csv: No such file", f"{family.tool}: a.csv has no column '"))


@pytest.mark.anyio
@BY_NAME
async def test_the_judge_takes_what_is_right_and_nothing_else(family: LineTool[Any], open_sandbox: OpenSandbox) -> None:
    suite = suite_of(family)
    task = forced(suite, family, next(iter(family.rules)), "heldout", 0)
    assert task
    (subtask,) = subtasks_of(task.truth)
    for rule, wanted in ((subtask.site.rule, 1.0), (None, 0.0)):
        async with open_sandbox() as sandbox:
            for path, text in task.files.items():
                await sandbox.write(path, text.encode())
            await play(subtask.solve(rule), task, sandbox)
            assert (await suite.verify(task, sandbox, "Done.")).score == wanted
