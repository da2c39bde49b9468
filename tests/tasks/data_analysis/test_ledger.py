"""The desk's house tool and the judge of totals, in a real workspace."""

import json
from collections.abc import Callable
from itertools import combinations

import pytest

from hermes_lab.protocols import Sandbox
from hermes_lab.tasks.data_analysis.ledger import FAMILY
from hermes_lab.tasks.data_analysis.ledger.rules import CONVENTIONS, plain_total
from hermes_lab.tasks.data_analysis.ledger.table import draw_shape, draw_table
from hermes_lab.tasks.data_family import Words
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import draw_rule
from hermes_lab.tasks.subtasks import subtasks_of
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.tasks.worlds import WorldSpec
from hermes_lab.types import Task, Verdict

OpenSandbox = Callable[[], Sandbox]
SUITE = WorldSuite("ledger", (FAMILY,), WorldSpec())


def task_of(kind: str) -> Task:
    """The first task that a rule of this type decides; the empty type is a plain desk."""
    for world in range(200):
        for task in SUITE.load(split="heldout", count=10, seed=0, world=world):
            if task.metadata["rule_type"] == kind:
                return task
    raise LookupError(kind)


def command_of(actions: tuple[object, ...]) -> str:
    (action,) = actions
    return str(action.arguments["command"])  # type: ignore[attr-defined]


async def judged(open_sandbox: OpenSandbox, task: Task, *commands: str, answer: str | None = "Done.") -> Verdict:
    async with open_sandbox() as sandbox:
        for path, text in task.files.items():
            await sandbox.write(path, text.encode())
        for command in commands:
            await sandbox.exec(command)
        return await SUITE.verify(task, sandbox, answer)


async def total_of(open_sandbox: OpenSandbox, task: Task) -> float:
    """The total that the rule in force makes, by the tool."""
    async with open_sandbox() as sandbox:
        for path, text in task.files.items():
            await sandbox.write(path, text.encode())
        await sandbox.exec(command_of(SUITE.oracle(task)))
        return float(json.loads(await sandbox.read("answer.json"))["total"])


def leave(content: object) -> str:
    return f"cat > answer.json <<'EOF'\n{content if isinstance(content, str) else json.dumps(content)}\nEOF"


def words_of(words: Words) -> set[str]:
    values = {word for column, cells in words.categories for word in (column, *cells)}
    return values.union(words.documents, words.ordinals, words.quantities, words.charges)


@pytest.mark.parametrize(("first", "second"), list(combinations(FAMILY.words, 2)))
def test_splits_share_no_word(first: str, second: str) -> None:
    assert not words_of(FAMILY.words[first]) & words_of(FAMILY.words[second])


@pytest.mark.parametrize("kind", CONVENTIONS)
def test_every_type_of_rule_moves_the_total_of_every_table(kind: str) -> None:
    for number in range(60):
        draws = Draws("test", kind, number)
        site_config = draw_shape(draws, FAMILY.words["train"])
        rows = draw_table(site_config, draws)
        literals = dict(draw_rule(kind, FAMILY.rules[kind], draws, site_config).literals)
        assert abs(CONVENTIONS[kind].apply(rows, literals) - plain_total(rows)) > 0.01


def test_rules_of_one_form_are_told_by_one_flag() -> None:
    """Only their argument differs, so a flag alone tells nothing of it."""
    flags = [convention.texts.flags.split()[0] for convention in CONVENTIONS.values()]
    assert (flags.count("--drop"), flags.count("--keep")) == (2, 2)


@pytest.mark.anyio
@pytest.mark.parametrize("kind", CONVENTIONS)
async def test_the_tool_with_a_rules_flags_gives_the_rules_total(open_sandbox: OpenSandbox, kind: str) -> None:
    task = task_of(kind)
    right = await judged(open_sandbox, task, command_of(SUITE.oracle(task)))
    assert (right.score, right.success, right.feedback) == (1.0, True, "")
    wrong = await judged(open_sandbox, task, command_of(SUITE.naive(task)))
    assert wrong.criteria == {"answer_present": 1.0, "schema": 1.0, "correct": 0.0, "inputs_untouched": 1.0}
    rule = subtasks_of(task.truth)[0].site.rule
    assert rule is not None
    assert rule.instruction in wrong.feedback


@pytest.mark.anyio
async def test_a_plain_desk_takes_the_plain_total_and_tells_no_rule(open_sandbox: OpenSandbox) -> None:
    task = task_of("")
    assert (await judged(open_sandbox, task, command_of(SUITE.naive(task)))).success
    wrong = await judged(open_sandbox, task, leave({"total": 1}))
    assert "so the standard way is right" in wrong.feedback


@pytest.mark.anyio
async def test_prose_is_worth_nothing_and_silence_costs_nothing(open_sandbox: OpenSandbox) -> None:
    task = task_of("drop")
    told = await judged(open_sandbox, task, answer=f"The total is {await total_of(open_sandbox, task)}.")
    assert (told.score, "answer.json is missing" in told.feedback) == (0.0, True)
    assert (await judged(open_sandbox, task, command_of(SUITE.oracle(task)), answer=None)).success


NO_NUMBERS = (
    *("12", "[]", '{"sum": 1}', '{"total": "12"}', '{"total": true}', '{"total": null}', '{"total": NaN}'),
    *('{"total": 1e999}', '{"total": ' + "9" * 400 + "}"),
)
NO_JSON = ("", "[" * 5000, '{"total": ' + "9" * 5000 + "}", '{"total": 1, "total": 2}')


@pytest.mark.anyio
async def test_what_is_no_finite_number_fails_the_schema(open_sandbox: OpenSandbox) -> None:
    task = task_of("drop")
    async with open_sandbox() as sandbox:
        for path, text in task.files.items():
            await sandbox.write(path, text.encode())
        for content in NO_NUMBERS + NO_JSON:
            await sandbox.exec(leave(content))
            verdict = await SUITE.verify(task, sandbox, None)
            assert (verdict.score, verdict.criteria["schema"]) == (0.0, 0.0), content
            assert verdict.criteria["answer_present"] == float(content in NO_NUMBERS), content


@pytest.mark.anyio
async def test_half_a_cent_is_tolerated(open_sandbox: OpenSandbox) -> None:
    task = task_of("drop")
    total = await total_of(open_sandbox, task)
    scores = [
        (await judged(open_sandbox, task, leave({"total": total + off}))).score
        for off in (0.004, -0.004, 0.006, -0.006)
    ]
    assert scores == [1.0, 1.0, 0.0, 0.0]


@pytest.mark.anyio
@pytest.mark.parametrize(
    "tampering",
    ["echo >> {file}", "rm {file}", "echo '#' >> ledger", "mv {file} b && ln -s b {file}", "rm ledger && mkdir ledger"],
)
async def test_a_touched_input_scores_nothing(open_sandbox: OpenSandbox, tampering: str) -> None:
    task = task_of("drop")
    file = subtasks_of(task.truth)[0].instance.file  # type: ignore[attr-defined]
    verdict = await judged(open_sandbox, task, command_of(SUITE.oracle(task)), tampering.format(file=file))
    assert (verdict.score, verdict.criteria["correct"], verdict.criteria["inputs_untouched"]) == (0.0, 1.0, 0.0)
    assert "must not be changed" in verdict.feedback


@pytest.mark.anyio
async def test_the_tool_says_what_is_wrong(open_sandbox: OpenSandbox) -> None:
    task = task_of("drop")
    mistakes = {
        "{file} --out answer.json": "invalid choice",
        "sum {file}": "--out",
        "sum missing.csv --out answer.json": "missing.csv: No such file",
        "sum {file} --out answer.json --drop nowhere=x": "has no column 'nowhere'; it has ",
        "sum {file} --out answer.json --drop x": "is not COLUMN=VALUE",
        "sum {file} --out answer.json --keep amount=x..y": "not a usable number",
        "sum {file} --out answer.json --scale a=b": "is not COLUMN=VALUE:FACTOR",
        "sum {file} --out answer.json --divide 0": "not a usable number",
    }
    file = subtasks_of(task.truth)[0].instance.file  # type: ignore[attr-defined]
    async with open_sandbox() as sandbox:
        for path, text in task.files.items():
            await sandbox.write(path, text.encode())
        for options, reason in mistakes.items():
            result = await sandbox.exec("./ledger " + options.format(file=file))
            assert result.exit_code == 2
            assert reason in result.output
            assert "Traceback" not in result.output


@pytest.mark.anyio
async def test_help_names_every_flag(open_sandbox: OpenSandbox) -> None:
    task = task_of("drop")
    async with open_sandbox() as sandbox:
        await sandbox.write("ledger", task.files["ledger"].encode())
        shown = (await sandbox.exec("./ledger sum --help")).output
    assert all(convention.texts.flags.split()[0] in shown for convention in CONVENTIONS.values())
