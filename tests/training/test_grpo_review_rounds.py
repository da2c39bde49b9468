"""GRPO on reviews, with made-up learning episodes: which groups are trained on, reports, and a kill at any moment."""

import json
from pathlib import Path
from typing import Any

import pytest
from fakes.episodes import scored_group, write_run
from fakes.grpo_rounds import ROUNDS, Killed, countdown, done, made_up_config, outcome, train
from fakes.review_rounds import MadeUpReviews
from msgspec.structs import replace

from hermes_lab.envs.groups import read_groups
from hermes_lab.envs.learning.worth import MeanValue
from hermes_lab.errors import ConfigError
from hermes_lab.models.cards import read_card
from hermes_lab.records import read_episodes
from hermes_lab.training.collected import Collected
from hermes_lab.training.config import Gate
from hermes_lab.training.group_filter import Rules
from hermes_lab.training.grpo import _parts
from hermes_lab.training.grpo_config import GrpoConfig, grpo_lock, training_batch
from hermes_lab.training.grpo_plan import grpo_rows, probe
from hermes_lab.training.lock import load_lock, lock_digest
from hermes_lab.training.review_plan import most_groups

REVIEWS = {"tasks": 1, "followups": 2, "repeats": 2, "listed_cost": 0.001, "body_cost": 0.0001}
ROLLOUTS = ("suite.name=ledger", "learning.arms=[on]", "learning.worlds=2", "suite.world=10")


def on_reviews(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, objective: str = "review", **lock: Any) -> GrpoConfig:
    config = made_up_config(tmp_path, monkeypatch, **({"reviews": REVIEWS} | lock))
    return config.model_copy(update={"objective": objective, "rollouts": ROLLOUTS})


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GrpoConfig:
    return on_reviews(tmp_path, monkeypatch)


def test_each_round_is_trained_on_reviews_and_says_what_they_are_worth(config: GrpoConfig) -> None:
    said: list[str] = []
    sampler = MadeUpReviews()
    last = train(config, sampler, said.append)
    rounds = done(config)
    assert [each.reviews and each.reviews.value for each in rounds] == [0.25] * ROUNDS
    assert [(each.used, each.reward) for each in rounds] == [(2, 0.25)] * ROUNDS
    kinds = {
        group.kind for n in range(ROUNDS) for group in read_groups(Path(config.out) / f"round-{n + 1}/groups.jsonl")
    }
    assert kinds == {"review"}
    assert any(
        "round 1/3: mean value of a review +0.250 (+0.250 success, no cost), standard error 0.000 over 2 learning "
        "episodes; 2 of 4 reviews changed the library, "
        "0 % -> 50 % of follow-ups solved; trained on 2 groups of reviews and 0 of follow-ups" in line
        for line in said
    )
    assert "mean value of a review +0.250 -> +0.250 -> +0.250" in said[-1]
    rows = [json.loads(line) for line in (Path(config.out) / "metrics.jsonl").read_text().splitlines()]
    assert [row["review_value"] for row in rows if "loss" in row] == [0.25] * ROUNDS
    assert [row["review_value_error"] for row in rows if "loss" in row] == [0.0] * ROUNDS
    assert read_card(last).metrics["review_value"] == 0.25
    assert read_card(last).metrics["review_value_error"] == 0.0
    learning = [batch for batch in sampler.batches if batch.reviews]
    assert [(batch.tasks, batch.samples, batch.first_world) for batch in learning] == [
        (2, 2, 10),
        (2, 2, 12),
        (2, 2, 14),
    ]
    assert {batch.draw.worlds for batch in learning} == {2}


def test_both_kinds_are_trained_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = on_reviews(tmp_path, monkeypatch, "both")
    train(config, MadeUpReviews())
    assert [each.used for each in done(config)] == [4] * ROUNDS
    groups = read_groups(Path(config.out) / "round-1" / "groups.jsonl")
    assert sorted(group.kind for group in groups) == ["review", "review", "solve", "solve"]


def test_what_gave_no_group_is_counted_and_on_the_card(config: GrpoConfig) -> None:
    last = train(config, MadeUpReviews(refused={"without a review": 3}))
    assert [each.refused for each in done(config)] == [{"without a review": 3}] * ROUNDS
    assert read_card(last).refused == {"without a review": 3}


def test_refusals_of_groups_and_of_what_gave_none_add_up(config: GrpoConfig) -> None:
    with pytest.raises(ConfigError, match=r"in round 1 \(5 with equal rewards\)"):
        train(config, MadeUpReviews(dull=(1, 2, 3), refused={"with equal rewards": 3}))


def test_a_round_of_which_little_is_used_warns_with_advice_for_reviews(config: GrpoConfig) -> None:
    said: list[str] = []
    train(config.model_copy(update={"objective": "both"}), MadeUpReviews(refused={"without a review": 6}), said.append)
    (warned,) = [line for line in said if "round 1/3: warning" in line]
    assert "round 1/3: warning: reviews: only 2 of 8 groups are trained on" in warned
    assert "work that ends without an answer is not reviewed: agent.max_iterations above" in warned


def test_follow_ups_that_are_all_alike_get_advice_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough groups are used in all, but none of follow-ups."""
    said: list[str] = []
    train(on_reviews(tmp_path, monkeypatch, "both"), MadeUpReviews(solves=False), said.append)
    (warned,) = [line for line in said if "round 1/3: warning" in line]
    assert "round 1/3: warning: follow-ups: only 0 of 2 groups are trained on. Try: (1) " in warned
    assert "easier tasks" in warned
    assert "reviews of a task" not in warned


def test_reviews_of_which_none_made_a_group_are_a_kind_of_their_own() -> None:
    """Otherwise nothing warns of them while follow-ups are trained on."""
    follow = scored_group()
    nothing = MeanValue(reviews=0, wrote=0, value=0.0, uplift=0.0)
    rules = Rules(len(follow.episodes), 100, [follow.policy], [follow.split])
    parts = _parts(Collected([follow], {"with a rewritten prompt": 2}, nothing), rules, [])
    assert {kind: (part.used, part.refused) for kind, part in parts.items()} == {
        "review": (0, {"with a rewritten prompt": 2}),
        "solve": (1, {}),
    }
    assert list(_parts(Collected([follow], {"without a scored rollout": 2}), rules, [])) == ["solve"]


def probed(config: GrpoConfig, sampler: MadeUpReviews, tmp_path: Path, groups: int = 2) -> dict[str, str]:
    return dict(probe(config, load_lock(Path(config.lock)), sampler, groups, tmp_path / "probe"))


def test_a_probe_runs_whole_learning_episodes_and_counts_their_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = on_reviews(tmp_path, monkeypatch, reviews=REVIEWS | {"tasks": 2})
    sampler = MadeUpReviews()
    rows = probed(config, sampler, tmp_path, 3)
    assert [batch.tasks for batch in sampler.batches] == [2]
    asked = "3 were asked for, and a learning episode gives 2"
    assert rows["probe"].startswith(f"4 of 4 groups usable ({asked}): mean value of a review")
    assert "about 2.0 of 2 in a round, none with probability 0 %" in rows["probe"]


def test_a_probe_refuses_what_the_training_would_hold_out(config: GrpoConfig, tmp_path: Path) -> None:
    config = config.model_copy(update={"heldout": ()})
    batch = training_batch(config, load_lock(Path(config.lock)), 1, "", tmp_path / "before")
    MadeUpReviews().collect(batch)
    follow = [episode for episode in read_episodes(tmp_path / "before") if episode.phase == "heldout"]
    write_run(tmp_path / "judged", *[replace(episode, review=None) for episode in follow[:1]])
    rows = probed(
        config.model_copy(update={"gate": Gate(held_out=(str(tmp_path / "judged"),))}), MadeUpReviews(), tmp_path
    )
    assert rows["probe"].startswith("1 of 2 groups usable")
    assert rows["usable"].endswith("refused: held out 1")


def test_a_probe_of_reviews_has_their_signal_and_advice(config: GrpoConfig, tmp_path: Path) -> None:
    rows = probed(config, MadeUpReviews(refused={"without a review": 3}), tmp_path)
    assert rows["probe"].startswith("2 of 2 groups usable: mean value of a review +0.250")
    assert rows["usable"] == "2/5 (12-77 %) groups can be trained on; refused: without a review 3"
    assert rows["variance"].startswith("of rewards: 0.125 within groups")
    assert rows["knowledge"] == "reviews: 2/5 (12-77 %) groups usable"
    assert rows["advice"].startswith("(1) work that ends without an answer is not reviewed")


def test_a_probe_of_reviews_that_are_worth_the_same_is_refused_with_advice(config: GrpoConfig, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"probe: no usable group in round 1 \(2 with equal.*all reviews of a task"):
        probed(config, MadeUpReviews(dull=(1,)), tmp_path)


def test_reviews_that_are_all_worth_the_same_stop_the_training_with_advice(config: GrpoConfig) -> None:
    with pytest.raises(
        ConfigError,
        match=r"in round 1 \(2 with equal rewards\): mean value of a review \+0\.000 .*all reviews of a task",
    ) as stopped:
        train(config, MadeUpReviews(dull=(1, 2, 3)))
    assert "rollouts solved" not in str(stopped.value)


def test_work_that_is_never_reviewed_stops_the_training_with_advice(config: GrpoConfig) -> None:
    with pytest.raises(ConfigError, match=r"work that ends without an answer is not reviewed"):
        train(config, MadeUpReviews(dull=(1, 2, 3), refused={"without a review": 8}))


def test_a_review_whose_follow_ups_are_held_out_is_not_trained_on(config: GrpoConfig, tmp_path: Path) -> None:
    sampler = MadeUpReviews()
    config = config.model_copy(update={"heldout": ()})
    batch = training_batch(config, load_lock(Path(config.lock)), 2, "", tmp_path / "probe")
    sampler.collect(batch)
    follow = [episode for episode in read_episodes(tmp_path / "probe") if episode.phase == "heldout"]
    write_run(tmp_path / "judged", *[replace(episode, review=None) for episode in follow[:1]])
    train(config.model_copy(update={"gate": Gate(held_out=(str(tmp_path / "judged"),))}), MadeUpReviews())
    assert [each.refused for each in done(config)] == [{}, {"held out": 1}, {}]


@pytest.mark.parametrize("writes", range(0, 40, 3))
def test_a_training_killed_before_any_write_resumes_to_the_very_same_adapters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    config = on_reviews(tmp_path, monkeypatch, "both")
    with monkeypatch.context() as patch:
        countdown(patch, writes)
        try:
            train(config, MadeUpReviews())
        except Killed:
            config = config.model_copy(update={"resume": True})
    if config.resume:
        begun = (Path(config.out) / "checkpoints" / "made_from.json").exists()
        train(config.model_copy(update={"resume": begun}), MadeUpReviews())
    whole = config.model_copy(
        update={"out": str(tmp_path / "whole"), "adapters": str(tmp_path / "other"), "resume": False}
    )
    train(whole, MadeUpReviews())
    assert outcome(config) == outcome(whole)


@pytest.mark.parametrize(
    ("objective", "lock", "changes", "message"),
    [
        ("review", {"reviews": None}, {}, "has no section reviews"),
        ("review", {"reviews": REVIEWS | {"tasks": 3}}, {}, "groups_per_round is 2, not a multiple of reviews.tasks 3"),
        ("both", {"reviews": REVIEWS | {"repeats": 3}}, {}, "repeats is 3 and grpo.group_size 2"),
        (
            "review",
            {},
            {"families": {"a": ("suite.options.ruled=1",)}},
            "families: not supported with objective=review",
        ),
        ("review", {}, {"rollouts": ("suite.name=ledger", "learning.arms=[off]")}, "rollouts: learning.arms: off"),
        ("review", {}, {"rollouts": ("suite.name=ledger", "learning.arms=[placebo]")}, "teach nothing"),
        (
            "review",
            {},
            {"rollouts": (*ROLLOUTS, "env.knowledge=mixed")},
            "rollouts: env.knowledge: is mixed",
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    objective: str,
    lock: dict[str, Any],
    changes: dict[str, Any],
    message: str,
) -> None:
    config = on_reviews(tmp_path, monkeypatch, objective, **lock).model_copy(update=changes)
    with pytest.raises(ConfigError, match=message):
        train(config, MadeUpReviews())
    assert not Path(config.out).exists()


def test_the_plan_says_how_many_rollouts_reviews_take_and_how_well_they_are_measured(config: GrpoConfig) -> None:
    locked = load_lock(Path(config.lock))
    grpo = grpo_lock(config, locked)
    rows = dict(grpo_rows(config, locked, grpo))
    assert rows["rounds"].startswith(
        "3, each 2 learning episodes: a task with 2 reviews at temperature 1, so 2 groups of reviews; then 1 step on "
        "the usable groups: 3 steps"
    )
    assert "2 rollouts a round if no review writes anything, at most 26, 78 in all" in rows["follow-ups"]
    assert "its standard deviation is 0.32 where skills change 20 % -> 50 %, which 36 follow-ups" in rows["reward"]
    assert "worlds 10 to 15, 2 a round" in rows["tasks"]
    assert rows["usable"].endswith("depends on what the reviews write: add --probe N")
    assert "variance" not in rows
    assert most_groups(config, locked, grpo) == 2
    both = config.model_copy(update={"objective": "both"})
    assert most_groups(both, locked, grpo) == 2 + 2 * 2 * 3


def test_another_objective_is_another_training(config: GrpoConfig) -> None:
    train(config, MadeUpReviews())
    with pytest.raises(ConfigError, match="was started with another objective"):
        train(config.model_copy(update={"objective": "both", "resume": True}), MadeUpReviews())


def test_a_lock_without_the_section_keeps_its_digest(config: GrpoConfig) -> None:
    lock = load_lock(Path(config.lock))
    bare = lock.model_copy(update={"reviews": None})
    assert "reviews" not in bare.content()
    assert lock_digest(bare) != lock_digest(lock)
