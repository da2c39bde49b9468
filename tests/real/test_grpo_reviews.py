"""GRPO on groups of reviews with a tiny model on a CPU: the direction of the steps, and a kill in them."""

import multiprocessing
import signal
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fakes.training import TRAINING, killed_at, smoke_lock
from msgspec.structs import replace
from test_grpo import TEMPERATURE, TinySampler, base, gains, rewards

from hermes_lab.envs.groups import build_groups, read_groups, write_groups
from hermes_lab.envs.learning.groups import LearningGroups
from hermes_lab.envs.learning.records import GROUPS, write_learned
from hermes_lab.models.adapters import adapter_digest
from hermes_lab.records import read_episodes
from hermes_lab.training.grpo import train_grpo
from hermes_lab.training.grpo_config import Batch, GrpoConfig

pytestmark = TRAINING

__all__ = ["base"]


@pytest.fixture
def config(base: Path, tmp_path: Path) -> GrpoConfig:
    """Two rounds of two steps, on two groups of four reviews."""
    lock = smoke_lock(
        tmp_path,
        "grpo",
        base_model=str(base),
        tokenizer=str(base),
        total_steps=4,
        learning_rate=0.01,
        grpo={"steps_per_round": 2, "steps_per_eval": 2, "temperature": TEMPERATURE},
        reviews={"tasks": 1, "followups": 2, "repeats": 1, "listed_cost": 0.001, "body_cost": 0.0001},
    )
    return GrpoConfig(
        lock=lock,
        objective="review",
        adapters=str(tmp_path / "adapters"),
        out=str(tmp_path / "out"),
        rollouts=("suite.name=ledger", "learning.arms=[on]"),
    )


class TinyReviewer(TinySampler):
    """Samples from the very model; what it sampled for a task are the reviews of one episode."""

    def collect(self, batch: Batch) -> None:
        super().collect(batch)
        groups = [
            replace(group, kind="review", episodes=(group.episodes[0],) * len(group.episodes))
            for group in build_groups(read_episodes(batch.folder))
        ]
        write_groups(groups, batch.folder / GROUPS)
        write_learned(batch.folder, LearningGroups(groups, [], {}))


def train(config: GrpoConfig, sampler: TinyReviewer | None = None) -> Path:
    made = sampler or TinyReviewer(config)

    @contextmanager
    def opened(*_: Any) -> Any:
        yield made

    return train_grpo(config, opened, print)


def test_steps_move_the_policy_towards_the_reviews_that_were_worth_more(config: GrpoConfig) -> None:
    train(config)
    groups = read_groups(Path(config.out) / "round-1" / "groups.jsonl")
    assert {group.kind for group in groups} == {"review"}
    before, after = gains(config, groups, None), gains(config, groups, Path(config.adapters) / "grpo-v1")
    for gained, reward in zip((b - a for a, b in zip(before, after, strict=True)), rewards(groups), strict=True):
        assert gained > 0 if reward else gained < 0


def die_at(config: GrpoConfig, step: int) -> None:
    """In a process of its own."""
    killed_at(step)
    train(config)


def test_a_training_on_reviews_killed_in_its_steps_resumes_to_the_very_same_adapter(
    config: GrpoConfig, tmp_path: Path
) -> None:
    process = multiprocessing.get_context("spawn").Process(target=die_at, args=(config, 4))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    resumed = train(config.model_copy(update={"resume": True}))
    whole = config.model_copy(update={"adapters": str(tmp_path / "whole"), "out": str(tmp_path / "other")})
    assert adapter_digest(resumed) == adapter_digest(train(whole))
