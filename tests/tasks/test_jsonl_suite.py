import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes_lab.errors import ConfigError, VerifierError
from hermes_lab.protocols import Sandbox
from hermes_lab.rollout import setup_workspace
from hermes_lab.tasks.jsonl import JsonlSuite
from hermes_lab.tasks.jsonl_check import check_rows
from hermes_lab.types import Page, Task, Verdict

OpenSandbox = Callable[[], Sandbox]


def suite_of(tmp_path: Path, *rows: Any) -> JsonlSuite:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return JsonlSuite(path)


def load(suite: JsonlSuite, count: int = 0, seed: int = 0, split: str = "train") -> list[Task]:
    return suite.load(split=split, count=count, seed=seed, world=0)


async def judged(
    open_sandbox: OpenSandbox,
    tmp_path: Path,
    row: dict[str, Any],
    answer: str | None = None,
    work: str = "true",
) -> Verdict | None:
    suite = suite_of(tmp_path, {"prompt": "p", **row})
    async with open_sandbox() as sandbox:
        await sandbox.exec(work)
        return await suite.verify(load(suite)[0], sandbox, answer)


def test_a_prompt_alone_is_a_task(tmp_path: Path) -> None:
    (task,) = load(suite_of(tmp_path, {"prompt": "Say hello."}))
    assert (task.id, task.suite, task.prompt, task.domain) == (
        "row-000001",
        "rows",
        "Say hello.",
        "open_ended",
    )


def test_ids_are_line_numbers_and_blank_lines_are_skipped(tmp_path: Path) -> None:
    tasks = load(suite_of(tmp_path, {"prompt": "a"}, "", "  ", {"prompt": "b"}, {"prompt": "c", "id": "mine"}))
    assert [task.id for task in tasks] == ["row-000001", "row-000004", "mine"]


def test_a_byte_order_mark_in_front_of_any_line_is_left_out(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, '\ufeff{"prompt": "one"}', '\ufeff{"prompt": "two\u2028three"}')
    assert [task.prompt for task in load(suite)] == ["one", "two\u2028three"]


def test_files_domain_and_metadata_pass_through(tmp_path: Path) -> None:
    row = {
        "prompt": "p",
        "files": {"a/b.txt": "x", "c": ""},
        "domain": "web_research",
        "metadata": {"k": [1]},
    }
    (task,) = load(suite_of(tmp_path, row))
    assert (task.files, task.domain, task.metadata) == (row["files"], row["domain"], row["metadata"])


def test_setup_and_pages_pass_through(tmp_path: Path) -> None:
    page = {"url": "https://a.example/", "title": "A", "text": "b"}
    one, many = load(
        suite_of(tmp_path, {"prompt": "p", "setup": "mkdir a"}, {"prompt": "p", "setup": ["a", "b"], "pages": [page]})
    )
    assert (one.setup, one.pages) == (("mkdir a",), ())
    assert many.setup == ("a", "b")
    assert many.pages == (Page(url="https://a.example/", title="A", text="b"),)


def test_seed_zero_keeps_the_order_and_others_shuffle(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, *({"prompt": str(n)} for n in range(30)))
    in_order = [task.prompt for task in load(suite)]
    assert in_order == [str(n) for n in range(30)]
    assert [task.prompt for task in load(suite, count=2)] == ["0", "1"]
    shuffled = load(suite, seed=1)
    assert shuffled == load(suite, seed=1) != load(suite, seed=2)
    assert sorted(task.prompt for task in shuffled) == sorted(in_order)


def test_more_tasks_than_rows_or_another_split_is_refused(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, {"prompt": "a"})
    with pytest.raises(ConfigError, match=r"suite\.count: 2 tasks requested, but .*rows\.jsonl has 1"):
        load(suite, count=2)
    with pytest.raises(ConfigError, match=r"suite\.split: .*'train', not 'test'"):
        load(suite, split="test")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{", ":2: not JSON: "),
        ("[]", ":2: expected `object`, got `array`; a row is an object with the fields prompt, id"),
        ({}, ":2: object missing required field `prompt`; "),
        ({"prompt": 1}, ":2: field prompt: expected `str`, got `int`"),
        ({"prompt": " "}, ":2: field prompt: is empty"),
        ({"prompt": "p", "expected_output": ""}, ":2: field expected_output: is empty"),
        ({"prompt": "p", "expected_output": " \n"}, ":2: field expected_output: is empty"),
        (
            {"prompt": "p", "promt": ""},
            ":2: object contains unknown field `promt`; a row is an object with the fields",
        ),
        ({"prompt": "p", "id": 3}, ":2: field id: expected `str`, got `int`"),
        ({"prompt": "p", "id": "a|b"}, ":2: field id: 'a|b' contains"),
        ({"prompt": "p", "id": "a/b"}, ":2: field id: 'a/b' contains"),
        ({"prompt": "p", "id": "first"}, ":2: field id: 'first' is also line 1; ids are unique"),
        ({"prompt": "p", "files": {"a": 1}}, ":2: field files[...]: expected `str`, got `int`"),
        ({"prompt": "p", "files": {"/a": ""}}, ":2: field files: '/a' is not a plain relative path"),
        ({"prompt": "p", "files": {"a/../../b": ""}}, ":2: field files: 'a/../../b' is not"),
        ({"prompt": "p", "files": {"..": ""}}, ":2: field files: '..' is not"),
        ({"prompt": "p", "files": {"": ""}}, ":2: field files: '' is not"),
        ({"prompt": "p", "files": {"a//b": ""}}, ":2: field files: 'a//b' is not"),
        ({"prompt": "p", "files": {"a/": ""}}, ":2: field files: 'a/' is not"),
        (
            {"prompt": "p", "files": {"a": "", "a/b": ""}},
            ":2: field files: 'a/b' is in a folder that is itself",
        ),
        ({"prompt": "p", "verify": 1}, ":2: field verify: expected `str | array | null`, got `int`"),
        ({"prompt": "p", "verify": ["true", ""]}, ":2: field verify: an empty command"),
        ({"prompt": "p", "verify": "a\0"}, ":2: field verify: a command contains a NUL"),
        ({"prompt": "p", "setup": ["mkdir a", " "]}, ":2: field setup: an empty command"),
        ({"prompt": "p", "setup": {}}, ":2: field setup: expected `str | array`, got `object`"),
        ({"prompt": "p", "pages": [{"url": "u"}]}, ":2: field pages[0]: object missing required field"),
        ({"prompt": "p", "metadata": []}, ":2: field metadata: expected `object`, got `array`"),
        ('{"prompt": "\\ud800"}', ":2: not JSON: "),
        ('{"prompt": "p", "metadata": {"a": ' + "[" * 20_000 + "]" * 20_000 + "}}", ":2: nested too deeply"),
        ('{"prompt": "p", "metadata": {"a": ' + "[" * 200 + "]" * 200 + "}}", ":2: field metadata: nested too deeply"),
    ],
)
def test_a_broken_row_is_named_by_file_line_and_field(tmp_path: Path, row: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape("rows.jsonl" + message)) as caught:
        suite_of(tmp_path, {"prompt": "p", "id": "first"}, row)
    assert "\n" not in str(caught.value)


def test_a_file_without_tasks_or_without_reading_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no tasks; write one"):
        suite_of(tmp_path, "")
    with pytest.raises(ConfigError, match=r"suite\.path: .*none\.jsonl cannot be read: No such file"):
        JsonlSuite(tmp_path / "none.jsonl")
    (tmp_path / "latin.jsonl").write_bytes(b'{"prompt": "\xe9"}')
    with pytest.raises(ConfigError, match=r"latin\.jsonl:1: not JSON"):
        JsonlSuite(tmp_path / "latin.jsonl")


@pytest.mark.anyio
async def test_a_row_without_a_yardstick_is_not_scored(open_sandbox: OpenSandbox, tmp_path: Path) -> None:
    assert await judged(open_sandbox, tmp_path, {}, "anything") is None


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("answer", "score"),
    [("42  apples", 1.0), (" 42\napples\n", 1.0), ("42 Apples", 0.0), ("It is 42 apples", 0.0), (None, 0.0)],
)
async def test_expected_output_is_exact_but_for_white_space(
    open_sandbox: OpenSandbox, tmp_path: Path, answer: str | None, score: float
) -> None:
    verdict = await judged(open_sandbox, tmp_path, {"expected_output": "42 apples"}, answer)
    assert verdict == Verdict(score=score, success=score == 1.0, criteria={"expected_output": score})


@pytest.mark.anyio
async def test_all_commands_and_the_expected_output_must_hold(open_sandbox: OpenSandbox, tmp_path: Path) -> None:
    row = {"expected_output": "done", "verify": ["test -f a", "grep -q 'it'\"'\"'s' a"]}
    good = await judged(open_sandbox, tmp_path, row, "done", work='echo "it\'s" > a')
    assert good == Verdict(score=1.0, success=True, criteria={"expected_output": 1.0, "verify_1": 1.0, "verify_2": 1.0})
    half = await judged(open_sandbox, tmp_path, row, "done", work="echo its > a")
    assert half is not None
    assert (half.score, half.criteria["verify_1"], half.criteria["verify_2"]) == (0.0, 1.0, 0.0)


@pytest.mark.anyio
async def test_the_agents_path_and_folder_do_not_reach_the_commands(open_sandbox: OpenSandbox, tmp_path: Path) -> None:
    work = "mkdir bin; printf '#!/bin/sh\n' > bin/check; chmod +x bin/check; export PATH=$PWD/bin:$PATH; cd /"
    verdict = await judged(open_sandbox, tmp_path, {"verify": ["test -x bin/check", "command -v check"]}, work=work)
    assert verdict is not None
    assert (verdict.criteria["verify_1"], verdict.criteria["verify_2"]) == (1.0, 0.0)


@pytest.mark.anyio
async def test_rows_that_are_no_tasks_are_refused_each_in_a_line(open_sandbox: OpenSandbox, tmp_path: Path) -> None:
    rows: list[tuple[dict[str, Any], str]] = [
        ({"prompt": "Sort a in place.", "files": {"a": "b\na\n"}, "verify": "sort -c a"}, ""),
        ({"prompt": "Make it better."}, "is vague: nothing can judge it"),
        ({"prompt": "What is France's capital?", "expected_output": "Paris"}, "is knowledge only: it can be answered"),
        ({"prompt": "Who is first in a?", "files": {"a": "Jo\n"}, "expected_output": "Jo"}, ""),
        ({"prompt": "How many files are there?", "setup": "touch a b", "expected_output": "2"}, ""),
        (
            {"prompt": "Make an empty a.", "files": {"a": ""}, "verify": "test -f a"},
            "passes as it stands: `verify` succeeds",
        ),
        ({"prompt": "Please go touch b.", "setup": "touch b", "verify": "test -f b"}, "passes as it stands"),
        (
            {"prompt": "Be lucky with x.", "files": {"a": ""}, "verify": ["mkdir x", "false"]},
            "is flaky: repeated verdicts",
        ),
        (
            {"prompt": "Try to make a.", "setup": "exit 3", "verify": "test -f a"},
            "cannot be set up: row-000009: setup command 'exit 3' failed with exit code 3: no output",
        ),
        (
            {"prompt": "Say how many, and leave a.", "files": {"a": ""}, "verify": "test -f a", "expected_output": "1"},
            "",
        ),
        (
            {"prompt": "Do it.", "files": {"a": ""}, "verify": "test -s a"},
            "is vague: its prompt has fewer than 4 words",
        ),
        (
            {"prompt": "Make it all better now.", "files": {"b": ""}, "verify": "grep -q ok out/report.txt"},
            "is vague: neither prompt nor files name what `verify` looks at: out/report.txt",
        ),
        ({"prompt": "Write the report into the folder out.", "verify": "grep -q ok out/report.txt"}, ""),
        ({"prompt": "Do as the README says.", "files": {"README": "Write r.md"}, "verify": "test -s r.md"}, ""),
        ({"prompt": "Mend the sum of two.", "files": {"m.py": "x"}, "verify": "python3 -c 'import m; m.f(2)'"}, ""),
        (
            {"prompt": "What is the capital of France?", "files": {"notes.txt": ""}, "expected_output": "Paris"},
            "is knowledge only: its prompt names none of its `files`",
        ),
    ]
    suite = suite_of(tmp_path, *(row for row, _ in rows))
    found = await check_rows(suite, open_sandbox)
    wanted = [(n, reason) for n, (_, reason) in enumerate(rows, 1) if reason]
    assert [line.partition("rows.jsonl:")[2].partition(":")[0] for line in found] == [str(n) for n, _ in wanted]
    for line, (_, reason) in zip(found, wanted, strict=True):
        assert f": {reason}" in line
        assert "\n" not in line
    assert len(await check_rows(suite, open_sandbox, count=2)) == 1


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("row", "why"),
    [
        (
            {"verify": "no-such-checker a"},
            "'no-such-checker a' cannot run (exit code 127): no-such-checker: command",
        ),
        ({"verify": ["true", "cd / && no-such-checker 2>&1"]}, "no-such-checker: command not found"),
        ({"verify": "timeout 5 no-such-checker a"}, "no-such-checker: command not found"),
        ({"verify": "no-such-checker a 2>/dev/null"}, "no-such-checker: command not found"),
        ({"verify": "exec no-such-checker"}, "no-such-checker: not found"),
        ({"verify": "/opt/no-such-checker a"}, "/opt/no-such-checker: No such file or directory"),
        ({"verify": "./check.sh", "files": {"check.sh": "exit 0\n"}}, "(exit code 126): ./check.sh: Permission denied"),
        ({"verify": "./chekc.sh", "files": {"check.sh": "#!/bin/sh\n"}}, "./chekc.sh: No such file or directory"),
    ],
)
async def test_a_command_that_cannot_run_is_the_verifiers_error(
    open_sandbox: OpenSandbox, tmp_path: Path, row: dict[str, Any], why: str
) -> None:
    suite = suite_of(tmp_path, {"prompt": "Do it, please.", **row})
    (task,) = load(suite)
    async with open_sandbox() as sandbox:
        await setup_workspace(task, sandbox)
        with pytest.raises(VerifierError, match=re.escape(why)) as caught:
            await suite.verify(task, sandbox, "done")
    assert str(caught.value).startswith(f"{tmp_path / 'rows.jsonl'}:1: verify command ")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("verify", "work"),
    [
        ("./solve.sh", "true"),  # what was asked for is not there
        ("./solve.sh", "echo true > solve.sh"),  # or not executable
        ("./solve.sh", "printf '#!/bin/sh\\nno-such-program\\n' > solve.sh; chmod +x solve.sh"),
        ("bash solve.sh", "echo no-such-program > solve.sh"),
        ("bash solve.sh", "echo 'echo bash: line 1: no-such: command not found; exit 127' > solve.sh"),
        ("python3 -c 'import sys; sys.exit(127)'", "true"),
    ],
)
async def test_what_the_agent_was_to_write_is_its_own_failure(
    open_sandbox: OpenSandbox, tmp_path: Path, verify: str, work: str
) -> None:
    row = {"prompt": "Write the program solve.sh.", "verify": verify}
    verdict = await judged(open_sandbox, tmp_path, row, "done", work)
    assert verdict == Verdict(score=0.0, success=False, criteria={"verify_1": 0.0})


def test_a_rubric_is_kept_for_the_judge_and_changes_no_other_row(tmp_path: Path) -> None:
    rows = {"prompt": "a"}, {"prompt": "b", "judge": "It is polite."}
    suite = suite_of(tmp_path, *rows)
    plain, judged_ = load(suite)
    assert [suite.judge_rubric(task) for task in (plain, judged_)] == ["", "It is polite."]
    assert plain.truth == {"expected_output": None, "verify": [], "line": 1}, "the digest of old runs' tasks"
    with pytest.raises(ConfigError, match=r"rows\.jsonl:1: field judge: is empty"):
        suite_of(tmp_path, {"prompt": "a", "judge": " "})


@pytest.mark.anyio
async def test_rows_with_a_rubric_are_checked_without_asking_the_judge(
    open_sandbox: OpenSandbox, tmp_path: Path
) -> None:
    given = {"prompt": "Sum up the notes in a.txt.", "files": {"a.txt": "x\n"}}
    suite = suite_of(
        tmp_path,
        given | {"judge": "It names every point of the notes."},
        given | {"judge": "It names every point of the notes.", "verify": "test -f a.txt"},
        given | {"judge": "Is good."},
        {"prompt": "Tell me a long story.", "judge": "It is a story of some length."},
        given | {"judge": "It names every point of the notes.", "verify": "no-such-checker a.txt"},
    )
    found = await check_rows(suite, open_sandbox)
    assert [line.partition("rows.jsonl:")[2] for line in found] == [
        "3: is vague: its rubric `judge` has fewer than 4 words; say what makes an answer right",
        "4: is knowledge only: it can be answered without a tool, and its answer alone is judged; give it `files`, "
        "or judge the workspace with `verify`",
        "5: cannot be judged: verify command 'no-such-checker a.txt' cannot run (exit code 127): "
        "no-such-checker: command not found",
    ]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"attempts": 0}, "field attempts: expected `int` >= 1"),
        ({"attempts": "2"}, "field attempts: expected `int`, got `str`"),
        ({"feedback": 1}, "field feedback: expected `bool`"),
        ({"attempts": 2}, "field attempts: needs `feedback`: true"),
        ({"attempts": 2, "feedback": True}, "field feedback: needs a `verify` command"),
        ({"feedback": True, "verify": "false"}, "field feedback: needs `attempts` of at least 2"),
    ],
)
def test_attempts_and_feedback_go_together(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=rf"rows\.jsonl:1: {re.escape(message)}"):
        suite_of(tmp_path, {"prompt": "p", **row})


@pytest.mark.anyio
async def test_feedback_is_the_standard_output_of_what_failed(open_sandbox: OpenSandbox, tmp_path: Path) -> None:
    row = {"attempts": 2, "feedback": True}

    async def said(*commands: str) -> str:
        verdict = await judged(open_sandbox, tmp_path, {**row, "verify": list(commands)})
        assert verdict is not None
        return verdict.feedback

    assert await said("echo one; false", "echo two", "echo three; ls nowhere") == "one\nthree"
    assert await said("false") == "Rejected."
    assert await said("echo fine") == ""
    assert len(await said("yes | head -n 100000; false")) < 2200
    with pytest.raises(VerifierError, match="cannot run"):
        await said("nothing-like-it")


def test_rows_without_feedback_are_the_tasks_that_they_were(tmp_path: Path) -> None:
    (task,) = load(suite_of(tmp_path, {"prompt": "p", "verify": "true"}))
    assert task.truth == {"expected_output": None, "verify": ["true"], "line": 1}
    assert b"attempts" not in msgspec.json.encode(task)


def test_nulls_of_a_table_are_fields_and_files_that_are_not_there(tmp_path: Path) -> None:
    plain = {"prompt": "p", "files": {"a": "1"}}
    nulls = dict.fromkeys(("id", "expected_output", "setup", "pages", "verify", "judge", "attempts", "feedback"))
    table = {**nulls, **dict.fromkeys(("domain", "metadata")), "prompt": "p", "files": {"a": "1", "b": None}}
    (tmp_path / "one").mkdir()
    assert load(suite_of(tmp_path, table)) == load(suite_of(tmp_path / "one", plain))
    (task,) = load(suite_of(tmp_path, {"prompt": "p", "files": None, "metadata": {"kept": None}}))
    assert (task.files, task.metadata) == ({}, {"kept": None})
    with pytest.raises(ConfigError, match=r"rows\.jsonl:1: object missing required field `prompt`"):
        suite_of(tmp_path, {"prompt": None})
