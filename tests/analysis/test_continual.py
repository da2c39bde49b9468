"""Transfer and forgetting: the formulas, and R from the log of a run."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from synthetic_episodes import WriteRun, make_episode

from hermes_lab.analysis.comparison.continual import MEASURES, Transfer, measures, transfer, transfers
from hermes_lab.analysis.data.load import load_episodes
from hermes_lab.types import Episode


def matrices(least: int = 2) -> st.SearchStrategy[np.ndarray]:
    return st.integers(least, 5).flatmap(lambda t: arrays(np.float64, (t + 1, t), elements=st.floats(0, 1, width=16)))


def by_hand(scores: np.ndarray) -> dict[str, float]:
    """The formulas with blocks counted from 1, as they stand in the papers."""
    blocks = scores.shape[1]

    def r(i: int, j: int) -> float:
        return float(scores[i, j - 1])

    earlier = range(1, blocks)
    return {
        "acc": sum(r(blocks, j) for j in range(1, blocks + 1)) / blocks,
        "bwt": sum(r(blocks, j) - r(j, j) for j in earlier) / (blocks - 1),
        "fwt": sum(r(j - 1, j) - r(0, j) for j in range(2, blocks + 1)) / (blocks - 1),
        "forgetting": sum(max(r(k, j) for k in range(1, blocks)) - r(blocks, j) for j in earlier) / (blocks - 1),
        "gain": sum(r(blocks, j) - r(0, j) for j in range(1, blocks + 1)) / blocks,
    }


@given(matrices())
def test_the_measures_are_those_of_the_papers(scores: np.ndarray) -> None:
    assert {name: float(value) for name, value in measures(scores).items()} == pytest.approx(by_hand(scores))


@given(matrices())
def test_forgetting_is_no_less_than_what_backward_transfer_lost(scores: np.ndarray) -> None:
    told = measures(scores)
    assert told["forgetting"] >= -told["bwt"] - 1e-12


@given(matrices(), st.floats(-1, 1))
def test_a_shift_of_all_scores_moves_the_accuracy_alone(scores: np.ndarray, by: float) -> None:
    before, after = measures(scores), measures(scores + by)
    assert float(after["acc"] - before["acc"]) == pytest.approx(by)
    for name in ("bwt", "fwt", "forgetting", "gain"):
        assert float(after[name]) == pytest.approx(float(before[name]))


@given(matrices())
def test_many_matrices_at_once_are_each_measured_alone(scores: np.ndarray) -> None:
    both = measures(np.stack([scores, 1 - scores]))
    for name, value in measures(1 - scores).items():
        assert both[name][1] == pytest.approx(value)


def test_of_one_block_there_is_neither_transfer_nor_forgetting() -> None:
    told = measures(np.array([[0.25], [0.75]]))
    assert (told["acc"], told["gain"]) == (0.75, 0.5)
    assert all(math.isnan(told[name]) for name in ("bwt", "fwt", "forgetting"))


def lane(
    scores: list[list[int]],
    *,
    replicate: int = 0,
    world: int = 0,
    of: int = 10,
    arm: str = "on",
    rounds: int = 2,
    extra: bool = False,
) -> list[Episode]:
    """A lane of blocks of so many rounds; each check solves so many `of` each block's held-out tasks. `extra`: it is
    checked in the middle of blocks, too, where everything fails."""
    blocks, name = len(scores[0]), f"{arm}-r{replicate}-w{world}"
    learnt = [
        make_episode(True, task=n, lane=name, round=n, experience=n, block=n // rounds) for n in range(rounds * blocks)
    ]

    def check(round_: int, solved: list[int]) -> list[Episode]:
        return [
            make_episode(
                task < solved[block],
                task=1000 + 100 * block + task,
                lane=name,
                round=round_,
                experience=round_,
                phase="heldout",
                block=block,
            )
            for block in range(blocks)
            for task in range(of)
        ]

    checks = [episode for stage, solved in enumerate(scores) for episode in check(stage * rounds, solved)]
    middle = [episode for block in range(blocks) for episode in check(block * rounds + 1, [0] * blocks)]
    return learnt + checks + (middle if extra else [])


def measured(write_run: WriteRun, *lanes: list[Episode]) -> Transfer:
    found = transfer(load_episodes(write_run([episode for each in lanes for episode in each])))
    assert found is not None
    return found


SCORES = [[2, 3, 1], [9, 4, 1], [8, 9, 2], [6, 8, 10]]


@pytest.mark.parametrize("extra", [False, True])
def test_r_is_read_from_the_checks_at_the_borders_of_blocks(write_run: WriteRun, extra: bool) -> None:
    found = measured(write_run, lane(SCORES, extra=extra))
    assert found.scores == pytest.approx(np.array(SCORES) / 10)
    for name, value in by_hand(np.array(SCORES) / 10).items():
        estimate = getattr(found, name)
        assert estimate.value == pytest.approx(value)
        assert estimate.interval is None  # one lane
    assert (found.lanes, found.blocks) == (1, 3)


def test_lanes_that_all_agree_have_no_interval_and_those_that_disagree_one_around_it(write_run: WriteRun) -> None:
    same = [lane([[2, 2], [8, 2], [5, 9]], replicate=n, arm="on") for n in range(6)]
    other = [lane([[2, 2], [8, 2], [8 if n % 2 else 2, 9]], replicate=n, arm="placebo") for n in range(6)]
    found = transfers(load_episodes(write_run([e for each in (*same, *other) for e in each])))
    steady, loose = found["skills on"].bwt, found["placebo"].bwt
    assert steady is not None
    assert loose is not None
    assert steady.value == pytest.approx(loose.value) == pytest.approx(-0.3)
    assert steady.interval is None  # a bootstrap of what does not vary tells nothing
    assert loose.interval is not None
    assert loose.interval.low < -0.45
    assert loose.interval.high > -0.15


def test_replicates_of_worlds_that_all_agree_say_as_much_as_one_of_each(write_run: WriteRun) -> None:
    scores = [[[2, 2], [8, 2], [8 if world % 2 else 2, 5 + world % 4]] for world in range(8)]
    once = transfer(load_episodes(write_run([e for w in range(8) for e in lane(scores[w], world=w)], "once")))
    again = [e for w in range(8) for r in range(3) for e in lane(scores[w], world=w, replicate=r)]
    thrice = transfer(load_episodes(write_run(again, "thrice")))
    assert once is not None
    assert thrice is not None
    assert (once.lanes, once.over) == (8, "8 lanes")
    assert (thrice.lanes, thrice.over, thrice.to_dict()["over"]) == (24, "8 worlds", "8 worlds")
    for name in MEASURES:
        one, other = getattr(once, name), getattr(thrice, name)
        assert other.value == pytest.approx(one.value)
        assert other.interval == (one.interval and pytest.approx(one.interval))
    assert thrice.gap is not None
    assert thrice.gap.interval is not None


def test_an_errored_check_is_missing_and_not_failed(write_run: WriteRun) -> None:
    broken = [
        make_episode(None, task=e.round * 1000 + n, lane="on-r0-w0", round=e.round, phase="heldout", status="errored")
        for n, e in enumerate(lane([[5], [10]]))
    ]
    assert measured(write_run, lane([[5], [10]]), broken).scores == pytest.approx(np.array([[0.5], [1.0]]))


def test_what_was_not_checked_is_not_told(write_run: WriteRun) -> None:
    whole = lane([[2, 2], [8, 2], [5, 9]])
    found = measured(write_run, [e for e in whole if not (e.phase == "heldout" and e.round == 2)])
    assert np.isnan(found.scores[1]).all()
    assert found.bwt is found.fwt is found.forgetting is None
    assert found.acc is not None
    assert found.to_dict()["scores"][1] == [None, None]
    assert transfer(load_episodes(write_run([e for e in whole if e.phase == "learn"], "learnt"))) is None


def test_the_gap_is_of_the_last_tasks_learnt_from(write_run: WriteRun) -> None:
    name = "on-r0-w0"
    learnt = [make_episode(n >= 16, task=n, lane=name) for n in range(20)]
    checks = [
        make_episode(n < solved, task=100 + n, lane=name, round=round_, phase="heldout")
        for round_, solved in ((0, 0), (20, 3))
        for n in range(4)
    ]
    found = measured(write_run, learnt, checks)
    assert found.gap is not None
    assert found.gap.value == pytest.approx(1.0 - 0.75)  # the last four were all solved
    assert found.gain is not None
    assert found.gain.value == pytest.approx(0.75)
