"""A plain run is summarised as an evaluation: by task, domain, family and stop reason, with the failures to look at."""

from collections import namedtuple
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
import pytest
from synthetic_episodes import make_episode

from hermes_lab.analysis.data.columns import read_columns
from hermes_lab.analysis.stats.intervals import wilson
from hermes_lab.analysis.summaries.evaluation import COLUMNS, Evaluation
from hermes_lab.analysis.summaries.summary import summarize
from hermes_lab.runners.commands.summary import show_summary
from hermes_lab.runners.episodes import find_episode
from hermes_lab.types import Episode, SkillUse, TaskInfo, Trajectory, Usage

WriteRun = Callable[..., Path]


def sampled(task: int, *outcomes: bool | None, domain: str = "code", **changes: Any) -> list[Episode]:
    """The samples of a task, which is of the family `even` or `odd`."""
    of = TaskInfo(domain=domain, split="train", metadata={"family": ("even", "odd")[task % 2]})
    return [
        msgspec.structs.replace(make_episode(success, task=task, **changes), sample=sample, task=of)
        for sample, success in enumerate(outcomes)
    ]


def ended(episodes: list[Episode], stop: str) -> list[Episode]:
    return [
        msgspec.structs.replace(each, trajectory=msgspec.structs.replace(each.trajectory, stop_reason=stop))
        for each in episodes
    ]


@pytest.fixture
def run(write_run: WriteRun) -> Path:
    episodes = [
        *sampled(0, True, True),
        *sampled(1, True, False, domain="web"),
        *ended(sampled(2, False, False, score=0.0), "length"),
        *sampled(3, False, False, score=0.5),
        *sampled(4, None, None),
    ]
    return write_run(episodes, wanted=10, command="run")


def shown(run: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    show_summary(summarize(run), json=False)
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_success_is_counted_by_task_domain_and_family(run: Path) -> None:
    found = summarize(run)["evaluation"]
    assert found["tasks"] == {"all": 5, "solved": 1, "partly": 1, "not_solved": 2, "not_judged": 1}
    assert {row["task"]: (row["count"], row["of"], row["rate"], row["mean_score"]) for row in found["by_task"]} == {
        "t0": (2, 2, 1.0, 1.0),
        "t1": (1, 2, 0.5, 0.5),
        "t2": (0, 2, 0.0, 0.0),
        "t3": (0, 2, 0.0, 0.5),
        "t4": (0, 0, None, None),
    }
    assert [(row["domain"], row["count"], row["of"]) for row in found["by_domain"]] == [("code", 2, 6), ("web", 1, 2)]
    assert [(row["family"], row["count"], row["of"]) for row in found["by_family"]] == [("even", 2, 4), ("odd", 1, 4)]
    assert found["by_suite"] == []
    assert (found["prompt_tokens"], found["completion_tokens"], found["seconds"]) == (100, 50, 20.0)


def test_failures_begin_with_answered_ones_that_no_sample_solved(run: Path) -> None:
    failures = summarize(run)["evaluation"]["failures"]
    assert [(failure["task"], failure["stop_reason"]) for failure in failures] == [
        ("t3", "answered"),
        ("t2", "length"),
        ("t1", "answered"),
    ]
    assert [find_episode(run, failure["episode"]).success for failure in failures] == [False] * 3
    assert find_episode(run, failures[2]["episode"]).sample == 1


def test_the_table_is_that_of_an_evaluation(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(run, capsys)
    assert "mean score 0.50" in lines[0]
    for line in (
        "tasks 5: 1 solved, 1 solved in some samples, 2 not solved, 1 not judged",
        "answered 3 of 6 solved (50 %)",
        "reply cut (length) 0 of 2 solved (0 %)",
        "domain web 1 of 2 solved (50 %)",
        "family odd 1 of 4 solved (25 %), mean score 0.50",
        "task t4 0 of 0 solved",
        "tokens 100 in prompts, 50 in completions; 15 per episode",
        "time 2.0 s per episode",
        "'demo|t3|main|3|0' (0 of 2 samples solved, score 0.50)",
    ):
        assert line in lines, lines
    for word in ("arm", "skill", "review", "first calls", "any submission", "curve"):
        assert not any(word in line for line in lines), word


def test_what_there_was_is_shown(write_run: WriteRun, capsys: pytest.CaptureFixture[str]) -> None:
    """A library, feedback and bad calls are part of an evaluation if it had them."""
    loaded = make_episode(False, skills=SkillUse(listed=("a",), loaded=("a",)), first_call_ok=False)
    later = msgspec.structs.replace(loaded, verdicts=(*loaded.verdicts, make_episode(True).verdicts[0]))
    lines = shown(write_run([later], wanted=1, command="run"), capsys)
    for line in ("parsed first calls 0/1 = 0 %", "solved at any submission 1/1 = 100 %", "loaded a skill 1/1 = 100 %"):
        assert any(each.startswith(line) for each in lines), line
    assert lines[-1] == "t0"  # a task that ran once needs no key


def test_a_price_gives_the_cost_unless_a_cache_has_its_own_or_calls_had_no_usage(
    run: Path, write_run: WriteRun
) -> None:
    def cost(run: Path = run, **price: float | None) -> float | None:
        found, row = Evaluation(), namedtuple("Row", COLUMNS)
        for values in read_columns(run, COLUMNS):
            found.add(row(*values))
        return found.to_dict(price)["cost"]

    part = Trajectory((), (), "native", "answered", usage=Usage(10, 5, uncounted=1))
    assert cost(write_run(sampled(0, True, trajectory=part), "part"), prompt=1e6) is None
    assert cost(prompt=1e6, completion=2e6) == 100 + 2 * 50
    assert cost(prompt=1e6, completion=2e6, cached=1.0) is None
    assert cost(prompt=0.0, completion=0.0) is None


def test_an_experiment_has_no_evaluation(write_run: WriteRun) -> None:
    assert summarize(write_run([make_episode(True, lane="off-r0-w0")]))["evaluation"] is None


def brute(k: int, outcomes: tuple[bool, ...]) -> tuple[float, float]:
    """The shares of all choices of k samples with a right one, and with right ones only."""
    chosen = list(combinations(outcomes, k))
    return sum(map(any, chosen)) / len(chosen), sum(map(all, chosen)) / len(chosen)


def test_pass_at_k_is_over_all_choices_of_samples(write_run: WriteRun, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = [
        (True,) * 4,
        (True, False, False, True),
        (False, False, True, False),
        (False,) * 4,
        (True, True, True, False),
    ]
    run = write_run(
        [row for place, task in enumerate(tasks) for row in sampled(place, *task)], wanted=20, command="run"
    )
    found = summarize(run)["evaluation"]["pass"]
    assert [row["k"] for row in found] == [2, 4]
    for row in found:
        expected = [sum(each) / len(tasks) for each in zip(*(brute(row["k"], task) for task in tasks), strict=True)]
        assert (row["at"]["value"], row["all"]["value"]) == pytest.approx(expected)
        for estimate in (row["at"], row["all"]):
            assert 0 <= estimate["low"] < estimate["value"] < estimate["high"] <= 1
    # At least as wide as that of five tasks that are each solved or not.
    wide = wilson(4, 5)
    assert (found[1]["at"]["low"], found[1]["at"]["high"]) == pytest.approx((wide.low, wide.high))
    assert "pass@4 80 % (38-96 %); pass^4, all right: 20 % (4-62 %)" in shown(run, capsys)


def test_one_sample_has_no_pass_at_k(write_run: WriteRun) -> None:
    run = write_run([row for place in range(3) for row in sampled(place, place > 0)], wanted=3, command="run")
    assert summarize(run)["evaluation"]["pass"] == []
