"""`hermes-lab train rounds`: the rounds of a training, from its folder alone."""

import json
from pathlib import Path

import pytest
from fakes.command import lab

from hermes_lab.envs.learning.worth import MeanValue
from hermes_lab.training.rounds import Check, FinishedRound, Policy, Rounds

SHIPPED, FIRST = Policy("packaged_adapter", "a" * 64), Policy("runs/adapters/mine-v1", "b" * 64)
VALUE = MeanValue(reviews=16, wrote=4, value=0.125, uplift=0.25, with_=0.75, without=0.5, episodes=4, error=0.0625)


def round_(number: int, policy: Policy, **fields: object) -> FinishedRound:
    given = {"steps": 2 * number, "used": 3, "refused": {"with equal rewards": 1}, "reward": 0.5, "length": 46.9375}
    return FinishedRound(round=number, policy=policy, version=FIRST, seconds=60.0, **(given | fields))  # type: ignore[arg-type]


@pytest.fixture
def training(tmp_path: Path) -> Rounds:
    rounds = Rounds(tmp_path / "grpo")
    rounds.finish(round_(1, SHIPPED))
    rounds.finish(round_(2, FIRST, used=0, refused={"with equal rewards": 3, "without a review": 1}, reward=-0.25))
    return rounds


def cells(out: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in out.splitlines()]


def test_a_row_for_each_round_and_a_line_for_each_evaluation(training: Rounds) -> None:
    training.finish_check(Check(step=0, policy="a", heldout_success=0.5, heldout_tasks=8))
    done = lab("train", "rounds", training.out)
    assert done.returncode == 0, done.stderr
    assert cells(done.stdout) == [
        ["ROUND", "POLICY", "GROUPS USED", "REWARD", "SOLVED", "TOKENS"],
        ["1", "packaged_adapter", "3/4", "+0.500", "-", "47"],
        ["2", "mine-v1", "0/4", "-0.250", "-", "47"],
        ["step 0: 4 of 8 held-out tasks solved, 50 %"],
    ]


def test_reviews_have_columns_of_their_own(training: Rounds) -> None:
    training.finish(round_(3, FIRST, reviews=VALUE))
    header, first, _, third = cells(lab("train", "rounds", training.out).stdout)
    assert header[-3:] == ["VALUE OF A REVIEW", "WROTE", "FOLLOW-UPS SOLVED"]
    assert first[-3:] == ["-", "-", "-"]
    assert third[-3:] == ["+0.125 ± 0.062", "4/16", "50 % -> 75 %"]


def test_json_has_every_record_and_why_it_stopped(training: Rounds) -> None:
    training.stop("no usable group", round_(2, FIRST, steps=0))
    found = json.loads(lab("train", "rounds", training.out, "--json").stdout)
    assert [each["round"] for each in found["rounds"]] == [1, 2]
    assert found["rounds"][1]["refused"] == {"with equal rewards": 3, "without a review": 1}
    assert found["stopped"] == "no usable group"
    assert "stopped early: no usable group" in lab("train", "rounds", training.out).stdout


def test_a_folder_without_a_round_and_a_damaged_record_are_said_in_a_line(training: Rounds, tmp_path: Path) -> None:
    none = lab("train", "rounds", tmp_path)
    assert none.returncode == 2
    assert "no finished round of a GRPO training; give the `out`" in none.stderr
    (training.folder(2) / "done.json").write_text('{"round": 2')
    damaged = lab("train", "rounds", training.out)
    assert damaged.returncode == 2
    assert "round-2/done.json: not a record of a GRPO training" in damaged.stderr
    assert len(damaged.stderr.splitlines()) == 1
