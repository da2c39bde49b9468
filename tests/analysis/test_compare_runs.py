"""Two plain runs of one suite: what differs between them, what only one of them has, and one set of figures."""

import html
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from synthetic_episodes import make_episode
from typer.testing import CliRunner

from hermes_lab.analysis.comparison.compare import compare_runs
from hermes_lab.analysis.comparison.verdict import verdict
from hermes_lab.analysis.report.page import write_report
from hermes_lab.analysis.summaries.summary import summarize
from hermes_lab.errors import ConfigError
from hermes_lab.runners.cli import app
from hermes_lab.types import Episode, Message, ModelIdentity

WriteRun = Callable[..., Path]


def solving(count: int, tasks: int = 40, *, model: str = "model-a", **changes: Any) -> list[Episode]:
    """Tasks of which the first `count` are solved."""
    one = ModelIdentity("openai", model)
    return [make_episode(task < count, task=task, model=one, **changes) for task in range(tasks)]


def prompted(episodes: list[Episode], text: str) -> list[Episode]:
    def said(episode: Episode) -> Episode:
        messages = (Message("system", "Skills: none."), Message("user", f"{text} {episode.task_id}"))
        return msgspec.structs.replace(
            episode, trajectory=msgspec.structs.replace(episode.trajectory, messages=messages)
        )

    return [said(episode) for episode in episodes]


def test_two_models_are_named_and_not_called_new_weights(write_run: WriteRun) -> None:
    def run(model: str, solved: int, temperature: float) -> Path:
        fields = {"model": {"name": model, "sampling": {"temperature": temperature}}}
        return write_run(solving(solved, model=model), model, command="run", config=fields)

    a, b = run("small", 10, 0.0), run("large", 30, 0.7)
    found = verdict(a, b)
    assert found.question == "runs"
    assert found.sentence.startswith(
        f"{b} vs {a} (model.name: small -> large; model.sampling.temperature: 0.0 -> 0.7): better by +50 points"
    )
    assert "  the runs differ in model.name: small -> large" in str(found)
    assert found.comparison is not None
    assert found.comparison.to_dict()["differences"][0] == {
        "field": "model.name", "before": "small", "after": "large"
    }  # fmt: skip


def test_other_prompts_are_named_in_the_verdict(write_run: WriteRun) -> None:
    a = write_run(solving(10), "a", command="run")
    b = write_run(solving(30), "b", command="run", prompts="2")
    assert verdict(a, b).sentence.startswith(f"{b} vs {a} (prompts: 1 -> 2): ")
    assert "prompts:" not in verdict(a, write_run(solving(20), "c", command="run", prompts="1")).sentence


def test_other_prompts_of_tasks_are_refused_with_the_versions(write_run: WriteRun) -> None:
    a = write_run(prompted(solving(10), "Do"), "a", command="run")
    b = write_run(prompted(solving(10), "Please do"), "b", command="run", prompts="2")
    with pytest.raises(ConfigError, match=r"another prompt \(versions 1 and 2 of the prompts\), such as "):
        compare_runs(a, b)


def test_an_adapter_alone_is_new_weights(write_run: WriteRun) -> None:
    def run(adapter: str, solved: int, **agent: Any) -> Path:
        fields = {"model": {"name": "m", "adapter": adapter}, "agent": agent}
        one = ModelIdentity("vllm", "m", adapter=adapter, adapter_digest=adapter)
        done = [make_episode(task < solved, task=task, model=one) for task in range(40)]
        return write_run(done, adapter + "".join(agent), config=fields)

    first = run("v1", 10)
    assert verdict(first, run("v2", 30)).sentence.startswith("The new weights: better by +50 points")
    both = verdict(first, run("v2", 30, prompt="compact"))
    assert "v2prompt vs " in both.sentence
    assert "agent.prompt: full -> compact" in both.sentence
    assert "model.adapter: v1 -> v2" in both.sentence


def test_many_settings_are_listed_below(write_run: WriteRun) -> None:
    changed = {"max_iterations": 5, "max_seconds": 5.0, "max_tokens": 5, "max_repeats": 3}
    a, b = write_run(solving(10), "a"), write_run(solving(30), "b", config={"agent": changed})
    found = verdict(a, b)
    assert "(4 settings differ, see below): better by" in found.sentence
    assert str(found).count("the runs differ in agent.max_") == 4
    again = write_run(solving(10), "again")
    assert f"{again} vs {a}: no difference shown" in verdict(a, again).sentence


def test_a_run_is_not_compared_with_itself_or_a_copy(write_run: WriteRun, tmp_path: Path) -> None:
    """Its p-value would be that of a model which never changes its mind."""
    a = write_run(solving(10), "a", command="run")
    copied = shutil.copytree(a, tmp_path / "copied")
    with pytest.raises(ConfigError, match="the same run is given twice"):
        compare_runs(a, a)
    with pytest.raises(ConfigError, match=f"^{copied}: a copy of {a}"):
        compare_runs(a, copied)
    with pytest.raises(ConfigError, match=f"^{copied}: a copy of {a}"):
        write_report([a, copied], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_tasks_and_samples_of_one_run_alone_are_left_out_and_said(write_run: WriteRun) -> None:
    a = write_run(solving(10, 20), "a")
    more = [msgspec.structs.replace(each, sample=1) for each in solving(0, 10)[3:]]
    b = write_run([*solving(12, 25)[3:], *more], "b")
    found = compare_runs(a, b)
    assert found.notes[:2] == (
        f"3 tasks only in {a} and 5 tasks only in {b}: left out",
        "samples per task: 1 and 2; those without a counterpart are left out",
    )
    assert found.headline.before.trials == 17


def test_tasks_of_one_id_with_another_prompt_are_refused(write_run: WriteRun) -> None:
    tasks = solving(10, 20)
    a = write_run(prompted(tasks, "Add"), "a", digest="2:a", path="v1/tasks.jsonl")
    b = write_run(
        prompted(tasks[:5], "Add") + prompted(tasks[5:], "Subtract"), "b", digest="2:b", path="v2/tasks.jsonl"
    )
    with pytest.raises(ConfigError, match="15 of 20 tasks of the same id have another prompt, such as t10; run both"):
        compare_runs(a, b)
    newer = write_run(prompted(tasks, "Total"), "d", digest="3:d", path="v3/tasks.jsonl")
    with pytest.raises(ConfigError, match=r"another prompt \(versions 2 and 3 of the tasks\), such as t0; run both"):
        compare_runs(a, newer)
    longer = write_run(prompted(solving(10, 25), "Add"), "c", digest="2:c", path="v2/tasks.jsonl", count=25)
    assert compare_runs(a, longer).notes[:1] == (f"5 tasks only in {longer}: left out",)


def test_other_answers_to_the_same_prompts_are_refused(write_run: WriteRun) -> None:
    """The digests are of the same selection of tasks by the same version, so the tasks have other content."""
    done = prompted(solving(10, 20), "Add")
    a = write_run(done, "a", digest="2:a", command="run", version="1.0")
    with pytest.raises(ConfigError, match=r"same ids and prompts, but other content, such as files or answers"):
        compare_runs(a, write_run(done, "b", digest="2:b", command="run", version="1.0"))
    for name, other in {"c": {"version": "1.1"}, "d": {"version": "1.0", "count": 20}}.items():
        assert compare_runs(a, write_run(done, name, digest="2:b", command="run", **other)).headline.difference == 0


def test_an_answer_without_a_call_counts_as_no_first_call_anywhere(write_run: WriteRun) -> None:
    usual = make_episode(True).metrics

    def run(name: str, parsed: int) -> Path:
        called = [make_episode(True, task=task, first_call_ok=task < parsed) for task in range(10)]
        plain = usual | {"tool_calls": 0.0, "first_call": 0.0, "first_call_ok": 0.0}
        return write_run([*called, *(make_episode(True, task=task, metrics=plain) for task in (10, 11))], name)

    a, b = run("a", 4), run("b", 9)
    calls = next(c for c in compare_runs(a, b).comparisons if c.metric == "first_call_ok")
    summed = [summarize(each)["groups"][0]["first_call_ok"] for each in (a, b)]
    assert [calls.before.to_dict(), calls.after.to_dict()] == summed
    assert calls.sentence().endswith("4 episodes without a call or a counterpart excluded")


def test_a_side_that_never_asks_for_a_tool_is_named(write_run: WriteRun) -> None:
    """Its first calls cannot be compared, and leaving the line out without a word would hide it."""
    plain = make_episode(True).metrics | {"tool_calls": 0.0, "first_call": 0.0, "first_call_ok": 0.0}
    silent = write_run([make_episode(False, task=task, metrics=plain) for task in range(6)], "silent")
    calling = write_run([make_episode(True, task=task, first_call_ok=True) for task in range(6)], "calling")
    told = f"parsed first calls are not compared: no first reply of {silent} is known to ask for a tool"
    assert told in compare_runs(silent, calling).notes
    assert told in compare_runs(calling, silent).notes
    again = write_run([make_episode(True, task=task, first_call_ok=True) for task in range(6)], "again")
    assert not [note for note in compare_runs(calling, again).notes if "first calls" in note]


def test_figures_are_the_same_in_the_text_the_json_and_the_report(write_run: WriteRun, tmp_path: Path) -> None:
    """Three metrics are tested together, of which Holm's adjustment raises the p."""
    calls = [make_episode(task < 12, task=task, first_call_ok=task < 24) for task in range(30)]
    more = [make_episode(task < 18, task=task, first_call_ok=task < 29) for task in range(30)]
    a, b = write_run(calls, "a", wanted=30, command="run"), write_run(more, "b", wanted=30, command="run")
    text = CliRunner().invoke(app, ["compare", str(a), str(b)]).output
    found = json.loads(CliRunner().invoke(app, ["compare", str(a), str(b), "--json"]).output)
    write_report([a, b], tmp_path / "report.html")
    page = html.unescape(re.sub(r"<[^>]+>", "|", (tmp_path / "report.html").read_text()))
    cells = [row.replace("|", " ").split() for row in page.split("\n")]
    flat = " ".join(word for row in cells for word in row)
    adjusted = 0
    for each in found["comparisons"]:
        assert f"p = {each['p_value']:.2g}" in text
        assert f"{each['p_value']:.2g} {each['p_adjusted']:.2g} {each['before']['of']}" in flat
        adjusted += each["p_adjusted"] > each["p_value"]
    assert adjusted
    assert "p p (Holm) pairs" in flat


def test_tasks_that_changed_are_named(write_run: WriteRun) -> None:
    def solved_by(name: str, solved: set[int]) -> Path:
        return write_run([make_episode(task in solved, task=task) for task in range(12)], name, command="run")

    a, b = solved_by("a", {0, 1}), solved_by("b", {1, 2, 3, 4, 5, 6, 7})
    said = str(verdict(a, b))
    assert "  gained: 6 tasks: t2, t3, t4, t5, t6, and 1 more\n" in said
    assert "  lost: 1 task: t0\n" in said
    report = compare_runs(a, b).to_dict()
    assert report["flips"] == {"gained": ("t2", "t3", "t4", "t5", "t6", "t7"), "lost": ("t0",)}
    assert "  lost: no task\n" in str(verdict(a, solved_by("again", {0, 1})))


def test_arms_that_are_compared_as_one_are_named(write_run: WriteRun) -> None:
    def with_arms(name: str, solved: int) -> Path:
        lanes = ("off-r0-w0", "placebo-r0-w0")
        episodes = [each for lane in lanes for each in solving(solved, 12, lane=lane)]
        return write_run(episodes, name, command="learn")

    a, b = with_arms("a", 3), with_arms("b", 9)
    assert "; the arms off, placebo are pooled (--arms compares one)" in verdict(a, b).sentence
    assert compare_runs(a, b, "off").pooled == ""
    assert compare_runs(a, b).flips is None


def test_where_no_rise_is_possible_the_detectable_fall_is_told(write_run: WriteRun) -> None:
    a, b = (write_run(solving(39), name, command="run") for name in ("a", "b"))
    said = verdict(a, b).sentence
    assert "no rise from 98 % is detectable, a fall of " in said
    assert "underpowered" not in said
