import json
from collections.abc import Callable

import pytest

from hermes_lab.protocols import Sandbox
from hermes_lab.types import Task, Verdict
from tasks.ledger.rules import RULE_TYPES
from tasks.ledger.suite import LedgerSuite, sum_command

pytestmark = pytest.mark.anyio
SUITE = LedgerSuite()
OpenSandbox = Callable[[], Sandbox]


def task_of(type_: str) -> Task:
    """The first task that a rule of this type decides; the empty type is a plain desk."""
    for world in range(200):
        for task in SUITE.load(split="heldout", count=10, seed=0, world=world):
            if task.metadata["rule_type"] == type_:
                return task
    raise LookupError(type_)


async def judged(open_sandbox: OpenSandbox, task: Task, *commands: str, answer: str | None = "Done.") -> Verdict:
    async with open_sandbox() as sandbox:
        for path, text in task.files.items():
            await sandbox.write(path, text.encode())
        for command in commands:
            await sandbox.exec(command)
        return await SUITE.verify(task, sandbox, answer)


def leave(content: object) -> str:
    return f"cat > answer.json <<'EOF'\n{content if isinstance(content, str) else json.dumps(content)}\nEOF"


@pytest.mark.parametrize("type_", RULE_TYPES)
async def test_the_tool_with_a_rules_flags_gives_the_rules_total(open_sandbox: OpenSandbox, type_: str) -> None:
    task = task_of(type_)
    right = await judged(open_sandbox, task, *SUITE.oracle(task))
    assert (right.score, right.success, right.feedback) == (1.0, True, "")
    wrong = await judged(open_sandbox, task, *SUITE.naive(task))
    assert (wrong.score, wrong.success) == (0.0, False)
    assert wrong.criteria == {"answer_present": 1.0, "schema": 1.0, "correct": 0.0, "inputs_untouched": 1.0}
    assert task.truth["flags"] in wrong.feedback
    assert str(task.truth["total"]) not in wrong.feedback


async def test_any_wrong_number_at_a_ruled_desk_earns_the_hint(open_sandbox: OpenSandbox) -> None:
    task = task_of("drop")
    verdict = await judged(open_sandbox, task, leave({"total": -1}))
    assert verdict.feedback == task.truth["hint"]


async def test_a_plain_desk_takes_the_plain_total_and_gives_no_hint(open_sandbox: OpenSandbox) -> None:
    task = task_of("")
    assert (await judged(open_sandbox, task, sum_command(task.truth["file"]))).success
    wrong = await judged(open_sandbox, task, leave({"total": 1}))
    assert wrong.feedback == "Rejected: the total is not right."


async def test_prose_is_worth_nothing(open_sandbox: OpenSandbox) -> None:
    task = task_of("")
    verdict = await judged(open_sandbox, task, answer=f"The total is {task.truth['total']}.")
    assert verdict.score == 0.0
    assert verdict.feedback == "Rejected: answer.json is missing."


async def test_a_right_file_counts_without_a_final_answer(open_sandbox: OpenSandbox) -> None:
    task = task_of("drop")
    assert (await judged(open_sandbox, task, *SUITE.oracle(task), answer=None)).success


NO_NUMBERS = (
    *(
        "",
        "12",
        "[]",
        '{"sum": 1}',
        '{"total": "12"}',
        '{"total": true}',
        '{"total": null}',
        '{"total": NaN}',
    ),
    *('{"total": 1e999}', '{"total": ' + "9" * 5000 + "}", '{"total": ' + "9" * 400 + "}", "[" * 5000),
)


@pytest.mark.parametrize("content", NO_NUMBERS, ids=range(12))
async def test_what_is_no_finite_number_fails_the_schema(open_sandbox: OpenSandbox, content: str) -> None:
    verdict = await judged(open_sandbox, task_of("drop"), leave(content))
    assert (verdict.score, verdict.criteria["answer_present"], verdict.criteria["schema"]) == (0.0, 1.0, 0.0)
    assert verdict.feedback == "Rejected: answer.json is not JSON with a number `total`."


@pytest.mark.parametrize(("off", "success"), [(0.004, True), (-0.004, True), (0.006, False), (-0.006, False)])
async def test_half_a_cent_is_tolerated(open_sandbox: OpenSandbox, off: float, success: bool) -> None:
    task = task_of("drop")
    assert (await judged(open_sandbox, task, leave({"total": task.truth["total"] + off}))).success is success


@pytest.mark.parametrize(
    "tampering",
    [
        "echo >> {file}",
        "rm {file}",
        "echo '#' >> ledger",
        "mv {file} b && ln -s b {file}",
        "rm ledger && mkdir ledger",
    ],
)
async def test_a_touched_input_scores_nothing(open_sandbox: OpenSandbox, tampering: str) -> None:
    task = task_of("drop")
    verdict = await judged(open_sandbox, task, *SUITE.oracle(task), tampering.format(file=task.truth["file"]))
    assert (verdict.score, verdict.criteria["correct"], verdict.criteria["inputs_untouched"]) == (
        0.0,
        1.0,
        0.0,
    )
    assert "must stay as they were" in verdict.feedback


async def test_a_link_is_no_answer(open_sandbox: OpenSandbox) -> None:
    task = task_of("drop")
    verdict = await judged(open_sandbox, task, *SUITE.oracle(task), "mv answer.json b && ln -s b answer.json")
    assert (verdict.score, verdict.criteria["answer_present"]) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("{file} --out answer.json", "invalid choice"),
        ("sum {file}", "--out"),
        ("sum missing.csv --out answer.json", "missing.csv: No such file"),
        ("sum {file} --out answer.json --drop nowhere=x", "has no column 'nowhere'; it has "),
        ("sum {file} --out answer.json --drop x", "is not COLUMN=VALUE"),
        ("sum {file} --out answer.json --scale a=b", "is not COLUMN=VALUE:FACTOR"),
        ("sum {file} --out answer.json --divide 0", "no number to count with"),
    ],
)
async def test_the_tool_says_what_is_wrong(open_sandbox: OpenSandbox, options: str, reason: str) -> None:
    task = task_of("drop")
    async with open_sandbox() as sandbox:
        for path, text in task.files.items():
            await sandbox.write(path, text.encode())
        result = await sandbox.exec("./ledger " + options.format(file=task.truth["file"]))
    assert result.exit_code == 2
    assert reason in result.output
    assert "Traceback" not in result.output


async def test_help_names_every_flag_and_no_value(open_sandbox: OpenSandbox) -> None:
    task = task_of("drop")
    async with open_sandbox() as sandbox:
        await sandbox.write("ledger", task.files["ledger"].encode())
        shown = (await sandbox.exec("./ledger sum --help")).output
    assert all(type_.flags.split()[0] in shown for type_ in RULE_TYPES.values())
    assert task.truth["flags"] not in shown
