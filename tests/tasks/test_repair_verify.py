import json
from collections.abc import Callable, Sequence

import pytest

from hermes_lab.protocols import Sandbox
from hermes_lab.types import Task, Verdict
from tasks.check import check_suite
from tasks.repair.house import TOPICS
from tasks.repair.suite import RepairSuite

pytestmark = pytest.mark.anyio
SUITE = RepairSuite()
OpenSandbox = Callable[[], Sandbox]


def task_of(type_: str) -> Task:
    """The first task that a convention of this topic decides; the empty topic is a plain component."""
    for world in range(200):
        for task in SUITE.load(split="heldout", count=10, seed=0, world=world):
            if task.metadata["rule_type"] == type_:
                return task
    raise LookupError(type_)


async def lay_out(sandbox: Sandbox, task: Task) -> None:
    for path, text in task.files.items():
        await sandbox.write(path, text.encode())


async def judged(
    open_sandbox: OpenSandbox, task: Task, *commands: str, answer: str | None = "Done.", suite: RepairSuite = SUITE
) -> Verdict:
    async with open_sandbox() as sandbox:
        await lay_out(sandbox, task)
        for command in commands:
            await sandbox.exec(command)
        return await suite.verify(task, sandbox, answer)


async def with_module(open_sandbox: OpenSandbox, task: Task, text: str, suite: RepairSuite = SUITE) -> Verdict:
    async with open_sandbox() as sandbox:
        await lay_out(sandbox, task)
        await sandbox.write(task.truth["path"], text.encode())
        return await suite.verify(task, sandbox, "Done.")


def fixed(task: Task) -> str:
    """The module of a right submission."""
    return task.files[task.truth["path"]].replace(task.truth["broken"], task.truth["right"])


def failed(verdict: Verdict) -> set[str]:
    return {name for name, value in verdict.criteria.items() if value < 1.0}


CRITERIA = {"module_present", "others_untouched", "small_diff", "public_tests", "behaviour", "convention"}


@pytest.mark.parametrize("type_", TOPICS)
async def test_only_the_fix_by_the_convention_is_accepted(open_sandbox: OpenSandbox, type_: str) -> None:
    task = task_of(type_)
    async with open_sandbox() as sandbox:
        await lay_out(sandbox, task)
        (command,) = SUITE.naive(task)
        await sandbox.exec(command)
        naive = await SUITE.verify(task, sandbox, "Done.")
        assert (naive.score, naive.success, failed(naive)) == (0.0, False, {"convention"})
        assert naive.feedback == task.truth["hint"]

        await lay_out(sandbox, task)
        (command,) = SUITE.oracle(task)
        await sandbox.exec(command)
        right = await SUITE.verify(task, sandbox, None)
        assert (right.score, right.success, right.feedback) == (1.0, True, "")
        assert set(right.criteria) == CRITERIA


@pytest.mark.parametrize("type_", ["quote", "gap"])
async def test_the_public_tests_fail_at_first_and_pass_after_either_fix(open_sandbox: OpenSandbox, type_: str) -> None:
    task = task_of(type_)
    async with open_sandbox() as sandbox:
        ran = []
        for way in ((), SUITE.naive(task), SUITE.oracle(task)):
            await lay_out(sandbox, task)
            for command in way:
                await sandbox.exec(command)
            ran.append(await sandbox.exec("python3 -m unittest discover tests"))
    assert all("Ran 2 tests" in result.output for result in ran)
    assert [result.exit_code for result in ran] == [1, 0, 0]


async def test_a_plain_component_takes_the_obvious_fix(open_sandbox: OpenSandbox) -> None:
    task = task_of("")
    verdict = await judged(open_sandbox, task, *SUITE.naive(task))
    assert (verdict.score, verdict.criteria) == (1.0, dict.fromkeys(CRITERIA, 1.0))


async def test_a_special_case_for_what_was_reported_is_no_fix(open_sandbox: OpenSandbox) -> None:
    task = task_of("")
    (args, want), (again, want_again) = task.truth["calls"]["public_tests"]
    text = task.files[task.truth["path"]] + f"\n\nresults = [({args}, {want!r}), ({again}, {want_again!r})]\n"
    text += f"wrong = {task.truth['function']}\n\n\ndef {task.truth['function']}(*args):\n"
    text += "    return dict((str(a), w) for a, w in results).get(str(list(args))) or wrong(*args)\n"
    verdict = await with_module(open_sandbox, task, text)
    assert verdict.criteria["public_tests"] == 1.0
    assert verdict.score == 0.0
    assert verdict.feedback.startswith("Rejected: other calls of ")


async def test_nothing_done_and_prose_are_worth_nothing(open_sandbox: OpenSandbox) -> None:
    verdict = await judged(open_sandbox, task_of(""), answer="It is fixed, all tests pass.")
    assert verdict.score == 0.0
    assert verdict.feedback == "Rejected: what was reported is still wrong."


@pytest.mark.parametrize(
    "tampering",
    [
        "echo >> tests/test_{component}.py",
        "rm tests/test_{component}.py",
        "echo '- a fix' >> CHANGELOG.md",
        "mv README.md b && ln -s b README.md",
        "echo 'titled = str.title' >> {package}/common.py",
    ],
)
async def test_a_touched_file_scores_nothing(open_sandbox: OpenSandbox, tampering: str) -> None:
    task = task_of("ceil")
    package, component = task.truth["path"].removesuffix(".py").split("/")
    command = tampering.format(package=package, component=component)
    verdict = await judged(open_sandbox, task, *SUITE.oracle(task), command)
    assert (verdict.score, failed(verdict)) == (0.0, {"others_untouched"})
    assert "must stay as it was" in verdict.feedback


@pytest.mark.parametrize(
    "tampering",
    ["mv {path} b.py && ln -s $PWD/b.py {path}", "rm {path}", "rm {path} && mkdir {path}", "rm {path}; mkfifo {path}"],
)
async def test_what_is_no_plain_file_is_no_module(open_sandbox: OpenSandbox, tampering: str) -> None:
    task = task_of("ceil")
    verdict = await judged(open_sandbox, task, *SUITE.oracle(task), tampering.format(path=task.truth["path"]))
    assert verdict.score == 0.0
    assert verdict.criteria["module_present"] == 0.0
    assert "is missing, too long, or no plain file" in verdict.feedback


@pytest.mark.parametrize(
    "planted",
    [
        "for name in json importlib base64 os sitecustomize usercustomize unittest; do echo 1/0 > $name.py; done",
        "mkdir -p .local/lib/python3.11/site-packages && cd $_ && echo 'import os; os._exit(0)' > usercustomize.py",
        "export PYTHONPATH=$PWD PYTHONSTARTUP=x.py PYTHONHOME=/nowhere; python3() { false; }; export -f python3",
        "mkdir bin; printf '#!/bin/sh\\nexit 0\\n' > bin/python3; chmod +x bin/python3; export PATH=$PWD/bin:$PATH",
    ],
)
async def test_what_lies_about_reaches_no_verdict(open_sandbox: OpenSandbox, planted: str) -> None:
    task = task_of("ceil")
    assert (await judged(open_sandbox, task, *SUITE.oracle(task), planted)).score == 1.0
    assert (await judged(open_sandbox, task, *SUITE.naive(task), planted)).score == 0.0


def forgery(answer: Sequence[object]) -> str:
    """Writes `answer` to every open descriptor, as if the driver had, and goes."""
    return (
        "import os\nfor fd in range(256):\n    try:\n"
        f"        os.write(fd, {json.dumps(answer).encode()!r})\n"
        "    except OSError:\n        pass\nos._exit(0)\n"
    )


FORGED = {
    "exits": "import sys\nsys.exit(0)\n",
    "exits hard": "import os\nos._exit(0)\n",
    "exits later": "import atexit, os\natexit.register(os._exit, 0)\n",
    "answers nothing": forgery([[]] * 18),
    "answers too little": forgery([[1]]),
    "answers no JSON": forgery([]),
    "answers true": forgery([[True]] * 18),
    "nested": "import os\nos.write(3, b'[' * 40000)\nos._exit(0)\n",
    "floods": "import os\nfor fd in (1, 2, 3):\n    os.write(fd, b'x' * 10 ** 6)\n",
    "patches": "import json, builtins\njson.dumps = lambda *a, **k: '[]'\nbuiltins.len = lambda x: 0\n",
    "equals all": "class Any(int):\n    __eq__ = lambda *a: True\n    __hash__ = int.__hash__\n",
    "kills": "import os\nos.kill(os.getppid(), 9)\n",
    "does not parse": "def\n",
    "does not decode": "# coding: no-such-coding\n",
    "recurses": "f = lambda: f()\nf()\n",
}


@pytest.mark.parametrize("trick", FORGED)
async def test_code_that_does_not_know_the_results_cannot_forge_them(open_sandbox: OpenSandbox, trick: str) -> None:
    task = task_of("ceil")
    verdict = await with_module(open_sandbox, task, FORGED[trick] + task.files[task.truth["path"]])
    assert (verdict.score, verdict.success) == (0.0, False)
    assert verdict.criteria["convention"] == 0.0


@pytest.mark.parametrize("harmless", ["print('x' * 10 ** 6)\n", "import json, os, sys\n", "# coding: utf-8 \u00e9\n"])
async def test_a_right_module_may_print_and_import(open_sandbox: OpenSandbox, harmless: str) -> None:
    task = task_of("ceil")
    assert (await with_module(open_sandbox, task, harmless + fixed(task))).success


async def test_a_right_module_may_use_what_it_shares_with_others(open_sandbox: OpenSandbox) -> None:
    task = task_of("ceil")
    package = task.truth["path"].split("/")[0]
    assert (await with_module(open_sandbox, task, fixed(task) + f"\n\nfrom {package} import common\n")).success
    changed = await judged(open_sandbox, task, *SUITE.oracle(task), f"echo 1/0 >> {package}/common.py")
    assert failed(changed) == {"others_untouched"}


async def test_an_endless_loop_ends(open_sandbox: OpenSandbox) -> None:
    task = task_of("ceil")
    impatient = RepairSuite(seconds=0.5)
    verdict = await with_module(open_sandbox, task, fixed(task) + "\n\nwhile True:\n    pass\n", impatient)
    assert (verdict.score, verdict.criteria["public_tests"]) == (0.0, 0.0)
    assert "does not run, or does not end" in verdict.feedback


@pytest.mark.parametrize(("extra", "success"), [(16, True), (30, False)])
async def test_a_fix_is_small(open_sandbox: OpenSandbox, extra: int, success: bool) -> None:
    task = task_of("ceil")
    verdict = await with_module(open_sandbox, task, fixed(task) + "# really\n" * extra)
    assert verdict.success is success
    assert verdict.criteria["small_diff"] == float(success)


async def test_a_huge_module_is_not_run(open_sandbox: OpenSandbox) -> None:
    task = task_of("ceil")
    verdict = await with_module(open_sandbox, task, fixed(task) + "#" * 20_000)
    assert (verdict.score, verdict.criteria["module_present"]) == (0.0, 0.0)


async def test_a_tuple_is_no_list(open_sandbox: OpenSandbox) -> None:
    task = task_of("wrap")
    text = fixed(task).replace("return items[first - 1 : last]", "return tuple(items[first - 1 : last])")
    assert (await with_module(open_sandbox, task, text)).criteria["public_tests"] == 0.0


async def test_judging_leaves_nothing_behind(open_sandbox: OpenSandbox) -> None:
    task = task_of("ceil")
    async with open_sandbox() as sandbox:
        await lay_out(sandbox, task)
        before = await sandbox.exec("ls -lR")
        await SUITE.verify(task, sandbox, None)
        assert await sandbox.exec("ls -lR") == before


@pytest.mark.parametrize("split", SUITE.splits)
async def test_repair_proves_itself(open_sandbox: OpenSandbox, split: str) -> None:
    report = await check_suite(SUITE, split=split, count=1, seed=1, world=0, open_sandbox=open_sandbox)
    assert report.failures == ()
    assert {row.oracle for row in report.rows} == {1.0}
    assert {row.noop for row in report.rows} == {0.0}
