"""An arm that never got its treatment is no null result: `compare`, `summary` and the report say so."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from synthetic_episodes import NOTE, make_episode
from typer.testing import CliRunner

from hermes_lab.analysis.comparison.verdict import ComparisonResult, verdict
from hermes_lab.analysis.data.load import load_episodes
from hermes_lab.analysis.report.page import write_report
from hermes_lab.analysis.summaries.summary import summarize
from hermes_lab.runners.cli import app
from hermes_lab.types import (
    Episode,
    EpisodeError,
    MemoryUse,
    Message,
    ModelIdentity,
    Review,
    SkillTrace,
    SkillUse,
    SkillWrite,
    ToolResult,
    Trajectory,
)

WriteRun = Callable[..., Path]
TASKS = 6
WRITE = SkillWrite("create", "totals", "", "review", "", "model-a", "", "")
LISTED = SkillUse(listed=("totals",), traces=(SkillTrace("totals", eligible=True, listed=True),))
OTHER = SkillUse(listed=("totals",))
"""A listed skill without a trace is not about the task."""
LOADED = SkillUse(
    listed=("totals",), loaded=("totals",), traces=(SkillTrace("totals", listed=True, loaded=True, followed=True),)
)


PROSE = SkillUse(listed=("totals",), loaded=("totals",), traces=(SkillTrace("totals", listed=True, loaded=True),))
"""A loaded skill without code: nobody can say whether it was followed."""


def lane(arm: str, world: int = 0, *, solved: int = 3, **changes: Any) -> list[Episode]:
    """A lane without notes: the first `solved` tasks are solved, every task takes one iteration."""
    of_arm = {"memory": MemoryUse(), "skills": SkillUse()} | changes
    usual = make_episode(True).metrics | {"iterations": 1.0}
    return [
        make_episode(task < solved, task=task, lane=f"{arm}-r0-w{world}", metrics=usual, **of_arm)
        for task in range(TASKS)
    ]


def worlds(arm: str, count: int = 8, **changes: Any) -> list[Episode]:
    return [episode for world in range(count) for episode in lane(arm, world, **changes)]


def compared(write_run: WriteRun, *episodes: Episode) -> ComparisonResult:
    return verdict(write_run(episodes, wanted=len(episodes)))


REVIEWED = {"review": Review(writes=(WRITE,))}


def test_an_arm_without_a_review_never_learned(write_run: WriteRun) -> None:
    found = compared(write_run, *lane("off"), *lane("on"))
    assert found.sentence == (
        "not measured: `on` never learned (0 of 6 episodes were reviewed: skills.review_every is 10 tool-calling "
        "iterations, and no lane made more than 6 in its 6 tasks)"
    )
    assert (found.difference, found.p_value, found.shown) == (None, None, False)
    said = str(found)
    assert "no difference shown" not in said
    assert "p = " not in said
    assert "solved at the first submission: 3/6 (19-81 %) -> 3/6 (19-81 %)" in said
    assert "on: 0 of 6 episodes reviewed, 0 skill writes, skills listed in 0 of 6 compared episodes" in said


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"review": Review()}, "6 of 6 episodes were reviewed, and none wrote a skill or a note"),
        ({"review": Review(error=EpisodeError("model", "down"))}, "6 of these reviews failed"),
        ({"stop": "length"}, "0 of 6 episodes were reviewed: a review needs an answer, and none of them gave one"),
    ],
)
def test_why_nothing_was_learned(write_run: WriteRun, changes: dict[str, Any], why: str) -> None:
    stop = changes.pop("stop", "")
    if stop:
        changes["trajectory"] = msgspec.structs.replace(make_episode(True).trajectory, stop_reason=stop)
    assert why in compared(write_run, *lane("off"), *lane("on", **changes)).sentence


def test_what_was_learned_and_never_given_is_not_measured(write_run: WriteRun) -> None:
    found = compared(write_run, *lane("off"), *lane("on", **REVIEWED))
    assert found.sentence == (
        "not measured: `on` never used what it learned (6 skill writes, but listed in 0 of 6 compared episodes)"
    )


def test_merges_that_dropped_writes_are_counted(write_run: WriteRun) -> None:
    run = write_run([*lane("off"), *lane("on", skills=LOADED, **REVIEWED)])
    history = run / "lanes" / "on-r0-w0" / "history.jsonl"
    history.parent.mkdir(parents=True)
    history.write_bytes(msgspec.json.encode({"round": 0, "merged": [{"name": "totals"}] * 2}) + b"\n")
    told = "on: 6 of 6 episodes reviewed, 6 skill writes, 2 merged, skills listed in 6 of 6 compared episodes"
    assert f"{told}, loaded in 6, followed in 6" in str(verdict(run))
    assert next(g for g in summarize(run)["groups"] if g["arm"] == "on")["treatment"]["merged"] == 2


def test_skills_that_no_task_could_use_are_not_called_unread(write_run: WriteRun) -> None:
    found = compared(write_run, *worlds("off"), *worlds("on", skills=OTHER, **REVIEWED))
    assert found.sentence == (
        "not measured: no task of `on` came back to what a skill is about (eligible in 0 of 48 episodes); "
        "if the run is complete, use more rounds (learning.rounds)"
    )
    unknown = msgspec.structs.replace(LISTED, traces=(SkillTrace("totals", listed=True),))
    found = compared(write_run, *worlds("off"), *worlds("on", skills=unknown, **REVIEWED))
    assert found.sentence == "not measured: `on` never loaded a skill (listed in 48 of 48 episodes, loaded in 0)"


def test_skills_that_were_never_loaded_leave_no_null_result(write_run: WriteRun) -> None:
    found = compared(write_run, *worlds("off"), *worlds("on", skills=LISTED, **REVIEWED))
    assert found.sentence == "not measured: `on` never loaded a skill (listed in 48 of 48 episodes, loaded in 0)"
    better = compared(write_run, *worlds("off"), *worlds("on", solved=6, skills=LISTED, **REVIEWED))
    assert better.sentence.startswith("Skills: better by +50 points")
    assert better.sentence.endswith("loaded in 0): not an effect of their content")


def test_notes_are_a_treatment(write_run: WriteRun) -> None:
    noted = {"memory": MemoryUse("notes", (NOTE,))}
    assert compared(write_run, *lane("off"), *lane("on", **noted)).sentence.startswith("Skills: no difference shown")


def test_lanes_without_skills_are_counted(write_run: WriteRun) -> None:
    on = [*worlds("on", 5, skills=LOADED, **REVIEWED), *(e for w in (5, 6, 7) for e in lane("on", w, **REVIEWED))]
    run = write_run([*worlds("off"), *on], wanted=96)
    part = "in 3 of 8 lanes `on` never had a skill"
    assert verdict(run).sentence.endswith(f"; {part}")
    assert summarize(run)["warnings"] == [part]


def test_a_library_that_was_given_and_never_grew_is_no_learning(write_run: WriteRun) -> None:
    on = worlds("on", skills=LOADED)
    found = compared(write_run, *worlds("off", solved=0), *on)
    assert found.shown
    assert found.sentence.endswith("; `on` learned nothing new, and used only the skills that it started with")
    run = write_run([*on, *worlds("frozen", skills=LOADED)], "frozen")
    assert verdict(run).sentence.startswith("not measured: `on` never learned (0 of 48 episodes were reviewed")


def test_an_oracle_without_skills_has_no_gap(write_run: WriteRun) -> None:
    on = worlds("on", solved=4, skills=LOADED, **REVIEWED)
    found = compared(write_run, *worlds("off", solved=1), *on, *worlds("oracle", solved=6))
    assert found.causes == (
        "share of the gap to the oracle: not measured: `oracle` never had a skill (listed in 0 of 48 episodes)",
    )


def test_a_placebo_that_never_learned_is_no_control(write_run: WriteRun) -> None:
    on = worlds("on", solved=6, skills=LOADED, **REVIEWED)
    (cause,) = compared(write_run, *worlds("off", solved=1), *on, *worlds("placebo", solved=1)).causes
    assert cause.startswith("against a placebo of the same length: not measured: `placebo` never learned (0 of 48")


def test_the_treatment_is_that_of_the_compared_part(write_run: WriteRun) -> None:
    """Skills were there while learning, and at the last check they were not."""
    checks = [
        make_episode(True, task=90, lane=f"{arm}-r0-w0", phase="heldout", round=when, memory=MemoryUse())
        for arm in ("off", "on")
        for when in (0, 99)
    ]
    found = compared(write_run, *lane("off"), *lane("on", skills=LOADED, **REVIEWED), *checks)
    assert found.sentence.startswith("not measured: `on` never used what it learned (6 skill writes")


def test_every_place_says_it_in_the_same_words_and_once(write_run: WriteRun, tmp_path: Path) -> None:
    run = write_run([*lane("off"), *lane("on")], wanted=12)
    why = verdict(run).sentence.removeprefix("not measured: ")
    (warning,) = summarize(run)["warnings"]
    assert warning == f"{why}: its results are those of an agent without skills, and measure no effect"
    command = CliRunner().invoke(app, ["compare", str(run)])
    assert command.output.count("never learned") == 1
    fitted = CliRunner().invoke(app, ["fit", str(run), "--draws", "0"])
    assert warning in fitted.output
    page = tmp_path / "report.html"
    write_report([run], page)
    head = page.read_text().partition('id="verdict-sentence"')[2]
    first, rest = head.split("</h1>", 1)
    assert first == f">Not measured: {why}."
    assert f"<li>{why}" not in rest
    assert not re.search(r"not significant|no difference", rest.partition('id="runs"')[0])


def test_two_experiments_name_the_one_whose_arm_never_learned(write_run: WriteRun) -> None:
    """Its arm `on` measures the weights, and no skills."""

    def run(name: str, **changes: Any) -> Path:
        one = ModelIdentity("vllm", "m", adapter=name)
        return write_run([*worlds("off", model=one), *worlds("on", model=one, **changes)], name)

    before, after = run("v1"), run("v2", skills=LOADED, **REVIEWED)
    found = verdict(before, after)
    assert found.question == "skills and weights"
    why = "skills under v1 and the interaction: not measured: `on` never learned (0 of 48 episodes were reviewed)"
    assert f"; {why}; p = " in found.sentence
    assert found.sentence.count("never") == 1
    assert str(found).count("effect of skills") == 1, "only that under v2"


OLD, NEW = ModelIdentity("vllm", "m", adapter="v1"), ModelIdentity("vllm", "m", adapter="v2")
TREATED = {"skills": LOADED, **REVIEWED}


def in_one_run(episodes: list[Episode], weights: int) -> list[Episode]:
    return [msgspec.structs.replace(episode, lane=f"{episode.lane}-a{weights}") for episode in episodes]


@pytest.mark.parametrize("runs", [1, 2])
def test_weights_that_never_learned_measure_no_effect_of_skills_and_no_interaction(
    write_run: WriteRun, runs: int
) -> None:
    """Off solves 1 of 6 tasks under the old weights and 3 under the new, on 1 and 6."""
    before = [*worlds("off", solved=1, model=OLD), *worlds("on", solved=1, model=OLD)]
    after = [*worlds("off", solved=3, model=NEW), *worlds("on", solved=6, model=NEW, **TREATED)]
    if runs == 1:
        found = verdict(write_run([*in_one_run(before, 0), *in_one_run(after, 1)], wanted=192))
    else:
        found = verdict(write_run(before, "old", wanted=96), write_run(after, "new", wanted=96))
    assert found.comparison
    both = found.comparison.decomposition
    assert both
    assert both.sentence().startswith(
        "Both the weights and the skills made a difference: combined +83 points (95 % interval "
    )
    assert "weights with skills off +33 points" in both.sentence()
    assert "skills under v2 +50 points" in both.sentence()
    assert "; skills under v1 and the interaction: not measured: `on` never learned (0 of 48" in both.sentence()
    effects = both.to_dict()["effects"]
    assert [effects[name] for name in ("skills", "interaction", "skills_before")] == [None] * 3
    assert effects["weights"]["p_adjusted"] == pytest.approx(2 / 2**8), "two tests are left for Holm"
    assert not any(line.startswith("interaction") or "under v1:" in line for line in both.lines())


def test_skills_that_neither_weights_had_leave_the_effect_of_the_weights(write_run: WriteRun) -> None:
    before, after = (
        write_run([*worlds("off", solved=solved, model=model), *worlds("on", solved=solved, model=model)], name)
        for solved, model, name in ((1, OLD, "old"), (3, NEW, "new"))
    )
    found = verdict(before, after)
    assert found.sentence.startswith("The weights made a difference: combined +33 points")
    assert "; skills and the interaction: not measured: `on` never learned (0 of 48" in found.sentence


def test_skills_under_both_weights_keep_the_interaction(write_run: WriteRun) -> None:
    before = [*worlds("off", solved=1, model=OLD), *worlds("on", solved=1, model=OLD, **TREATED)]
    after = [*worlds("off", solved=1, model=NEW), *worlds("on", solved=6, model=NEW, **TREATED)]
    found = verdict(write_run(before, "old"), write_run(after, "new"))
    assert found.sentence.startswith("The effect of skills depends on the weights: no difference shown: +0 points")


def test_a_run_that_goes_on_says_so_far(write_run: WriteRun) -> None:
    (warning,) = summarize(write_run([*lane("off"), *lane("on")], wanted=40))["warnings"]
    assert "in its 6 tasks), so far: " in warning


def test_a_run_without_arms_has_no_treatment(write_run: WriteRun) -> None:
    found = summarize(write_run([make_episode(True)]))
    assert found["warnings"] == []
    assert found["groups"][0]["treatment"] is None


FOUR = {"learning": {"arms": ["off", "on", "placebo", "oracle"]}}


def four_arms(write_run: WriteRun, folder: str, **on: Any) -> Path:
    """A finished run; its placebo never learned."""
    episodes = [*worlds("off"), *worlds("on", **on), *worlds("placebo"), *worlds("oracle", skills=LOADED)]
    return write_run(episodes, folder=folder, wanted=len(episodes), config=FOUR)


def told_by_compare(*arguments: str | Path) -> str:
    return CliRunner().invoke(app, ["compare", *map(str, arguments)]).output


def test_one_arm_of_two_runs_is_compared_as_if_there_were_no_other(write_run: WriteRun) -> None:
    one = four_arms(write_run, "one", skills=LISTED, **REVIEWED)
    two = four_arms(write_run, "two", solved=6, skills=LOADED, **REVIEWED)
    told = told_by_compare(one, two, "--arms", "on")
    assert "is not finished" not in told
    assert "placebo" not in told
    assert f"in {one} `on` never loaded a skill (listed in 48 of 48 episodes, loaded in 0)" in told
    assert "`placebo` never learned" in told_by_compare(one, two)


def test_what_a_verdict_states_is_not_warned_of_again(write_run: WriteRun) -> None:
    run = four_arms(write_run, "one", skills=LISTED, **REVIEWED)
    told = told_by_compare(run, "--arms", "off,on")
    assert told.count("`on` never loaded a skill (listed in") == 1, told


def test_arms_that_are_left_out_warn_of_nothing(write_run: WriteRun) -> None:
    one = four_arms(write_run, "one", solved=6, skills=LOADED, **REVIEWED)
    assert "placebo" not in told_by_compare(one, "--arms", "off,on")
    assert "`placebo` never learned" in told_by_compare(one, "--arms", "off,placebo")


def test_an_unfinished_arm_is_told_with_the_episodes_wanted_of_it(write_run: WriteRun) -> None:
    episodes = [*lane("off", skills=SkillUse()), *lane("on", skills=LOADED, **REVIEWED)]
    run = write_run(episodes[:-2], wanted=4 * TASKS, config=FOUR)
    assert f"{run} is not finished: results are based on 10 of 12 episodes" in told_by_compare(run, "--arms", "off,on")
    copy = write_run(lane("on", solved=4, skills=LOADED, **REVIEWED), folder="whole", wanted=4 * TASKS, config=FOUR)
    told = told_by_compare(run, copy, "--arms", "on")
    assert f"{run} is not finished: results are based on 4 of 6 episodes" in told
    assert f"{copy} is not finished" not in told


def test_the_same_weights_in_two_runs_are_told_apart_by_their_runs(write_run: WriteRun) -> None:
    one, two = (write_run([*lane("off"), *lane("on")], folder=name, wanted=2 * TASKS) for name in ("one", "two"))
    assert f"{one}: model-a, skills off: 3/6" in told_by_compare(one, two)
    assert f"{two}: model-a, skills on: 3/6" in told_by_compare(one, two)


def on_treatment(run: Path) -> dict[str, Any]:
    return next(group["treatment"] for group in summarize(run)["groups"] if group["arm"] == "on")  # type: ignore[no-any-return]


def test_skills_without_code_are_not_said_to_be_followed_by_none(write_run: WriteRun, tmp_path: Path) -> None:
    """Whether such a skill was followed is not known, so there is no count, and one line says why."""
    episodes = [*worlds("off", solved=0), *worlds("on", solved=6, skills=PROSE, **REVIEWED)]
    run = write_run([*episodes, *worlds("placebo", solved=0, skills=PROSE, **REVIEWED)], wanted=144)
    why = "followed in -: not measured: these skills have no code (loaded skills of `on`, `placebo`)"
    shown = CliRunner().invoke(app, ["summary", str(run)]).output
    assert "loaded in 48, followed in -\n" in shown
    assert shown.count(why) == 1
    told = told_by_compare(run)
    assert "on: 48 of 48 episodes reviewed, 48 skill writes" in told
    assert "followed in 0" not in told + shown
    assert told.count("loaded in 48, followed in -") == 1
    assert told.count("not measured: these skills have no code") == 1
    assert (on_treatment(run)["followed"], on_treatment(run)["with_code"]) == (None, 0)
    (found,) = (t for t in json.loads(told_by_compare(run, "--json"))["treatments"] if t["arm"] == "on")
    assert (found["loaded"], found["followed"]) == (48, None)
    page = tmp_path / "report.html"
    write_report([run], page)
    assert "these skills have no code" in page.read_text()
    assert load_episodes(run).query("arm == 'on'")["skills_followed"].isna().all()


def test_skills_with_and_without_code_are_told_apart(write_run: WriteRun) -> None:
    unheeded = msgspec.structs.replace(LOADED, traces=(SkillTrace("totals", listed=True, loaded=True, followed=False),))
    coded = [e for world, use in ((2, LOADED), (3, unheeded)) for e in lane("on", world, skills=use)]
    run = write_run([*worlds("off", 4), *worlds("on", 2, skills=PROSE), *coded], wanted=48)
    assert "loaded in 24, followed in 6 of 12 with code" in told_by_compare(run)
    assert (on_treatment(run)["followed"], on_treatment(run)["with_code"]) == (6, 12)


def test_without_a_loaded_skill_none_was_followed(write_run: WriteRun) -> None:
    told = told_by_compare(write_run([*worlds("off"), *worlds("on", skills=LISTED, **REVIEWED)], wanted=96))
    assert "loaded in 0, followed in 0" in told
    assert "no code" not in told


def rejecting(*names: str) -> dict[str, Any]:
    """A review in which calls of these tools were rejected, and a call that writes nothing."""
    results = tuple(
        ToolResult(f"c{n}", name, json.dumps({"error": f"name: 'A B' of {name}\nis invalid"}), ok=False)
        for n, name in enumerate(names)
    )
    kept = ToolResult("k", "skill_view", json.dumps({"error": "no skill"}), ok=False)
    messages = (Message("tool", results=(*results, kept)),)
    return {"review": Review(trajectory=Trajectory(messages, (), "native", "answered"))}


@pytest.mark.parametrize("where", ["review", "trajectory"])
def test_rejected_writes_are_counted_with_the_first_reason(write_run: WriteRun, where: str) -> None:
    """Also those of the work itself, without a review."""
    changes = rejecting("skill_manage", "memory")
    changes = {where: changes["review"] if where == "review" else changes["review"].trajectory}
    found = compared(write_run, *lane("off"), *lane("on", **changes))
    why = "12 writes were rejected, the first one: skill_manage: name: 'A B' of skill_manage is invalid)"
    assert found.sentence.startswith("not measured: `on` never learned (")
    assert found.sentence.endswith(f"; {why}")
    assert "0 skill writes (12 rejected), skills listed" in str(found)


def test_a_superseded_episode_and_a_held_out_one_rejected_nothing(write_run: WriteRun) -> None:
    first = lane("on", **rejecting("skill_manage"))
    checks = [msgspec.structs.replace(each, phase="heldout", round=90 + each.round) for each in first]
    run = write_run([*lane("off"), *first, *lane("on", review=Review()), *checks], wanted=12)
    assert on_treatment(run)["rejected"] == 0
    assert "rejected" not in str(verdict(run))


def test_rejected_skills_are_told_where_notes_were_written(write_run: WriteRun) -> None:
    changes = rejecting("skill_manage") | {"memory": MemoryUse("notes", (NOTE,))}
    found = compared(write_run, *lane("off"), *lane("on", **changes))
    assert "0 skill writes (6 writes were rejected, the first one: skill_manage: name:" in str(found)


def test_why_reviews_failed_is_told(write_run: WriteRun) -> None:
    failed = {"review": Review(error=EpisodeError("internal", "KeyError: 'x' (mine.py:3)"))}
    found = compared(write_run, *lane("off"), *lane("on", **failed))
    assert "6 of these reviews failed: KeyError: 'x' (mine.py:3))" in found.sentence
