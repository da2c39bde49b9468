"""What several parts of a study tell together, and what they took."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from synthetic_episodes import make_episode

from hermes_lab.analysis.comparison.study import cost_of, group_finding, part_finding, pool
from hermes_lab.types import Episode, ModelIdentity, Review, Trajectory, Usage

WriteRun = Callable[..., Path]
MODELS = {name: ModelIdentity("scripted", name) for name in ("old", "new")}


def lanes_of(arm: str, solved: int, *, worlds: int = 4, model: str = "old", rounds: int = 2) -> list[Episode]:
    """In each world `rounds` lessons that fail, and checks of four held-out tasks: at first none is solved, then so
    many."""
    lanes = [f"{arm}-r0-w{world}" for world in range(worlds)]
    return [
        *(
            make_episode(False, task=n, lane=lane, phase="learn", model=MODELS[model])
            for lane in lanes
            for n in range(rounds)
        ),
        *(
            make_episode(
                bool(check) and n < solved, task=n, lane=lane, phase="heldout", round=check, model=MODELS[model]
            )
            for lane in lanes
            for check in (0, rounds)
            for n in range(4)
        ),
    ]


def test_worlds_of_several_parts_are_worlds_of_their_own(write_run: WriteRun) -> None:
    runs = [
        ("first", write_run([*lanes_of("off", 0), *lanes_of("on", 4)], "first")),
        ("second", write_run([*lanes_of("off", 2), *lanes_of("on", 2)], "second")),
    ]
    found = group_finding("both", {"old": runs})
    assert found.when == "after learning, on held-out tasks"
    assert {arm: (rate.successes, rate.trials) for arm, rate in found.rates["old"].items()} == {
        "off": (8, 32),
        "on": (24, 32),
    }
    together = found.verdicts["old"]
    assert together.difference == pytest.approx(0.5)
    # Four worlds of each: alone too few for a test over worlds.
    assert "over 32 pairs in 8 worlds" in together.sentence
    assert "in 4 lanes of 4 worlds" in part_finding("first", {"old": runs[0][1]}).verdicts["old"].sentence


def test_last_checks_are_one_however_many_rounds_a_part_has(write_run: WriteRun) -> None:
    runs = [
        ("short", write_run([*lanes_of("off", 0), *lanes_of("on", 3)], "short")),
        ("long", write_run([*lanes_of("off", 0, rounds=5), *lanes_of("on", 3, rounds=5)], "long")),
    ]
    pooled = pool("both", runs)
    checks = pooled[pooled["phase"] == "heldout"]
    assert sorted(checks["round"].unique()) == [0, 5]
    assert group_finding("both", {"old": runs}).rates["old"]["on"][:2] == (24, 32)


def rising(arm: str, first: int, *, worlds: int = 12) -> list[Episode]:
    """Lanes that solve ever more of ten lessons with skills, and all of them without."""
    return [
        make_episode(
            arm == "off" or world < worlds * (1 - 0.5**n), task=n, lane=f"{arm}-r0-w{world + first}", phase="learn"
        )
        for world in range(worlds)
        for n in range(10)
    ]


def test_parts_have_a_curve_together_where_each_has_too_few_lanes(write_run: WriteRun) -> None:
    runs = [(part, write_run([*rising("off", 0), *rising("on", 0)], part)) for part in ("first", "second")]
    (fitted,) = group_finding("both", {"old": runs}).curves.values()
    assert fitted.identified
    assert (fitted.runs, fitted.episodes) == (24, 240), "lanes of arm `on` alone, and all of both parts"
    initial, asymptote = (estimate.value for estimate in fitted.estimates[:2])
    assert initial < 0.1
    assert asymptote > 0.9
    assert part_finding("first", {"old": runs[0][1]}).to_dict()["curves"] == {}


def test_every_set_of_weights_has_its_curve(write_run: WriteRun) -> None:
    runs = [
        msgspec.structs.replace(each, lane=f"{each.lane}-a{number}", model=ModelIdentity("vllm", "m", adapter=adapter))
        for number, adapter in enumerate(("", "sft-v1"))
        for each in rising("on", 0)
    ]
    curves = group_finding("both", {"new": [("first", write_run(runs, "first"))]}).curves
    assert list(curves) == ["new, m untuned", "new, sft-v1"]
    assert [curve.episodes for curve in curves.values()] == [120, 120]


def test_a_lane_with_an_unjudged_end_still_reached_it(write_run: WriteRun) -> None:
    """Otherwise one verifier that fails at the last task would shorten the curve of all lanes."""
    lanes = rising("on", 0)
    lanes[9] = make_episode(None, task=9, lane="on-r0-w0", phase="learn")
    (curve,) = group_finding("both", {"old": [("first", write_run(lanes, "first"))]}).curves.values()
    assert curve.reach == 9
    assert curve.episodes == len(lanes) - 1


def test_weights_and_skills_are_told_apart_over_parts(write_run: WriteRun) -> None:
    runs = {
        model: [
            (part, write_run([*lanes_of("off", off, model=model), *lanes_of("on", on, model=model)], f"{part}-{model}"))
            for part in ("first", "second")
        ]
        for model, off, on in (("old", 0, 0), ("new", 1, 3))
    }
    both = group_finding("both", runs, ("old", "new")).verdicts["old -> new"]
    assert both.question == "skills and weights"
    assert both.sentence.startswith("The effect of skills depends on the weights: no difference shown: +0")
    assert both.comparison
    assert both.comparison.decomposition
    assert both.comparison.decomposition.interaction.difference == pytest.approx(0.5)


def test_what_nobody_compared_is_not_measured(write_run: WriteRun) -> None:
    runs = {"old": [("first", write_run(lanes_of("on", 2), "first"))]}
    assert group_finding("one", runs).verdicts["old"].sentence.startswith("not measured: ")


def test_the_cost_counts_reviews_and_only_time_in_which_something_ran(write_run: WriteRun) -> None:
    review = Review(trajectory=Trajectory((), (), "native", "answered", usage=Usage(100, 7)), seconds=4.0)
    starts = {0: "00:00", 1: "00:01.000000", 2: "01:00"}  # the second while the first runs, the third after a break
    episodes = [make_episode(True, task=n, started_at=f"2026-01-01T00:{at}Z") for n, at in starts.items()]
    episodes.append(make_episode(True, task=3, started_at="2026-01-01T00:01:01Z", review=review))
    part = make_episode(True, trajectory=Trajectory((), (), "native", "answered", usage=Usage(10, 5, uncounted=3)))
    cost = cost_of([write_run(episodes, "one"), write_run([part], "other")])
    assert (cost.episodes, cost.prompt_tokens, cost.completion_tokens) == (5, 50 + 100, 25 + 7)
    assert cost.uncounted_calls == 3
    # 0-3 s, and 60-67 s; in the other run 2 s.
    assert cost.hours == pytest.approx((3 + 7 + 2) / 3600)


def trained(write_run: WriteRun, *solved: int, worlds: int = 4) -> dict[str, list[tuple[str, Path]]]:
    """A run for each training, whose arm `on` solves `solved` of four held-out tasks, one fewer in the last world."""
    runs = {}
    for number, each in enumerate(solved):
        on = lanes_of("on", each, worlds=worlds - 1) + [
            episode
            for episode in lanes_of("on", max(each - 1, 0), worlds=worlds)
            if episode.lane.endswith(f"w{worlds - 1}")
        ]
        runs[f"seed-{number}"] = [("part", write_run([*lanes_of("off", 0, worlds=worlds), *on], f"seed-{number}"))]
    return runs


def test_the_effect_over_trainings_has_what_varies_between_them_in_its_interval(write_run: WriteRun) -> None:
    names = [f"seed-{number}" for number in range(3)]
    alike = group_finding("g", trained(write_run, 3, 3, 3), None, {"all": names}).trainings["all"]
    apart = group_finding("g", trained(write_run, 2, 3, 4), None, {"all": names}).trainings["all"]
    assert alike.over
    assert apart.over
    assert alike.over.mean == apart.over.mean == pytest.approx((3 * 3 + 2) / 16)
    assert dict(apart.effects) == pytest.approx(dict(zip(names, (7 / 16, 11 / 16, 15 / 16), strict=True)))
    assert apart.over.interval.width > 2 * alike.over.interval.width
    assert apart.over.between_rows == pytest.approx(0.25)
    assert "over 3 trainings: +69 points" in apart.sentence()
    assert "by training +44, +69, +94" in apart.sentence()


def test_the_effect_over_trainings_takes_the_worlds_that_all_have(write_run: WriteRun) -> None:
    runs = {"a": trained(write_run, 3, worlds=5)["seed-0"], "b": trained(write_run, 3, 2)["seed-1"]}
    found = group_finding("g", runs, None, {"all": ["a", "b"]}).trainings["all"]
    assert (found.worlds, found.left_out) == (4, 1)
    assert "1 worlds that not all have are left out" in found.sentence()


def test_a_training_that_never_learned_is_not_averaged(write_run: WriteRun) -> None:
    runs = trained(write_run, 3, 3) | {"bare": [("part", write_run(lanes_of("off", 1), "bare"))]}
    found = group_finding("g", runs, None, {"all": list(runs)}).trainings["all"]
    assert found.over is None
    assert found.sentence().startswith("Skills, over trainings: not measured: bare: ")
