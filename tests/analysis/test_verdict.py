import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from synthetic_episodes import make_episode
from typer.testing import CliRunner

from hermes_lab.analysis.comparison.oracle_gap import gap_closed
from hermes_lab.analysis.comparison.verdict import verdict
from hermes_lab.analysis.data.load import load_episodes
from hermes_lab.errors import ConfigError
from hermes_lab.runners.cli import app
from hermes_lab.types import Episode, ModelIdentity

WriteRun = Callable[..., Path]


def lanes_of(
    arm: str, solved: int, *, lanes: int = 8, tasks: int = 10, suffix: str = "", **changes: object
) -> list[Episode]:
    """A lane in each of several worlds: every one solves the first `solved` tasks, every second one a task more."""
    return [
        make_episode(task < solved + replicate % 2, task=task, lane=f"{arm}-r0-w{replicate}{suffix}", **changes)
        for replicate in range(lanes)
        for task in range(tasks)
    ]


def test_skills_that_help_are_said_to(write_run: WriteRun) -> None:
    found = verdict(write_run([*lanes_of("off", 2), *lanes_of("on", 7)]))
    assert (found.question, found.shown) == ("skills", True)
    assert found.difference == pytest.approx(0.5)
    assert found.sentence.startswith("Skills: better by +50 points (95 % interval ")
    assert found.sentence.endswith("25 % -> 75 %, p = 0.0039, over 80 pairs in 8 worlds")


def test_skills_that_harm_are_said_to(write_run: WriteRun) -> None:
    assert verdict(write_run([*lanes_of("off", 7), *lanes_of("on", 2)])).sentence.startswith(
        "Skills: worse: -50 points (95 % interval "
    )


def test_no_difference_shown_says_what_would_have_been(write_run: WriteRun) -> None:
    episodes = [
        make_episode((task + (arm == "on")) % 3 > 0, task=task, lane=f"{arm}-r0-w0")
        for arm in ("off", "on")
        for task in range(60)
    ]
    found = verdict(write_run(episodes))
    assert not found.shown
    assert found.sentence.startswith("Skills: no difference shown: +0 points")
    assert "minimum detectable effect +23 points (power 0.8)" in found.sentence


def test_content_of_skills_is_told_from_their_presence(write_run: WriteRun) -> None:
    same = verdict(write_run([*lanes_of("off", 2), *lanes_of("on", 7), *lanes_of("placebo", 7)], "same"))
    assert "an effect of the skills' content is not shown" in same.causes[0]
    content = verdict(write_run([*lanes_of("off", 2), *lanes_of("on", 7), *lanes_of("placebo", 2)], "content"))
    assert content.causes[0].startswith("against a placebo of the same length: solved at the first submission: 20/80")
    assert "not shown" not in content.causes[0]


def test_cause_of_nothing_is_not_asked(write_run: WriteRun) -> None:
    assert verdict(write_run([*lanes_of("off", 2), *lanes_of("on", 2), *lanes_of("placebo", 7)])).causes == ()


def test_share_of_the_gap_to_the_oracle(write_run: WriteRun) -> None:
    run = write_run([*lanes_of("off", 2), *lanes_of("on", 5), *lanes_of("oracle", 8)])
    gap = gap_closed(load_episodes(run))
    assert gap is not None
    assert gap.interval is not None
    assert gap.share == pytest.approx(0.5)
    assert 0.25 < gap.interval.low < 0.5 < gap.interval.high < 0.75
    assert verdict(run).causes[-1].startswith("on closes 50 % of the gap from off to oracle")


def test_no_gap_is_not_identified(write_run: WriteRun) -> None:
    gap = gap_closed(load_episodes(write_run([*lanes_of("off", 5), *lanes_of("on", 5), *lanes_of("oracle", 5)])))
    assert gap is not None
    assert (gap.share, gap.interval) == (None, None)
    assert "not identified: oracle is not shown to be better than off" in gap.sentence()


def test_gap_without_an_oracle_is_none(write_run: WriteRun) -> None:
    assert gap_closed(load_episodes(write_run([*lanes_of("off", 5), *lanes_of("on", 5)]))) is None


def test_weights_of_one_run_are_the_question_where_there_is_one_arm(write_run: WriteRun) -> None:
    tuned = {"model": ModelIdentity("vllm", "m", adapter="sft-v1-0123456789ab", adapter_digest="0123456789abcdef")}
    found = verdict(write_run([*lanes_of("off", 7, suffix="-a1", **tuned), *lanes_of("off", 2, suffix="-a0")]))
    assert found.question == "weights"
    assert found.sentence.startswith("The new weights: better by +50 points")


def test_skills_and_weights_of_one_run_are_told_apart(write_run: WriteRun) -> None:
    tuned = {
        "model": ModelIdentity("vllm", "m", adapter="sft-v1-0123456789ab", adapter_digest="0123456789abcdef"),
        "suffix": "-a1",
    }
    found = verdict(
        write_run(
            [
                *lanes_of("off", 2, suffix="-a0"),
                *lanes_of("on", 2, suffix="-a0"),
                *lanes_of("off", 7, **tuned),
                *lanes_of("on", 7, **tuned),
            ]
        )
    )
    assert found.question == "skills and weights"
    assert found.sentence.startswith("The weights made a difference; no effect of skills shown: combined +50 points")
    assert found.difference == pytest.approx(0.5)


def test_two_runs_are_compared_by_what_changed(write_run: WriteRun) -> None:
    tuned = {"model": ModelIdentity("vllm", "m", adapter="sft-v1-0123456789ab", adapter_digest="0123456789abcdef")}
    base, other = write_run(lanes_of("off", 2), "base"), write_run(lanes_of("off", 7), "other")
    assert verdict(base, write_run(lanes_of("off", 7, **tuned), "tuned")).question == "weights"
    found = verdict(base, other)
    assert found.question == "runs"
    assert found.sentence.startswith(f"{other} vs {base}: better by +50 points")


def test_frozen_library_against_a_placebo_is_a_question_too(write_run: WriteRun) -> None:
    found = verdict(write_run([*lanes_of("frozen", 7), *lanes_of("placebo", 2)]))
    assert (found.question, found.shown) == ("arms", True)


@pytest.mark.parametrize(
    ("episodes", "why"),
    [
        ([], "has no episodes yet"),
        (lanes_of("on", 3), "has one arm, on, and one set of weights"),
        (
            [make_episode(None, lane=f"{arm}-r0-w0", metrics={}) for arm in ("off", "on")],
            "none of 1 pairs was judged on both sides",
        ),
    ],
)
def test_what_cannot_be_compared_is_not_measured(write_run: WriteRun, episodes: list[Episode], why: str) -> None:
    run = write_run(episodes)
    found = verdict(run)
    assert found.sentence.startswith("not measured: ")
    assert why in found.sentence
    assert (found.difference, found.interval, found.p_value, found.shown) == (None, None, None, False)
    command = CliRunner().invoke(app, ["compare", str(run)])
    assert isinstance(command.exception, ConfigError)
    assert why in str(command.exception)


def test_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no run here"):
        verdict(tmp_path)


def test_command_begins_with_the_verdict_and_ends_with_the_causes(write_run: WriteRun) -> None:
    run = write_run([*lanes_of("off", 2), *lanes_of("on", 5), *lanes_of("oracle", 8)])
    lines = CliRunner().invoke(app, ["compare", str(run)]).stdout.splitlines()
    assert lines[0] == verdict(run).sentence
    assert lines[1] == "off -> on"
    assert lines[-1].startswith("  on closes")


def test_command_warns_of_a_side_whose_replies_were_cut(write_run: WriteRun) -> None:
    cut = [
        msgspec.structs.replace(one, trajectory=msgspec.structs.replace(one.trajectory, stop_reason="length"))
        for one in lanes_of("on", 5)
        if one.trajectory
    ]
    run = write_run([*lanes_of("off", 2), *cut])
    said = CliRunner().invoke(app, ["compare", str(run)]).stderr
    assert f"warning: {run}: 80 of 160 episodes (50 %) ended with a reply truncated" in said


def test_command_compares_all_arms_with_the_first(write_run: WriteRun) -> None:
    run = write_run([*lanes_of("off", 2), *lanes_of("on", 5), *lanes_of("oracle", 8)])
    lines = CliRunner().invoke(app, ["compare", str(run), "--arms", "off,on,oracle"]).stdout.splitlines()
    assert [line for line in lines if " -> " in line and not line.startswith(" ") and ":" not in line] == [
        "off -> on",
        "off -> oracle",
    ]


@pytest.mark.parametrize("arms", ["off", "off,", "off,off", ","])
def test_arms_that_are_no_comparison_are_refused(write_run: WriteRun, arms: str) -> None:
    command = CliRunner().invoke(app, ["compare", str(write_run(lanes_of("off", 2))), "--arms", arms])
    said = f"--arms: give at least two different arms of one run, such as placebo,on, not {arms}"
    assert str(command.exception) == said


def test_metric_that_is_not_success_is_named(write_run: WriteRun) -> None:
    calls = [
        make_episode(None, task=task, lane=f"{arm}-r0-w{world}", first_call_ok=arm == "on")
        for arm in ("off", "on")
        for world in range(8)
        for task in range(4)
    ]
    sentence = verdict(write_run(calls)).sentence
    assert sentence.startswith("Skills: parsed first calls: better by +100 points")
    assert sentence.endswith("; success was not measured")


@pytest.mark.parametrize(
    ("lanes", "limit", "reach"),
    [
        (["r0-w0"], "this lane only", "over 40 tasks of one lane; fewer than 6 lanes"),
        (
            [f"r{r}-w0" for r in range(7)],
            "this world only",
            "by lane (7 lanes, replicate x world) and by task (40 shared tasks)",
        ),
        ([f"r0-w{w}" for w in range(7)], "", "clustered by world (7 worlds)"),
    ],
)
def test_verdict_says_what_it_speaks_of(write_run: WriteRun, lanes: list[str], limit: str, reach: str) -> None:
    solved = {"off": 5, "on": 35}
    episodes = [
        make_episode(task < count, task=task, lane=f"{arm}-{lane}")
        for arm, count in solved.items()
        for lane in lanes
        for task in range(40)
    ]
    found = verdict(write_run(episodes))
    assert found.shown
    assert found.sentence.endswith(f"; applies to {limit}" if limit else "worlds")
    assert reach in found.detail[0]


def test_p_that_several_arms_take_away_is_told_beside_the_plain_one(write_run: WriteRun) -> None:
    """Six worlds that all agree have p = 1/64, which four arms cannot be shown with."""
    arms = {"off": 2, "on": 4, "placebo": 3, "frozen": 5, "oracle": 6}
    run = write_run([episode for arm, solved in arms.items() for episode in lanes_of(arm, solved, lanes=6)])
    command = CliRunner().invoke(app, ["compare", str(run), "--arms", ",".join(arms)])
    assert command.stdout.startswith("on vs off: not shown once adjusted: +20 points")
    first = command.stdout.splitlines()[0]
    assert "p = 0.016 (0.062 after Holm's adjustment for 4 arms), over 60 pairs in 6 worlds; " in first
    assert first.endswith("underpowered: no effect size has power 0.8")  # six worlds have no p below 1/64


def test_content_is_not_asked_for_where_only_the_weights_are_shown(write_run: WriteRun) -> None:
    """Both together are, but the question before `is it the content` is whether skills matter."""
    tuned = {
        "model": ModelIdentity("vllm", "m", adapter="sft-v1-0123456789ab", adapter_digest="0123456789abcdef"),
        "suffix": "-a1",
    }
    arms = ("off", "on", "placebo")
    episodes = [e for arm in arms for e in (*lanes_of(arm, 2, suffix="-a0"), *lanes_of(arm, 7, **tuned))]
    found = verdict(write_run(episodes))
    assert found.shown
    assert found.causes == ()
    helped = [e for arm, s in zip(arms, (2, 5, 2), strict=True) for e in lanes_of(arm, s, suffix="-a0")]
    helped += [e for arm, s in zip(arms, (4, 7, 4), strict=True) for e in lanes_of(arm, s, **tuned)]
    assert verdict(write_run(helped, "helped")).causes[0].startswith("against a placebo of the same length")


def test_clustered_error_is_reported(write_run: WriteRun) -> None:
    run = write_run([*lanes_of("off", 2), *lanes_of("on", 5)])
    reported = json.loads(CliRunner().invoke(app, ["compare", str(run), "--json"]).stdout)["comparisons"]
    success = next(each for each in reported if each["metric"] == "success")
    # Every world gains three of ten, so they do not differ at all.
    assert success["standard_error"] == pytest.approx(0.0)
    assert (success["over"], success["worlds"], success["tasks"]) == ("worlds", 8, 80)


@pytest.mark.parametrize(("last", "when"), [(10, "after learning"), (5, "after 5 tasks")])
def test_check_in_the_middle_is_not_called_the_end(write_run: WriteRun, last: int, when: str) -> None:
    episodes = [*lanes_of("off", 2), *lanes_of("on", 7)]
    for arm, solved in (("off", 1), ("on", 4)):
        for check in (0, last):
            for world in range(8):
                episodes += [
                    make_episode(
                        task < (solved if check else 1),
                        task=100 + task,
                        lane=f"{arm}-r0-w{world}",
                        round=check,
                        experience=check,
                        phase="heldout",
                    )
                    for task in range(5)
                ]
    found = verdict(write_run(episodes))
    assert f"{when}, on held-out tasks, 20 % -> 80 %" in found.sentence
    assert any(f"on, the same held-out tasks before -> {when}: " in line for line in found.detail)


def test_planned_arm_without_an_episode_is_named(write_run: WriteRun) -> None:
    found = verdict(write_run([*lanes_of("off", 2), *lanes_of("placebo", 2)]))
    assert found.question == "arms"
    assert found.sentence.endswith("; planned arms without episodes yet: on")
