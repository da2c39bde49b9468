"""GRPO on reviews survives `kill -9`: the same groups, none twice, and the same adapters."""

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from fakes import killable
from fakes.episodes import write_run
from fakes.grpo_rounds import ROUNDS, content_of, done, made_up_config, made_up_steps, outcome, silent, train
from fakes.review_rounds import MadeUpReviews

from hermes_lab.envs.groups import read_groups
from hermes_lab.records import read_attempts, read_episodes
from hermes_lab.training import grpo
from hermes_lab.training.grpo_config import Batch, GrpoConfig
from hermes_lab.types import Episode

REVIEWS = {"tasks": 1, "followups": 2, "repeats": 2, "listed_cost": 0.001, "body_cost": 0.0001}
KILLS = int(os.environ.get("SIMULATIONS", "5"))
"""`make simulations` has 30."""


class Slowly(MadeUpReviews):
    """Records one rollout after the other, so that kills reach it there too, and goes on from its log."""

    def collect(self, batch: Batch) -> None:
        if batch.reviews is None:
            super().collect(batch)
            return
        groups, values, episodes = self.made(batch)
        recorded = {each.key for each in read_episodes(batch.folder)} if batch.folder.exists() else set()
        for each in episodes:
            if each.key not in recorded:
                time.sleep(0.02)
                write_run(batch.folder, each)
        self.finish(batch, groups, values)


def begun(config: GrpoConfig) -> bool:
    return (Path(config.out) / "checkpoints" / "made_from.json").exists()


def train_there(config: GrpoConfig) -> None:
    """In a process of its own."""
    grpo.take_steps = made_up_steps  # type: ignore[assignment]
    train(config.model_copy(update={"resume": begun(config)}), Slowly(), silent)


def files(out: Path) -> int:
    return sum(1 for _ in out.rglob("*")) if out.exists() else 0


def groups(config: GrpoConfig) -> list[Any]:
    rounds = [read_groups(Path(config.out) / f"round-{n + 1}" / "groups.jsonl") for n in range(ROUNDS)]
    return [list(map(content_of, each)) for each in rounds]


def recorded(config: GrpoConfig) -> list[str]:
    """The keys of all rollouts on disk, each as often as it was recorded."""
    folders = [Path(config.out) / f"round-{n + 1}" / "run" for n in range(ROUNDS)]
    return [each.key for folder in folders for each in read_attempts(folder, Episode)]


def killed(config: GrpoConfig, draws: random.Random) -> bool:
    """Starts the training and kills it once it has written a few more files; False if it ended before."""
    process = killable.process(train_there, config)
    before, more = files(Path(config.out)), draws.randrange(12)
    process.start()
    while process.is_alive() and files(Path(config.out)) <= before + more:
        time.sleep(0.002)
    time.sleep(draws.random() * 0.02)
    process.kill()  # it may have ended by itself
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def test_a_training_killed_at_random_moments_makes_the_same_groups_and_adapters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = made_up_config(tmp_path, monkeypatch, reviews=REVIEWS)
    rollouts = ("suite.name=ledger", "learning.arms=[on]", "learning.worlds=2", "suite.world=10")
    config = config.model_copy(update={"objective": "both", "rollouts": rollouts})
    whole = config.model_copy(update={"out": str(tmp_path / "whole"), "adapters": str(tmp_path / "whole-adapters")})
    train(whole, MadeUpReviews(), silent)
    draws, count, number = random.Random(KILLS), 0, 0
    while True:
        made = {"out": str(tmp_path / f"out-{number}"), "adapters": str(tmp_path / f"adapters-{number}")}
        one = config.model_copy(update=made)
        if count < KILLS and killed(one, draws):
            count += 1
            continue
        train(one.model_copy(update={"resume": begun(one)}), Slowly(), silent)  # ended, or the last one
        assert groups(one) == groups(whole)
        assert len(set(recorded(one))) == len(recorded(one)) == len(recorded(whole))
        assert len({str(group) for each in groups(one) for group in each}) == sum(each.used for each in done(one))
        assert outcome(one) == outcome(whole)
        if count >= KILLS:
            return
        number += 1
