"""`hermes-lab tasks`, as a person runs it."""

import json
import stat
import subprocess
from pathlib import Path

import pytest
from fakes.command import lab

from hermes_lab.config.schema import SuiteConfig
from hermes_lab.runners.commands.suites_check import collapsed
from hermes_lab.skills.library import Library
from hermes_lab.tasks.jsonl import JsonlSuite
from hermes_lab.tasks.registry import domains, load_family, load_suite
from hermes_lab.tasks.subtasks import subtasks_of


def tasks(*args: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = lab("tasks", *args)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def test_list_names_every_family_under_its_domain_with_its_summary() -> None:
    shown = tasks("list").stdout
    listed = json.loads(tasks("list", "--json").stdout)
    for domain, families in domains().items():
        assert f"\n{domain}\n" in f"\n{shown}"
        for family in families:
            summary = load_family(family).summary
            assert f"{family:<20} {summary}" in shown
            assert {"name": family, "summary": summary} in listed["domains"][domain]


def test_show_tells_one_task_in_full_and_marks_the_spoiler() -> None:
    shown = tasks("show", "ledger").stdout
    task = load_suite(SuiteConfig(name="ledger")).load(split="train", count=1, seed=0, world=0)[0]
    site = subtasks_of(task.truth)[0].site
    export = next(text for path, text in task.files.items() if path.endswith(".csv"))
    for part in (task.prompt, export.splitlines()[5], site.drawn.instruction, "Hidden rule (a spoiler)"):
        assert part in shown
    assert shown.startswith(f"{task.id}  data_analysis  triggers: {task.triggers[0]}")
    assert "| criterion |" not in shown


def test_show_plays_with_the_server_that_a_suite_brings() -> None:
    assert "| **score** | **0** | **0** | **1** | |" in tasks("show", "tickets", "--play").stdout


def test_show_plays_another_task_of_another_world_with_other_knobs() -> None:
    asked = ("show", "ledger", "--task", "2", "--split", "heldout", "--world", "4", "-c", "suite.options.plain=0")
    shown = tasks(*asked, "--play").stdout
    assert shown.startswith("heldout-w4-s0-000002")
    assert "| correct | 0 | 0 | 1 | the total is wrong |" in shown
    assert "| **score** | **0** | **0** | **1** | |" in shown
    row = json.loads(tasks(*asked, "--json").stdout)
    assert row["id"] == "heldout-w4-s0-000002"
    assert row["metadata"]["triggers"]


def test_show_begins_with_a_task_that_triggers_a_rule_and_says_which() -> None:
    suite = load_suite(SuiteConfig(name="joins"))
    drawn = suite.load(split="train", count=10, seed=0, world=0)
    first = next(n for n, task in enumerate(drawn) if task.triggers)
    assert first > 0
    shown = tasks("show", "joins")
    assert shown.stdout.startswith(drawn[first].id)
    assert shown.stderr == f"task {first} is the first that triggers a rule; --task shows another\n"
    assert tasks("show", "joins", "--task", "0").stdout.startswith(drawn[0].id)


def test_sample_is_a_table_of_different_worlds_that_a_seed_repeats() -> None:
    first = tasks("sample", "ledger", "-n", "4", "--seed", "7").stdout
    assert first == tasks("sample", "ledger", "-n", "4", "--seed", "7").stdout
    assert first != tasks("sample", "ledger", "-n", "4", "--seed", "8").stdout
    lines = first.splitlines()
    assert lines[0].split() == ["TASK", "FAMILY", "TRIGGERS", "PROMPT"]
    assert len({line.split("-")[1] for line in lines[1:]}) == 4
    one_world = tasks("sample", "ledger", "-n", "4", "--world", "3").stdout.splitlines()[1:]
    assert {line.split("-")[1] for line in one_world} == {"w3"}


def test_sampled_rows_are_a_jsonl_suite_that_only_lacks_its_judge(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    tasks("sample", "dropins", "-n", "3", "-o", rows)
    loaded = JsonlSuite(rows).load(split="train", count=0, seed=0, world=0)
    assert len(loaded) == 3
    assert all(task.files or task.setup for task in loaded)
    assert all("triggers" in task.metadata for task in loaded)
    again = tasks("sample", "dropins", "-n", "3", "-o", rows, code=2)
    assert f"--out: {rows} already exists; --force overwrites it" in again.stderr
    tasks("sample", "dropins", "-n", "3", "-o", rows, "--force")
    refused = tasks("check", rows, code=1)
    assert "3 rows, 3 refused" in refused.stdout
    assert f"{rows}:1: is vague: nothing can judge it" in refused.stderr
    assert json.loads(tasks("check", rows, "--json", "-n", "2", code=1).stdout)["rows"] == 2


def test_a_workspace_is_laid_out_as_the_agent_finds_it(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(
        json.dumps(
            {
                "prompt": "Look.",
                "files": {"run": "#!/bin/sh\n", "a/b.txt": "text\n"},
                "setup": ["ln -s a/b.txt link", "chmod 664 a/b.txt"],
            }
        )
    )
    folder = tmp_path / "new" / "try"
    shown = tasks("sample", tmp_path / "rows.jsonl", "--workspace", folder)
    assert shown.stdout == "Look.\n"
    assert (folder / "a" / "b.txt").read_text() == "text\n"
    assert stat.S_IMODE((folder / "a" / "b.txt").stat().st_mode) == 0o664
    assert (folder / "link").readlink() == Path("a/b.txt")
    assert (folder / "run").stat().st_mode & stat.S_IXUSR
    assert {path.name for path in folder.iterdir()} == {"run", "a", "link"}
    assert shown.stderr.endswith("rows.jsonl --split train --seed 0 --world 0 --task 0\n")
    again = tasks("sample", "ledger", "--workspace", folder, code=2)
    assert f"--workspace: {folder} already exists" in again.stderr


def test_a_workspace_comes_with_the_command_that_shows_its_task(tmp_path: Path) -> None:
    knob = ("-c", "suite.options.plain=1")
    laid = tasks("sample", "notices", "--seed", "3", *knob, "--workspace", tmp_path / "try")
    pages, where = laid.stderr.splitlines()
    assert pages.endswith(" pages that an agent could search")
    task_id, _, command = where.partition(" is in ")
    shown = tasks(*command.partition("hermes-lab tasks ")[2].split())
    assert shown.stdout.startswith(f"{task_id}  ")
    assert laid.stdout.strip() in shown.stdout


def test_rules_are_skills_that_a_run_can_begin_with(tmp_path: Path) -> None:
    tasks("rules", "ledger", "--world", "3", "-o", tmp_path / "skills")
    suite = load_suite(SuiteConfig(name="ledger"))
    known = suite.known_skills(split="train", world=3)  # type: ignore[attr-defined]
    assert Library.load(tmp_path / "skills").snapshot == known.snapshot
    tasks("rules", "ledger", "-o", tmp_path / "skills", code=2)


def test_check_proves_a_suite_and_prints_its_figures() -> None:
    done = tasks("check", "ledger", "-n", "2", "--split", "heldout", "--quiet")
    first, second, third, *marks = done.stdout.splitlines()
    assert first.startswith("ledger (heldout): 2 tasks, no problems; oracle minus naive: ")
    assert "ledger: oracle 1.00, no-op 0.00, naive " in second
    assert "ms per verification" in second
    assert "tasks/s" in third
    assert [mark.split(":")[0].rpartition(" ")[0] for mark in marks] == [
        "repeatability",
        "clarity",
        "tool diversity",
        "error scenarios",
    ]
    assert done.stderr == ""


def test_check_gives_one_json_object() -> None:
    done = tasks("check", "ledger", "-n", "1", "--world", "2", "--json", "-c", "suite.options.plain=0")
    found = json.loads(done.stdout)
    assert found["failures"] == []
    assert [each["split"] for each in found["splits"]] == ["train", "validation", "heldout"]
    (family,) = found["splits"][0]["families"]
    assert (family["family"], family["oracle"], family["naive"]) == ("ledger", 1.0, 0.0)
    assert family["headroom"]["points"] == 100.0
    assert set(found["rubric"]) == {"repeatability", "clarity", "tool_diversity", "error_scenarios"}


def test_the_rubric_of_a_run_is_counted_from_its_episodes(tmp_path: Path) -> None:
    run = ("run", "-c", "suite.name=ledger", "-c", "suite.count=2", "-c", "run.samples=2", "--quiet", "--out")
    model = ("-c", "model.provider=scripted", "-c", "model.name=hermes_lab.tasks.learner:noop")
    folder = tmp_path / "run"
    assert lab(*run, folder, *model).returncode == 0
    done = tasks("check", "--runs", folder)
    assert "repeatability 1.00: 2 of 2 pairs of samples agree" in done.stdout
    assert "tool diversity 0.00: no tool is needed" in done.stdout
    assert "no episode was judged" in tasks("check", "repair", "--runs", folder, code=2).stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("show", "ledgr"), "suite.name: no suite 'ledgr'; did you mean ledger?; there are: "),
        (
            ("show", "ledger", "-c", "suite.options.rulled=3"),
            "option 'rulled'; did you mean ruled?; there are: ruled, ",
        ),
        (("show", "ledger", "--split", "test"), "--split: ledger has no split 'test'; choose from train, validation"),
        (("check", "ledger", "--split", "test"), "--split: ledger has no split 'test'"),
        (("show", "ledger", "-c", "suite.options.pieces=9"), "suite.options.pieces: 9 per task, but only 7 sites"),
        (("show", "ledger", "-c", "suite.name=repair"), "suite: given as the argument"),
        (("show", "none.jsonl"), "suite.path: none.jsonl cannot be read"),
        (("check",), "give a suite, module:Class of your own, a JSONL file"),
        (("check", "--runs", "nowhere"), "--runs: nowhere: no run here"),
    ],
)
def test_a_mistake_is_one_line_on_stderr(args: tuple[str, ...], message: str) -> None:
    done = tasks(*args, code=2)
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_a_task_beyond_the_end_of_a_file_names_the_option(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"prompt": "Go."}\n')
    refused = tasks("show", tmp_path / "rows.jsonl", "--task", "99", code=2).stderr
    assert "--task: 100 tasks requested, but " in refused
    assert "has 1; the first is task 0" in refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--split", "nonsense"), "--split: rows has no split 'nonsense'; choose from train"),
        (("--seed", "3"), "--seed: rows.ndjson is checked in its own order; leave the option out"),
        (("--world", "1"), "--world: rows.ndjson is checked in its own order; leave the option out"),
        ((), ""),
        (("--split", "train"), ""),
    ],
)
def test_check_of_a_file_refuses_options_that_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    row = {"prompt": "Sort a in place.", "files": {"a": "b\na\n"}, "verify": "sort -c a"}
    (tmp_path / "rows.ndjson").write_text(json.dumps(row))
    done = tasks("check", "rows.ndjson", *options, code=2 if message else 0)
    assert message in done.stderr


def test_play_needs_an_oracle(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"prompt": "Go."}\n')
    assert "--play: not available, since" in tasks("show", tmp_path / "rows.jsonl", "--play", code=2).stderr
    assert "> Go." in tasks("show", tmp_path / "rows.jsonl").stdout


@pytest.mark.parametrize(("at", "told"), [(1, True), (2, False), (0, False)])
def test_a_fit_says_that_the_rules_change_within_the_run(tmp_path: Path, at: int, told: bool) -> None:
    options = ("-c", "learning.arms=[on]", "-c", "learning.rounds=2", "-c", f"suite.options.drift_at={at}", "--quiet")
    assert lab("experiment", "-c", "configs/one-rule.yaml", *options, "--out", tmp_path / "run").returncode == 0
    fitted = lab("fit", tmp_path / "run", "--draws", "0")
    assert fitted.returncode == 0, fitted.stderr
    assert (f"the rules change at task {at}, so a single curve does not describe this run" in fitted.stdout) == told


@pytest.mark.parametrize("command", ["list", "show", "sample", "rules", "check"])
def test_help_has_an_example_that_begins_as_a_person_types_it(command: str) -> None:
    assert f"hermes-lab tasks {command}" in " ".join(tasks(command, "--help").stdout.split())


def test_a_fault_that_repeats_is_one_line_with_the_places(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"prompt": "ping me", "verify": "true"}\n' * 6 + '{"prompt": "Write the answer to a.txt."}\n')
    done = tasks("check", file, code=1)
    assert "7 refused" in done.stdout
    assert done.stderr.splitlines() == [
        f"{file}:1: is vague: its prompt has fewer than 4 words; say what to do with what "
        f"(the same in {file}:2, {file}:3, {file}:4, and 2 more)",
        f"{file}:7: is vague: nothing can judge it; give `verify`, `expected_output` or `judge`",
    ]
    assert list(collapsed(["no rule", "no rule", "t: bad", "u: bad"])) == [
        "no rule (2 times)",
        "t: bad (the same in u)",
    ]
