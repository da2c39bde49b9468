from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fakes.paired_frames import experiment
from synthetic_episodes import make_episode

from hermes_lab.analysis.comparison.compare import compare_arms, compare_runs
from hermes_lab.analysis.comparison.decomposition import TwoByTwo, decompose
from hermes_lab.analysis.data.load import load_episodes
from hermes_lab.errors import ConfigError
from hermes_lab.lane import lane_key
from hermes_lab.types import Episode, ModelIdentity

WriteRun = Callable[..., Path]
BASE, TUNED = (
    ModelIdentity("vllm", "packaged"),
    ModelIdentity("vllm", "packaged", adapter="sft-v1-0123456789ab", adapter_digest="0123456789abcdef"),
)


def corner(arm: str, weights: int, solved: int, *, lane_names_weights: bool = True) -> list[Episode]:
    """One corner in a lane of each of eight worlds, which differ a little from each other."""
    suffix = f"-a{weights}" if lane_names_weights else ""
    return [
        make_episode(
            task < solved + replicate % 2,
            task=task,
            lane=f"{arm}-r0-w{replicate}{suffix}",
            model=(BASE, TUNED)[weights],
        )
        for replicate in range(8)
        for task in range(12)
    ]


def world_of(episode: Episode) -> int:
    return lane_key(episode.lane).world


def table(write_run: WriteRun, off: tuple[int, int], on: tuple[int, int]) -> TwoByTwo:
    """The 2x2 of a run: solved of 12 under the first and the second weights."""
    episodes = [e for w in (0, 1) for arm, solved in (("off", off), ("on", on)) for e in corner(arm, w, solved[w])]
    return decompose(load_episodes(write_run(episodes)))


def test_weights_alone_are_not_taken_for_skills(write_run: WriteRun) -> None:
    found = table(write_run, off=(2, 8), on=(2, 8))
    assert found.weights.difference == pytest.approx(0.5)
    assert (found.weights.shown, found.skills.shown, found.interaction.shown) == (True, False, False)
    assert found.sentence().startswith("The weights made a difference; no effect of skills shown: combined +50 points")
    assert (found.places, found.lanes) == (96, 8)


def test_skills_alone_are_not_taken_for_weights(write_run: WriteRun) -> None:
    found = table(write_run, off=(2, 2), on=(8, 8))
    assert (found.weights.shown, found.skills.shown, found.interaction.shown) == (False, True, False)
    assert found.sentence().startswith("The skills made a difference; no effect of the weights shown")


def test_two_main_effects_share_out_the_whole(write_run: WriteRun) -> None:
    found = table(write_run, off=(1, 5), on=(5, 9))
    assert found.both.difference == pytest.approx(8 / 12)
    assert found.weights.difference + found.skills.difference == pytest.approx(found.both.difference)
    assert found.sentence().startswith("Both the weights and the skills made a difference: combined +67 points")


def test_skills_that_only_help_the_tuned_weights_are_an_interaction(write_run: WriteRun) -> None:
    found = table(write_run, off=(3, 3), on=(3, 9))
    assert found.interaction.difference == pytest.approx(0.5)
    assert found.interaction.shown
    assert (found.skills_before.shown, found.skills_after.shown) == (False, True)


def test_three_questions_are_adjusted_together(write_run: WriteRun) -> None:
    found = table(write_run, off=(2, 2), on=(8, 8))
    assert found.skills.p_value == pytest.approx(1 / 2**8)
    assert found.skills.p_adjusted == pytest.approx(3 / 2**8)


def test_corners_are_over_the_tasks_that_all_four_have(write_run: WriteRun) -> None:
    episodes = [e for w in (0, 1) for arm in ("off", "on") for e in corner(arm, w, 5)]
    missing = [e for e in episodes if not (e.task_id == "t3" and e.lane == "on-r0-w1-a1")]
    found = decompose(load_episodes(write_run(missing)))
    assert found.places == 95
    assert {rate.trials for row in found.corners for rate in row} == {95}


def test_two_runs_are_decomposed_as_one_with_both_weights(write_run: WriteRun) -> None:
    solved = {("off", 0): 2, ("on", 0): 4, ("off", 1): 7, ("on", 1): 9}
    runs = [
        write_run([e for arm in ("off", "on") for e in corner(arm, w, solved[arm, w], lane_names_weights=False)], name)
        for w, name in enumerate(("base", "tuned"))
    ]
    one = write_run([e for (arm, w), count in solved.items() for e in corner(arm, w, count)], "one")
    of_two, of_one = compare_runs(*runs).decomposition, compare_arms(one, "off", "on").decomposition
    assert of_two is not None
    assert of_two.to_dict() == (of_one.to_dict() if of_one else None)
    assert of_two.weights_names == ("packaged untuned", "sft-v1")


def test_weights_are_in_the_order_of_the_configuration_and_not_of_finishing(write_run: WriteRun) -> None:
    episodes = [e for w in (1, 0) for arm in ("off", "on") for e in corner(arm, w, (2, 8)[w])]
    assert decompose(load_episodes(write_run(episodes))).weights.difference > 0


def test_missing_corner_is_named(write_run: WriteRun) -> None:
    episodes = [*corner("off", 0, 2), *corner("on", 0, 2), *corner("off", 1, 2)]
    with pytest.raises(ConfigError, match="sft-v1: no judged episode of arm 'on'; a 2x2 needs all four cells"):
        decompose(load_episodes(write_run(episodes)))


def test_one_set_of_weights_is_no_factor(write_run: WriteRun) -> None:
    with pytest.raises(ConfigError, match="needs two sets of weights, not 1"):
        decompose(load_episodes(write_run(corner("off", 0, 2))))
    runs = [write_run(corner("off", 0, 2), name) for name in ("a", "b")]
    with pytest.raises(ConfigError, match="are not two different sets of weights"):
        decompose(load_episodes(*runs))


def test_interaction_keeps_its_level_beside_strong_main_effects() -> None:
    """Forty null experiments; tests/real makes more of them."""
    found = [
        decompose(experiment({"off": 0.5, "on": 0.5}, lanes=12, tasks=8, luck=0.7, weights=2, seed=seed)).interaction
        for seed in range(40)
    ]
    assert np.mean([effect.p_value < 0.05 for effect in found]) <= 0.15
    assert np.mean([effect.interval.low <= 0 <= effect.interval.high for effect in found]) >= 0.85


def test_effects_that_cross_are_told_under_each_set_of_weights(write_run: WriteRun) -> None:
    """Corners of 3, 9, 9 and 3 of 12: no factor matters on the average, and each does where the other stands still."""
    found = table(write_run, off=(3, 9), on=(9, 3))
    assert (found.weights.shown, found.skills.shown, found.interaction.shown) == (False, False, True)
    assert found.sentence().startswith("The effect of skills depends on the weights: +50 points")
    assert "under packaged untuned; -50 points" in found.sentence()
    assert "interaction -100 points" in found.sentence()
    assert "neither" not in found.sentence().lower()


def test_nothing_that_matters_is_said_in_english(write_run: WriteRun) -> None:
    sentence = table(write_run, off=(5, 5), on=(5, 5)).sentence()
    assert sentence.startswith("No effect of the weights or the skills shown: combined +0 points")


def test_change_that_neither_factor_is_shown_to_make_is_still_a_change(write_run: WriteRun) -> None:
    """Five of six worlds agree and one stays the same, which gives p = 1/32: enough for the whole, and once adjusted
    not for a part."""
    corners = [(arm, weights) for arm in ("off", "on") for weights in (0, 1)]
    changing = [e for arm, weights in corners for e in corner(arm, weights, 2 + 3 * (arm == "on") + 2 * weights)]
    same = [e for arm, weights in corners for e in corner(arm, weights, 2)]
    episodes = [e for e in changing if world_of(e) < 5] + [e for e in same if world_of(e) == 5]
    found = decompose(load_episodes(write_run(episodes)))
    assert (found.both.shown, found.weights.shown, found.skills.shown) == (True, False, False)
    assert found.sentence().startswith("Weights and skills together made a difference; not shown which of them: ")
    assert str(found.skills).startswith("not shown once adjusted: +21 points (")
    assert str(found.skills).endswith("p = 0.031 (0.094 after Holm's adjustment for 3 tests)")


def test_factor_that_only_the_adjustment_takes_away_is_said_to_be_one(write_run: WriteRun) -> None:
    """Weights change in all six worlds, p = 1/64, and skills in five, p = 1/32."""
    corners = [(arm, weights) for arm in ("off", "on") for weights in (0, 1)]
    episodes = [
        episode
        for arm, weights in corners
        for episode in corner(arm, weights, 2 + 5 * weights + (arm == "on"))
        if world_of(episode) < 5
    ]
    episodes += [e for arm, weights in corners for e in corner(arm, weights, 2 + 5 * weights) if world_of(e) == 5]
    found = decompose(load_episodes(write_run(episodes)))
    assert (found.weights.shown, found.skills.shown) == (True, False)
    assert (found.skills.p_value, found.skills.p_adjusted) == (1 / 32, 2 / 32)
    assert found.sentence().startswith("The weights made a difference; no effect of skills shown once adjusted: ")


def test_replicates_of_a_world_move_together_in_the_table() -> None:
    frame = experiment({"off": 0.4, "on": 0.6}, lanes=24, tasks=5, worlds=8, weights=2, common=1.0, seed=0)
    copies, once = decompose(frame), decompose(frame[frame["replicate"] % 3 == 0])
    assert copies.counted == "120 sets of four in 8 worlds"
    assert copies.skills.p_value == once.skills.p_value
