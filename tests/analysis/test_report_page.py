"""The page of a report, without a browser: what is in it, and that it is whole for every kind of run."""

import base64
import html
import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from report_attacks import attacked
from synthetic_episodes import make_episode

from hermes_lab.analysis.comparison.continual import Transfer
from hermes_lab.analysis.comparison.verdict import verdict
from hermes_lab.analysis.curves import curve_names
from hermes_lab.analysis.data.load import load_episodes
from hermes_lab.analysis.report.data import load_table
from hermes_lab.analysis.report.findings import FromSuite
from hermes_lab.analysis.report.page import Written, write_report
from hermes_lab.analysis.report.sections import _estimate
from hermes_lab.analysis.skill_effects.capture import Capture
from hermes_lab.analysis.skill_effects.uplift import uplift_sentence, uplifts
from hermes_lab.analysis.stats.intervals import Interval, Rate
from hermes_lab.analysis.stats.over_lanes import Estimate
from hermes_lab.errors import ConfigError
from hermes_lab.manifest import read_manifest
from hermes_lab.records import write_json
from hermes_lab.types import (
    Episode,
    EpisodeError,
    Message,
    ModelIdentity,
    Trajectory,
    Verdict,
)

WriteRun = Callable[..., Path]


def episodes(lost: int = 1, gained: int = 6, lanes: int = 6) -> list[Episode]:
    """Off against on, a task a round: the first `lost` tasks are lost, the next `gained` gained, in every world."""
    return [
        make_episode(task < lost if arm == "off" else lost <= task < lost + gained, task=task, lane=f"{arm}-r0-w{lane}")
        for arm in ("off", "on")
        for lane in range(lanes)
        for task in range(10)
    ]


def page_of(run: Path, *others: Path, **options: Any) -> str:
    out = run.parent / "report.html"
    write_report([run, *others], out, **options)
    return out.read_text()


def words(page: str) -> str:
    """The text of the page's first part, as a reader sees it."""
    body = page[page.index("<body>") : page.index('<script type="text/plain" id="index">')]
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


def block(page: str, name: str) -> Any:
    found = re.search(rf'<script type="text/plain" id="{name}">([^<]*)</script>', page)
    assert found
    return json.loads(zlib.decompress(base64.b64decode(found[1])))


def chunks(page: str) -> list[Any]:
    return [block(page, name) for name in re.findall(r'id="(c\d+)"', page)]


def test_verdict_effect_cost_and_regressions_stand_first(write_run: WriteRun) -> None:
    text = words(page_of(write_run(episodes(), wanted=120)))
    verdict = text.index("Skills: better by +50 points (95 % interval ")
    effect, cost, worst = text.index("skills off 10 %"), text.index("tokens / solved"), text.index("Worst regressions")
    assert verdict < effect < cost < worst < text.index("Learning curves")
    assert "6 of 6 solved by skills off but not by skills on t0 lost in 6 of 6" in text
    assert "not finished" not in text


def test_how_episodes_ended_stands_with_the_runs_and_what_spoils_the_score_at_the_top(write_run: WriteRun) -> None:
    made = episodes()
    for place, stop in enumerate(["length"] * 45 + ["unparsed"] * 15):
        spoken = msgspec.structs.replace(made[place].trajectory, stop_reason=stop)
        made[place] = msgspec.structs.replace(made[place], trajectory=spoken)
    down = {"status": "errored", "trajectory": None, "metrics": {}, "error": EpisodeError("model", "no <page>\nmore")}
    made[60] = msgspec.structs.replace(made[60], success=None, score=None, verdicts=(), **down)
    text = words(page_of(write_run(made, wanted=120)))
    top, runs = text[: text.index("tokens / solved")], text[text.index("Runs run command") :]
    assert "45 of 119 episodes (38 %) ended with a reply truncated at model.sampling.max_tokens (1,024)" in top
    assert "15 of 119 episodes (13 %) ended with an unparsed tool call in the text" in top
    assert "1 episodes errored and have no score (model 1); often: no <page>; retry with --resume" in top
    assert top.count("errored") == 1
    assert "arm answered reply cut (length) tool call not parsed (unparsed) errored" in runs
    assert "skills off – 45 · 75 % 15 · 25 % –" in runs
    assert "skills on 59 · 98 % – – 1 · 2 %" in runs


def test_a_run_in_which_everything_was_answered_has_no_table_of_endings(write_run: WriteRun) -> None:
    text = words(page_of(write_run(episodes(), wanted=120)))
    assert "answered" not in text
    assert "How episodes ended" not in text


def test_no_difference_is_said_and_not_dressed_up(write_run: WriteRun) -> None:
    text = words(page_of(write_run(episodes(lost=3, gained=3), wanted=120)))
    assert "Skills: no difference shown: +0 points (" in text


def test_page_says_what_the_verdict_says(write_run: WriteRun) -> None:
    run = write_run(episodes(lost=3, gained=4), wanted=120)
    said = verdict(run).sentence.replace(" -> ", " → ").split("; ")
    text = words(page_of(run)).lower()
    assert all(clause.lower() in text for clause in said)


def test_same_run_gives_the_same_bytes(write_run: WriteRun) -> None:
    run = write_run(episodes())
    assert page_of(run) == page_of(run)


def test_nothing_of_a_text_is_markup(write_run: WriteRun) -> None:
    page = page_of(write_run(attacked()))
    assert (
        page.count("<script")
        == len(re.findall(r'<script type="text/plain" id="\w+">[A-Za-z0-9+/=]*</script>', page)) + 1
    )
    for start in ("<img", "<svg onload", "<iframe", '<a href="javascript', "</style><style"):
        assert start not in page
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x1b]", page)
    assert page.count("<html") == page.count("</html>") == page.count("<style>") == 1


def test_policy_allows_only_the_pages_own_script_and_style(write_run: WriteRun) -> None:
    page = page_of(write_run(episodes()))
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert found
    policy = html.unescape(found[1])
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert " style=" not in page
    assert " onclick=" not in page


def test_every_trajectory_is_in_the_page_and_found_by_the_list(write_run: WriteRun) -> None:
    page = page_of(write_run(episodes()))
    index, packed = block(page, "index"), chunks(page)
    columns, names = index["columns"], index["names"]
    assert index["count"] == 120
    for n in range(index["count"]):
        record = packed[columns["chunk"][n]][columns["at"][n]]
        lane, task = names["lane"][columns["lane"][n]], names["task_id"][columns["task_id"][n]]
        assert record["key"] == f"demo|{task}|{lane}|{columns['round'][n]}|0"
    pairs = {names["change"][change] for change in columns["change"]}
    assert pairs == {"lost", "gained", "neither"}


def test_over_the_cap_lost_pairs_come_first_and_it_is_said(write_run: WriteRun) -> None:
    page = page_of(write_run(episodes(lost=2, gained=2)), trajectories=30)
    index = block(page, "index")
    columns, names = index["columns"], index["names"]
    held = [names["change"][columns["change"][n]] for n in range(120) if columns["chunk"][n] >= 0]
    assert held.count("lost") == 24
    assert held.count("gained") == 6
    assert "30 of 120 trajectories are in this page" in words(page)


def test_bytes_are_capped(write_run: WriteRun, tmp_path: Path) -> None:
    out = tmp_path / "small.html"
    written = write_report([write_run(episodes())], out, cap=100)
    assert written == Written(out.stat().st_size, 120, 0)
    assert "0 of 120 trajectories" in words(out.read_text())


def test_run_still_going_and_errors_are_warned_of(write_run: WriteRun) -> None:
    down = EpisodeError("model", "down")
    made = [*episodes(), make_episode(None, task=10, lane="on-r0-w0", status="errored", error=down, trajectory=None)]
    text = words(page_of(write_run(made, wanted=500)))
    assert "the run is not finished: results are based on 120 of 500 episodes" in text
    assert "1 episodes errored and have no score (model 1)" in text
    assert "no learning curve is identified" in text


def test_episodes_that_are_written_meanwhile_are_left_out(write_run: WriteRun, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_run(episodes(), wanted=500)
    late = msgspec.json.encode(make_episode(True, task=99, lane="on-r0-w0"))

    def load(runs: list[Path]) -> Any:
        table = load_table(runs)
        (run / "episodes" / "w0-1.jsonl").write_bytes(late + b"\n")
        return table

    monkeypatch.setattr("hermes_lab.analysis.report.page.load_table", load)
    page = page_of(run)
    assert sum(map(len, chunks(page))) == block(page, "index")["count"] == 120


def test_one_arm_alone_has_a_page_without_a_comparison(write_run: WriteRun) -> None:
    made = [episode for episode in episodes() if episode.lane.startswith("on")]
    text = words(page_of(write_run(made, wanted=60)))
    assert "No comparison: skills on solved 60 % of 60 tasks." in text
    assert "arm off has no episodes yet" in text
    assert "has one arm, on, and one set of weights; run a second arm or give a second run" in text


def test_runs_of_other_tasks_have_a_page_that_says_so(write_run: WriteRun) -> None:
    first = write_run(episodes(), "first", digest="a", name="x")
    other = write_run(episodes(), "other", digest="b", name="y")
    text = words(page_of(first, other))
    assert "cannot be paired: suite.name is 'x' in one and 'y' in the other" in text
    assert "first, skills on" in text
    assert "other, skills on" in text


def test_two_runs_are_paired_by_key(write_run: WriteRun) -> None:
    worse = [make_episode(False, task=e.round, lane=e.lane) for e in episodes()]
    text = words(page_of(write_run(episodes(), "base"), write_run(worse, "tuned")))
    assert re.search("base: worse: -35 points", text)
    assert "20 of 42 solved by base" in text or "42 of 42 solved by base but not by tuned" in text


def test_run_without_episodes_and_folder_without_run_are_refused(write_run: WriteRun, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no episodes yet"):
        page_of(write_run([]))
    with pytest.raises(ConfigError, match=r"no run here \(no such folder\)"):
        page_of(tmp_path / "nowhere")
    assert not (tmp_path / "report.html").exists()


def test_unjudged_run_has_no_verdict(write_run: WriteRun) -> None:
    text = words(page_of(write_run([make_episode(None, task=n) for n in range(4)], wanted=4)))
    assert "No verdict: no episode was judged." in text
    assert "4 episodes were not judged" in text


def test_what_the_suite_tells_is_shown_and_else_not_measured(write_run: WriteRun) -> None:
    run = write_run(episodes())
    assert "Hidden rules captured by the library Not measured" in words(page_of(run))
    told = Capture(
        lane="on-r0-w0", arm="on", round=9, experience=9, skills=3, silent=0,
        precision=Rate(2, 3), recall=Rate(2, 5), recall_met=Rate(2, 4), untrue=("bad",),
    )  # fmt: skip
    text = words(page_of(run, from_suite=FromSuite([told], ["on-r0-w0: tea tells 4711"], "1 library")))
    assert "2/3 · 67 %" in text
    assert "on-r0-w0: tea tells 4711" in text
    assert "1 skills contain part of a held-out answer" in text


def one_check(better: str, worse: str, tasks: int) -> list[Episode]:
    """Held-out tasks of six lanes, of which one arm solves all and the other none."""
    return [
        make_episode(arm == better, task=task, round=0, lane=f"{arm}-r{lane}-w0", phase="heldout")
        for arm in (better, worse)
        for lane in range(6)
        for task in range(tasks)
    ]


def test_uplift_run_tells_which_skills_help(write_run: WriteRun) -> None:
    run = as_uplift(write_run(one_check("all", "without-tea", tasks=4), wanted=48))
    text = words(page_of(run))
    assert "Verdict Arms Skills Episodes" in text
    (found,) = uplifts(load_episodes(run))
    assert f"{uplift_sentence([found]).capitalize().replace('holm', 'Holm')}." in text
    assert "tea 0 4 24 24 0 24 0 +100 (" in text
    for other_page in ("against all", "Worst regressions", "Learning curves", "The course"):
        assert other_page not in text


def as_uplift(run: Path) -> Path:
    write_json(run / "run.json", msgspec.structs.replace(read_manifest(run), command="uplift"))
    return run


def test_uplift_is_shown_by_holm_alone(write_run: WriteRun) -> None:
    """One of twelve skills has p = 1/128, and none is shown after Holm."""
    skills = [f"s{number}" for number in range(12)]
    made = [
        make_episode(
            arm == "all" or task >= 7 or arm != "without-s0",
            task=task, round=0, lane=f"{arm}-r0-w0", phase="heldout",
        )
        for arm in ("all", *(f"without-{skill}" for skill in skills))
        for task in range(10)
    ]  # fmt: skip
    run = as_uplift(write_run(made, wanted=130))
    assert min(each.p_value for each in uplifts(load_episodes(run))) == pytest.approx(1 / 2**7)
    text = words(page_of(run))
    assert "Of 12 skills 0 help, 0 harm, 12 with no effect shown" in text
    assert " helps" not in text


def checked(solved: Callable[[str, str, int, int], bool | None], last: int = 2, lanes: int = 6) -> list[Episode]:
    """Off and on with a learning task in rounds 0 and 1, and checks of 4 held-out tasks before rounds 0, 1 and after
    the last; `solved` is asked of the arm, phase, round and task."""
    made = []
    for arm in ("off", "on"):
        for lane in range(lanes):
            name = f"{arm}-r0-w{lane}"
            for at in range(last + 1):
                work = [("heldout", 100 + n) for n in range(4)] + ([("learn", at)] if at < 2 else [])
                for phase, task in work:
                    outcome = solved(arm, phase, at, task)
                    made.append(make_episode(outcome, task=task, lane=name, round=at, experience=at, phase=phase))
    return made


def test_metric_that_was_measured_is_named_where_nothing_was_judged(write_run: WriteRun) -> None:
    made = [
        make_episode(None, task=task, lane=f"{arm}-r0-w{lane}", first_call_ok=arm == "on")
        for arm in ("off", "on")
        for lane in range(6)
        for task in range(4)
    ]
    text = words(page_of(write_run(made, wanted=48)))
    first = text[: text.index("Learning curves")]
    assert "Skills: parsed first calls: better by +100 points" in first
    assert "Difference in points (95 %), parsed first calls" in first
    assert "Solved at the first submission: not measured, no episode was judged." in first
    assert "Worst regressions Not measured: no episode was judged." in first
    assert "solved every" not in first
    assert "solved all" not in first


def test_regressions_say_which_part_they_looked_at(write_run: WriteRun) -> None:
    def solved(arm: str, phase: str, at: int, task: int) -> bool:
        return not (arm == "on" and phase == "learn" and task == 1)

    made = [msgspec.structs.replace(each, experience=0) for each in checked(solved)]
    run = write_run(made, wanted=168)
    compared = verdict(run).comparison
    assert compared
    headline, learning = (c.part for c in compared.comparisons if c.metric == "success")
    text = words(page_of(run))
    assert f"{headline}: none, skills on also solved all 24 of skills off, 24 pairs" in text
    assert f"{learning}: 6 of 12 solved by skills off but not by skills on t1 lost in 6 of 6" in text


def test_part_that_was_not_judged_is_not_without_regressions(write_run: WriteRun) -> None:
    def solved(arm: str, phase: str, at: int, task: int) -> bool | None:
        return True if phase == "learn" else None

    text = words(page_of(write_run(checked(solved), wanted=168)))
    assert "while learning: none, skills on also solved all 12" in text
    assert "on held-out tasks: not measured, no episode was judged" in text


def test_losses_of_a_single_check_are_seen(write_run: WriteRun) -> None:
    assert "12 of 12 solved by skills off" in words(page_of(write_run(one_check("off", "on", tasks=2), wanted=24)))


def test_arms_tell_the_last_check_alone(write_run: WriteRun) -> None:
    def solved(arm: str, phase: str, at: int, task: int) -> bool:
        return arm == "on" and (phase == "learn" or at == 2)

    text = words(page_of(write_run(checked(solved), wanted=168)))
    arms = text[text.index(" Arms arm first submission") :]
    assert "skills on 12/12 · 100 % (76–100) 12/12 · 100 % (76–100) 24/24 · 100 % (86–100)" in arms
    assert "skills off 0/12 · 0 % (0–24) 0/12 · 0 % (0–24) 0/24 · 0 % (0–14)" in arms


def test_cost_is_of_the_sides_that_are_compared(write_run: WriteRun) -> None:
    arms = ("off", "on", "placebo", "oracle")
    made = [make_episode(True, task=task, lane=f"{arm}-r0-w0") for arm in arms for task in range(4)]
    one = write_run(made, "a-tuned", wanted=16)
    other = write_run(made, "base", wanted=16)

    def cost(page: str) -> str:
        text = words(page)
        return text[text.index(" Cost ") : text.index("Includes the reviews")]

    alone = cost(page_of(one))
    assert re.findall("skills on|skills off|placebo|oracle", alone) == ["skills off", "skills on"]
    both = cost(page_of(other, one))
    called = ("skills off", "skills on", "placebo", "oracle")
    named = re.findall("(?:base|a-tuned), (?:skills off|skills on|placebo|oracle)", both)
    assert named == [f"{run}, {arm}" for run in ("base", "a-tuned") for arm in called]


def test_unfinished_run_is_said_right_under_the_verdict(write_run: WriteRun) -> None:
    page = page_of(write_run(episodes(), wanted=500))
    assert re.search(
        r'</h1><ul class="warnings"[^>]*><li>the run is not finished: results are based on 120 of 500', page
    )


def test_directions_of_weights_and_skills_stand_in_the_headline(write_run: WriteRun) -> None:
    untuned = ModelIdentity("scripted", "model-a")
    tuned = ModelIdentity("scripted", "model-a", adapter="tuned-0123456789ab", adapter_digest="0123456789abcdef")
    made = [
        make_episode(
            task < {"off": 4, "on": 8}[arm] - 3 * weights,
            task=task,
            lane=f"{arm}-r{lane}-w0-a{weights}",
            model=tuned if weights else untuned,
        )
        for weights in (0, 1)
        for arm in ("off", "on")
        for lane in range(6)
        for task in range(10)
    ]
    run = write_run(made, wanted=240)
    found = verdict(run).comparison
    assert found
    assert found.decomposition
    page = page_of(run)
    (heading,) = map(html.unescape, re.findall("<h1[^>]*>([^<]*)</h1>", page))
    said = found.decomposition.sentence()
    assert heading.replace("\u00a0", " ") == f"{said[:1].upper()}{said[1:]}."
    assert "weights -30 points" in heading
    assert "skills +40 points" in heading
    text = words(page)
    assert "weights −30 (" in text
    assert "skills +40 (" in text


def test_interval_that_cannot_be_told_is_not_told() -> None:
    nothing = Transfer(
        6, "6 runs", np.ones((2, 1)), Estimate(1.0, None), None, None, None, Estimate(0.0, Interval(-0.1, 0.1)), None
    )
    assert _estimate(nothing, "acc") == "100 % (no interval)"
    assert _estimate(nothing, "gain") == "+0 (−10 to 10)"
    assert _estimate(nothing, "bwt") == "–"


def test_verdict_stands_before_the_feedback_that_tells_it(write_run: WriteRun) -> None:
    told = (
        Message("user", "Brew tea"),
        Message("assistant", "Done."),
        Message("user", "It is cold."),
        Message("assistant", "Now it is hot."),
    )
    verdicts = (Verdict(0, False, {"hot": 0}, "It is cold."), Verdict(1, True))
    episode = make_episode(False, verdicts=verdicts, trajectory=Trajectory(told, (), "native", "answered"))
    items = chunks(page_of(write_run([episode])))[0][0]["items"]
    assert [item["kind"] for item in items] == ["user", "assistant", "verdict", "user", "assistant", "verdict"]
    assert [item["solved"] for item in items if item["kind"] == "verdict"] == [False, True]


def test_tokens_that_no_model_reported_are_not_measured(write_run: WriteRun) -> None:
    silent = Trajectory((), (), "native", "answered")
    made = [msgspec.structs.replace(episode, trajectory=silent) for episode in episodes()]
    assert "Tokens not measured: the model reported no usage." in words(page_of(write_run(made)))


def test_a_plain_run_is_an_evaluation(write_run: WriteRun) -> None:
    """It has tasks, failures and costs, and nothing about learning, skills or curves."""
    done = [make_episode(task % 2 == 0, task=task) for task in range(10)]
    page = page_of(write_run(done, wanted=10, command="run"))
    text = words(page)
    text = text[: text.index("Search")]  # before the list of episodes
    assert "Solved 50 % of 10 tasks at the first submission." in text
    assert "Failures to look at first t1 solved 0 of 1, answered t3" in text
    assert 'href="#episode=demo%7Ct1%7Cmain%7C1%7C0&amp;run=0"' in page
    assert "ended answered 5/10 50 %" in text
    assert "task t4 1/1 100 % 1.00" in text
    for word in ("skill", "curve", "review", "arm", "not measured", "Transfer", "Course", "last check"):
        assert word.lower() not in text.lower(), word


def test_two_plain_runs_are_compared_without_sections_on_learning(write_run: WriteRun) -> None:
    runs = [
        write_run([make_episode(task < solved, task=task) for task in range(30)], str(solved), wanted=30, command="run")
        for solved in (5, 20)
    ]
    page = page_of(*runs)
    text = words(page)
    assert "better by +50 points" in text
    assert "Worst regressions" in text
    assert "5 by solved share mean score ended answered 5/30" in text
    assert "Learning curves" not in text


def test_a_broken_curve_of_a_package_changes_no_report(
    write_run: WriteRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_run(episodes())
    before = page_of(run)
    info = tmp_path / "lab_curve-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lab-curve\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[hermes_lab.curves]\nown = lab_curve_nowhere:Own\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "own" in curve_names()
    assert page_of(run) == before


def test_plain_runs_of_other_tasks_have_a_page_with_the_rate_of_each(write_run: WriteRun) -> None:
    first, second = (
        write_run(
            [make_episode(task % 10 < solved, task=task) for task in range(start, start + 10)],
            name,
            wanted=10,
            command="run",
            path=f"{name}.jsonl",
        )
        for name, start, solved in (("first", 0, 5), ("second", 100, 7))
    )
    page = page_of(first, second)
    heading = page.partition('id="verdict-sentence">')[2].partition("</h1>")[0]
    assert heading.startswith("Not measured: ")
    text = words(page)
    assert "First, model-a: solved 50 % of 10 episodes at the first submission." in text.replace("\u00a0", " ")
    assert "Second, model-a: solved 70 % of 10 episodes at the first submission." in text.replace("\u00a0", " ")
    links = re.findall(r'href="#episode=[^"]*run=(\d)[^"]*"[^>]*>(t\d+)<', page)
    assert {(run, int(task[1:]) >= 100) for run, task in links} == {("0", False), ("1", True)}


@pytest.mark.parametrize("first", [True, False])
def test_a_run_without_episodes_beside_others_is_no_error_and_takes_no_other_name(
    write_run: WriteRun, first: bool
) -> None:
    empty = write_run([], "empty", wanted=10, command="run", path="a.jsonl")
    run = write_run([make_episode(task < 5, task=task) for task in range(10)], "whole", wanted=10, command="run")
    text = words(page_of(*((empty, run) if first else (run, empty))))
    assert f"Not measured: {empty} has no episodes yet." in text
    assert "solved 50 % of 10 episodes at the first submission" in text.replace("\u00a0", " ")
    assert "empty: the run is not finished: results are based on 0 of 10 episodes" in text
    experiment = write_run(episodes(), "experiment", wanted=120)
    assert "experiment, skills on" in words(page_of(run, experiment, empty))
