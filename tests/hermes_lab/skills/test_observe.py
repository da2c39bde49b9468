"""Observation: what an episode is worth learning from, from its record alone."""

import json
from collections.abc import Sequence

import pytest

from hermes_lab.config.schema import SkillsConfig
from hermes_lab.skills.learning.observe import Done, done, is_of_a_class, observe
from hermes_lab.types import Message, ToolCall, ToolResult, Trajectory, Verdict

CONFIG = SkillsConfig()
GOOD, BAD = Verdict(1.0, True), Verdict(0.0, False)
Turn = tuple[str, dict[str, str], dict[str, object]]


def ran(command: str, exit_code: int = 0) -> Turn:
    return "terminal", {"command": command}, {"output": "", "exit_code": exit_code}


def trajectory(*turns: Turn | list[Turn], prompt: str = "Go.", final: str | None = "Done.") -> Trajectory:
    messages = [Message("system", "You work."), Message("user", prompt)]
    for turn in turns:
        together = turn if isinstance(turn, list) else [turn]
        calls = [ToolCall(f"c{n}", name, dict(arguments)) for n, (name, arguments, _) in enumerate(together)]
        messages.append(Message("assistant", tool_calls=tuple(calls)))
        for call, (_, _, answer) in zip(calls, together, strict=True):
            executed = "refused" not in answer
            ok = executed and "error" not in answer
            result = ToolResult(call.id, call.name, json.dumps(answer), ok=ok, executed=executed)
            messages.append(Message("tool", result.content, results=(result,), tool_call_id=call.id))
    messages.append(Message("assistant", final or ""))
    return Trajectory(tuple(messages), (), "native", "answered", final_response=final)


def test_success_is_that_the_work_was_accepted_in_the_end() -> None:
    assert observe(trajectory(), [BAD, GOOD], CONFIG).success
    assert not observe(trajectory(), [BAD, BAD], CONFIG).success


def test_unjudged_work_succeeded_when_it_was_delivered() -> None:
    assert observe(trajectory(), [], CONFIG).success
    assert not observe(trajectory(final=None), [], CONFIG).success


def test_tools_that_answered_are_counted_once_and_failures_are_not() -> None:
    found = observe(
        trajectory(ran("ls"), ran("ls"), ("read_file", {"path": "a"}, {"text": ""}), ("patch", {}, {"error": "no"})),
        [],
        CONFIG,
    )
    assert found.tools == 2


@pytest.mark.parametrize(
    ("turns", "verdicts", "recovered"),
    [
        ([ran("false", 1), ran("true")], [GOOD], True),
        ([("patch", {}, {"error": "not found"}), ran("sed")], [GOOD], True),
        ([ran("true")], [BAD, GOOD], True),
        ([ran("true")], [GOOD], False),
        ([ran("true"), ran("false", 1)], [GOOD], False),  # nothing worked after it
        ([("nonsense", {}, {"refused": 1, "error": "unknown"}), ran("true")], [GOOD], False),  # never executed
        ([ran("false", 1), ran("true")], [BAD], False),
    ],
)
def test_recovery_is_trouble_that_later_work_overcame(
    turns: Sequence[Turn], verdicts: list[Verdict], recovered: bool
) -> None:
    assert observe(trajectory(*turns), verdicts, CONFIG).recovered is recovered


CLASS_WORK = [ran("git bisect start HEAD v1.0"), ran("git bisect run pytest -q --exitfirst", 1), ran("git bisect log")]


def test_the_learning_value_is_the_sum_of_its_parts() -> None:
    other = [("read_file", {"path": "a"}, {}), ("search_files", {"pattern": "x"}, {})]
    assert observe(trajectory(*CLASS_WORK, *other), [GOOD], CONFIG).value == 1.0
    assert observe(trajectory(*CLASS_WORK), [GOOD], CONFIG).value == 0.8
    assert observe(trajectory(), [GOOD], CONFIG).value == 0.4
    assert observe(trajectory(), [BAD], CONFIG).value == 0.0


def test_worth_needs_value_messages_and_success() -> None:
    long = [*CLASS_WORK, ran("git bisect reset")]
    assert observe(trajectory(*long), [GOOD], CONFIG).messages == 10
    assert observe(trajectory(*long), [GOOD], CONFIG).worth
    assert not observe(trajectory(*CLASS_WORK), [GOOD], CONFIG).worth
    assert not observe(trajectory(*long), [BAD], SkillsConfig(learn_value=0.0)).worth
    assert not observe(trajectory(*long), [GOOD], SkillsConfig(learn_value=0.9)).worth


def test_calls_meet_their_answers_though_ids_come_again() -> None:
    record = trajectory([ran("one"), ran("two", 1)], ran("three"))
    found = list(done(record.messages))
    assert [(each.turn, each.call.arguments["command"], each.failed) for each in found] == [
        (2, "one", False),
        (2, "two", True),
        (5, "three", False),
    ]


def test_in_the_text_format_one_turn_answers_all_calls() -> None:
    calls = (ToolCall("a", "x"), ToolCall("b", "y"))
    results = (ToolResult("a", "x", "{}"), ToolResult("b", "y", "{}"))
    found = list(done([Message("assistant", tool_calls=calls), Message("user", "<...>", results=results)]))
    assert [(each.call, each.result) for each in found] == list(zip(calls, results, strict=True))


@pytest.mark.parametrize("content", ["", "no JSON", '{"exit_code": "x"}', '{"exit_code": null}', '[{"exit_code": 3}]'])
def test_an_answer_that_tells_no_exit_code_is_no_failure(content: str) -> None:
    assert not Done(0, ToolCall("a", "x"), ToolResult("a", "x", content)).failed


def worked(prompt: str, *turns: Turn) -> bool:
    return is_of_a_class(prompt, list(done(trajectory(*turns, prompt=prompt).messages)))


def file(tool: str, path: str, content: str = "") -> Turn:
    return tool, {"path": path, "content": content}, {}


ONE_OFFS = [
    ("Rename draft.txt to final.txt.", ran("mv draft.txt final.txt")),
    ("What is 17 * 23?", ran("echo $((17 * 23))")),
    ("Write a poem about Anna's 40th birthday into poem.txt.", file("write_file", "poem.txt", "Forty candles glow")),
    ("Put the number 42 into answer.txt.", ran("echo 42 > answer.txt"), ran("cat answer.txt")),
    ("In config.yaml set port to 8081.", file("read_file", "config.yaml"), file("patch", "config.yaml", "port: 8081")),
    ("Tell me what notes.md says about 3 May.", file("read_file", "notes.md")),
    ("Download https://example.org/a.pdf to a.pdf", ran("curl -o a.pdf https://example.org/a.pdf")),
    ("Add 'Bob, 555-1234' to contacts.csv", ran("echo 'Bob, 555-1234' >> contacts.csv"), ran("tail -1 contacts.csv")),
    ("Delete the folder /tmp/old-2023.", ran("rm -r /tmp/old-2023"), ran("ls /tmp")),
    ("Put 'Dear Ms Weber' into letter.txt, read-only.", file("write_file", "letter.txt"), ran("chmod a-w letter.txt")),
]
PROCEDURES = [
    (
        "Make report.csv of last month's sales in sales.db.",
        ran("sqlite3 sales.db '.schema'"),
        ran("sqlite3 -header -csv sales.db 'select product, sum(revenue) from sales group by product' > report.csv"),
        ran("head report.csv"),
    ),
    (
        "The tests of app.py fail; mend them.",
        ran("python3 -m pytest -x -q", 1),
        file("read_file", "app.py"),
        file("patch", "app.py"),
        ran("python3 -m pytest -q"),
    ),
    ("Find which commit broke test_sum.", *CLASS_WORK),
    (
        "Convert all images below photos/ to JPEG of at most 1 MB.",
        ran("find photos/ -name '*.png' -exec mogrify -format jpg -define jpeg:extent=1MB {} +"),
        ran("du -sh photos/"),
    ),
    ("Why is my container killed?", ran("docker stats --no-stream"), ran("dmesg | grep -i oom")),
    ("Deploy the site.", ran("npm run build"), ran("rsync -av --delete dist/ web:/srv/www/")),
    (
        "Clean the data in raw.csv: drop duplicates, dates as ISO.",
        (
            "execute_code",
            {
                "code": "import pandas as pd\nframe = pd.read_csv('raw.csv').drop_duplicates()\n"
                "frame['date'] = pd.to_datetime(frame['date'], dayfirst=True)\nframe.to_csv('clean.csv', index=False)"
            },
            {},
        ),
        ran("wc -l clean.csv raw.csv"),
    ),
    (
        "Release version 1.4.0.",
        ran("git log --oneline v1.3.0..HEAD"),
        file("patch", "CHANGELOG.md"),
        ran("git tag -a v1.4.0 -m 1.4.0"),
        ran("git push --follow-tags"),
    ),
    (
        "Where do we use the old API?",
        ("search_files", {"pattern": "old_api", "path": "."}, {}),
        file("read_file", "a.py"),
        file("read_file", "b.py"),
    ),
    ("Install the project.", ran("python3 -m venv .venv"), ran(".venv/bin/pip install -e '.[dev]'")),
]
MISSED = {
    "Delete the folder /tmp/old-2023.",
    "Put 'Dear Ms Weber' into letter.txt, read-only.",
    "Where do we use the old API?",
}
"""What the proxy gets wrong of these twenty, on which its bounds were chosen: docs/learning.md tells the figures."""


def test_the_proxy_tells_one_offs_from_procedures_as_well_as_the_documentation_says() -> None:
    wrong = {prompt for prompt, *turns in ONE_OFFS if worked(prompt, *turns)}
    wrong |= {prompt for prompt, *turns in PROCEDURES if not worked(prompt, *turns)}
    assert (len(ONE_OFFS), len(PROCEDURES), wrong) == (10, 10, MISSED)


def test_an_option_that_the_prompt_did_not_name_makes_a_command_a_procedure() -> None:
    prompt = "Total cleaning.csv with ./ledger."
    assert worked(prompt, ran("./ledger sum cleaning.csv --out answer.json --skip refunds"))
    assert not worked(prompt, ran("./ledger sum cleaning.csv --out answer.json"))
