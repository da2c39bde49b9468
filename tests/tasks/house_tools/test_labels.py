"""The printer of labels and the judge of them, in a real workspace."""

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes_lab.protocols import Sandbox
from hermes_lab.types import Task
from tasks.admission import forced
from tasks.draws import Draws
from tasks.family import Rule, draw_rule
from tasks.house_tools.labels import FAMILY
from tasks.pieces import pieces_of
from tasks.play import play
from tasks.suite import WorldSuite
from tasks.worlds import SPLITS, WorldSpec

SUITE = WorldSuite("labels", (FAMILY,), WorldSpec())
OpenSandbox = Callable[[], Sandbox]


def printed(folder: Path, task: Task, rule: Rule | None) -> list[str]:
    """The lines that the tool prints with the flags of `rule`."""
    for path, text in task.files.items():
        (folder / path).write_text(text)
    _, *arguments = shlex.split(FAMILY.command(pieces_of(task.truth)[0].scene.file, rule))
    subprocess.run([sys.executable, "labels", *arguments], cwd=folder, check=True, capture_output=True)
    return (folder / "labels.txt").read_text().splitlines()


@pytest.mark.parametrize("kind", [None, *FAMILY.rules])
def test_the_tool_prints_what_is_right_and_nothing_else_does(kind: str | None, tmp_path: Path) -> None:
    for split in SPLITS:
        for task in SUITE.load(split=split, count=4, seed=3, world=1):
            (piece,) = pieces_of(task.truth)
            rule = draw_rule(kind, FAMILY.rules[kind], Draws(kind, task.id), piece.place.shape) if kind else None
            found = printed(tmp_path, task, rule)
            assert found == FAMILY.right(piece.scene, rule)
            assert (found == FAMILY.right(piece.scene, None)) == (rule is None)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.csv", "--out", "x"], "labels: none.csv: "),
        (["a.csv", "--out", "x", "--sort", "age"], "labels: a.csv has no column 'age'"),
    ],
)
def test_what_it_cannot_print_it_says_in_one_line(arguments: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("name,street,code,town,kind,kilos\nA,B,1,C,toys,3\n")
    tool = Path(__file__).parents[3] / "tasks" / "house_tools" / "labels" / "tool.py"
    done = subprocess.run([sys.executable, tool, "print", *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(said)


@pytest.mark.anyio
async def test_the_judge_takes_the_right_labels_alone(open_sandbox: OpenSandbox) -> None:
    task = forced(SUITE, FAMILY, "caps", "heldout", 0)
    assert task
    (piece,) = pieces_of(task.truth)
    for rule, wanted in ((piece.place.rule, 1.0), (None, 0.0)):
        async with open_sandbox() as sandbox:
            for path, text in task.files.items():
                await sandbox.write(path, text.encode())
            await play(piece.moves(rule), task, sandbox)
            assert (await SUITE.verify(task, sandbox, "Done.")).score == wanted
