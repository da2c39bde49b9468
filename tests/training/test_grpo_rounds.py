"""The rounds of a GRPO training, with made-up rollouts and steps: what is refused, and a kill at any moment."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from fakes.episodes import episode, write_run
from fakes.grpo_rounds import (
    ROUNDS,
    Killed,
    MadeUp,
    countdown,
    done,
    made_up_config,
    outcome,
    silent,
    train,
)
from msgspec.structs import replace

from hermes_lab.errors import ConfigError, ModelError
from hermes_lab.models.cards import read_card
from hermes_lab.records import write_json
from hermes_lab.training.config import Gate
from hermes_lab.training.grpo_config import Batch, GrpoConfig, heldout_batch, load_grpo_config, training_batch
from hermes_lab.training.lock import load_lock, write_lock
from hermes_lab.training.rounds import Check, Rounds, RoundTraining


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GrpoConfig:
    return made_up_config(tmp_path, monkeypatch)


def test_each_round_is_sampled_by_the_version_before_it(config: GrpoConfig) -> None:
    rollouts = MadeUp()
    last = train(config, rollouts)
    rounds = done(config)
    assert [Path(each.version.folder).name for each in rounds] == ["grpo-v1", "grpo-v2", "grpo-v3"]
    assert [each.policy for each in rounds[1:]] == [each.version for each in rounds[:-1]]
    assert last == Path(rounds[-1].version.folder)
    assert [read_card(Path(each.version.folder)).parent for each in rounds] == ["", "grpo-v1", "grpo-v2"]
    made_from = json.loads((Path(config.out) / "checkpoints" / "made_from.json").read_text())
    assert [read_card(Path(each.version.folder)).tokenizer_digest for each in rounds] == [made_from["tokenizer"]] * 3
    lessons = [batch for batch in rollouts.batches if batch.config.suite.split == "train"]
    assert [batch.first_world for batch in lessons] == [10, 12, 14]
    assert [batch.config.suite.seed for batch in lessons] == [1, 2, 3]
    assert rollouts.retired == ["grpo-v1"]  # once its successor is served


def test_held_out_tasks_are_run_before_between_and_after(config: GrpoConfig) -> None:
    train(config, MadeUp())
    rows = [json.loads(line) for line in (Path(config.out) / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if "heldout_success" in row] == [0, 2, 3]
    assert [(row["step"], row["reward"], row["length"]) for row in rows if "loss" in row] == [
        (step, 0.5, 1.0) for step in (1, 2, 3)
    ]


def test_a_round_without_a_usable_group_keeps_the_adapter(config: GrpoConfig) -> None:
    said: list[str] = []
    train(config, MadeUp(dull=(2,)), said.append)
    rounds = done(config)
    assert rounds[1].refused == {"with equal rewards": 2}
    assert rounds[1].version == rounds[0].version == rounds[2].policy
    assert [each.steps for each in rounds] == [1, 1, 2]
    assert any("no usable group; the adapter is unchanged" in line for line in said)


def test_no_usable_group_in_the_first_round_is_an_error(config: GrpoConfig) -> None:
    with pytest.raises(ConfigError, match="no usable group in round 1 "):
        train(config, MadeUp(dull=(1, 2, 3)))


def test_a_group_that_lost_a_rollout_is_left_out(config: GrpoConfig) -> None:
    config = config.model_copy(update={"heldout": ()})
    train(config, MadeUp(errored=1))
    assert [each.refused for each in done(config)] == [{"with errored rollouts": 1}] * ROUNDS


@pytest.mark.parametrize("lost", ["errored", "unjudged"])
def test_a_task_without_a_scored_rollout_is_counted(config: GrpoConfig, lost: str) -> None:
    train(config.model_copy(update={"heldout": ()}), MadeUp(**{lost: 2}))
    for each in done(config):
        assert (each.used, each.refused) == (1, {"without a scored rollout": 1})
        assert read_card(Path(each.version.folder)).refused == each.refused


def test_a_held_out_task_that_nothing_judged_is_no_failure(config: GrpoConfig) -> None:
    said: list[str] = []
    train(config, MadeUp(unjudged=1), said.append)
    check = Rounds(Path(config.out)).check(0)
    assert check is not None
    assert (check.heldout_success, check.heldout_tasks, check.heldout_unscored) == (1.0, 1, 1)
    assert "step 0: 1 of 1 held-out tasks solved, 100 % (21-100 %), 1 errored or not judged" in said


def test_a_lock_that_is_replaced_under_way_changes_nothing(config: GrpoConfig, tmp_path: Path) -> None:
    values = yaml.safe_load((tmp_path / "values.yaml").read_text())
    values["grpo"] |= {"temperature": 1.9, "max_reply_tokens": 7}
    (tmp_path / "other-values.yaml").write_text(yaml.safe_dump(values))
    write_lock(tmp_path / "other-values.yaml", tmp_path / "other.yaml")

    class Replaces(MadeUp):
        def collect(self, batch: Batch) -> None:
            super().collect(batch)
            shutil.copy(tmp_path / "other.yaml", config.lock)

    rollouts = Replaces()
    train(config, rollouts)
    sampled = [batch.config.model.sampling for batch in rollouts.batches if batch.config.suite.split == "train"]
    assert [(sampling.temperature, sampling.max_tokens) for sampling in sampled] == [(1.0, 192)] * ROUNDS
    with pytest.raises(ConfigError, match="was started with another lock"):
        train(config.model_copy(update={"resume": True}), MadeUp())


def test_a_task_that_versions_are_judged_by_is_not_trained_on(config: GrpoConfig, tmp_path: Path) -> None:
    rollouts = MadeUp()
    config = config.model_copy(update={"heldout": ()})
    rollouts.collect(training_batch(config, load_lock(Path(config.lock)), 2, "", tmp_path / "judged"))
    train(config.model_copy(update={"gate": Gate(held_out=(str(tmp_path / "judged"),))}), MadeUp())
    assert [each.refused for each in done(config)] == [{}, {"held out": 2}, {}]


def test_a_policy_that_is_older_than_the_lock_lets_is_refused(config: GrpoConfig) -> None:
    """The lock lets none: every round is of the newest version."""

    class Stale(MadeUp):
        def collect(self, batch: Batch) -> None:
            number = batch.config.suite.seed
            if batch.config.suite.split == "train" and number == 3:  # by the version before the newest
                model = batch.config.model.model_copy(update={"adapter": f"{config.adapters}/grpo-v1"})
                batch = batch._replace(config=batch.config.model_copy(update={"model": model}))
            super().collect(batch)

    train(config.model_copy(update={"heldout": ()}), Stale())
    assert [each.refused for each in done(config)] == [{}, {}, {"of another policy": 2}]


def test_a_rollout_of_several_sequences_counts_once(config: GrpoConfig) -> None:
    train(config.model_copy(update={"heldout": ()}), MadeUp(rewritten=1))
    for each in done(config):
        assert (each.refused, each.left_out) == ({}, 1)
        assert (each.reward, each.length) == (0.5, 1.25)


def test_compression_is_refused(config: GrpoConfig) -> None:
    compressing = config.model_copy(update={"gate": Gate(compress=True)})
    with pytest.raises(ConfigError, match=r"^gate\.compress: "):
        train(compressing, MadeUp())
    assert not Path(config.out).exists()


def test_rollouts_that_all_errored_end_the_training(config: GrpoConfig) -> None:
    with pytest.raises(ModelError, match="no rollout finished"):
        train(config.model_copy(update={"heldout": ()}), MadeUp(errored=9))


def test_a_training_killed_at_any_write_ends_as_if_it_had_not_been(
    config: GrpoConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(config, MadeUp(dull=(2,)), silent)
    whole = outcome(config)
    kills = 0
    while True:
        again = config.model_copy(
            update={"out": f"{config.out}-{kills}", "adapters": f"{config.adapters}-{kills}"},
        )
        with monkeypatch.context() as patch:
            countdown(patch, kills)
            try:
                train(again, MadeUp(dull=(2,)), silent)
                break
            except Killed:
                pass
        begun = (Path(again.out) / "checkpoints" / "made_from.json").exists()
        train(again.model_copy(update={"resume": begun}), MadeUp(dull=(2,)), silent)
        assert outcome(again) == whole, f"killed before write {kills}"
        kills += 1
    assert kills > 20


def test_a_resume_of_another_training_names_the_part(config: GrpoConfig) -> None:
    train(config, MadeUp())
    with pytest.raises(ConfigError, match="already contains a training; continue it with --resume"):
        train(config, MadeUp())
    other = config.model_copy(update={"resume": True, "rollouts": (*config.rollouts, "suite.options.ruled=2")})
    with pytest.raises(ConfigError, match="was started with another rollouts"):
        train(other, MadeUp())
    other = config.model_copy(update={"resume": True, "rollouts": (*config.rollouts, "env.knowledge=mixed")})
    with pytest.raises(ConfigError, match="was started with another rollouts"):
        train(other, MadeUp())
    other = config.model_copy(update={"resume": True, "heldout": (*config.heldout, "suite.options.ruled=2")})
    with pytest.raises(ConfigError, match="was started with another heldout"):
        train(other, MadeUp())
    with pytest.raises(ConfigError, match="contains no training"):
        train(config.model_copy(update={"resume": True, "out": config.out + "-x"}), MadeUp())


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("gate", {"gate": Gate(splits=("train", "dev"))}),
        ("name", {"name": "other"}),
        ("adapters", {"adapters": "elsewhere"}),
    ],
)
def test_a_resume_with_another_gate_name_or_registry_is_refused(
    config: GrpoConfig, part: str, change: dict[str, Any]
) -> None:
    train(config, MadeUp())
    with pytest.raises(ConfigError, match=f"was started with another {part};"):
        train(config.model_copy(update={"resume": True, **change}), MadeUp())


def test_a_resume_holds_out_the_same_tasks(config: GrpoConfig, tmp_path: Path) -> None:
    write_run(tmp_path / "judged", episode("a"))
    config = config.model_copy(update={"gate": Gate(held_out=(str(tmp_path / "judged"),))})
    train(config, MadeUp())
    train(config.model_copy(update={"resume": True}), MadeUp())
    with pytest.raises(ConfigError, match="was started with another gate"):
        train(config.model_copy(update={"resume": True, "gate": Gate()}), MadeUp())


@pytest.mark.parametrize("field", ["digest", "parent_digest", "lock_digest", "data_digest"])
def test_a_finished_version_must_be_of_its_round(config: GrpoConfig, field: str) -> None:
    train(config, MadeUp())
    (Path(config.out) / "round-3" / "done.json").unlink()  # killed after the card
    again = config.model_copy(update={"resume": True})
    train(again, MadeUp())
    (Path(config.out) / "round-3" / "done.json").unlink()
    version = Path(config.adapters) / "grpo-v3"
    write_json(version / "card.json", replace(read_card(version), **{field: "0" * 64}))
    with pytest.raises(ConfigError, match=f"is not the adapter of this round: its card has another {field};"):
        train(again, MadeUp())


def test_a_version_that_was_removed_before_its_card_is_made_again(config: GrpoConfig) -> None:
    train(config, MadeUp(), silent)
    whole = outcome(config)
    (Path(config.out) / "round-3" / "done.json").unlink()
    shutil.rmtree(Path(config.adapters) / "grpo-v3")
    train(config.model_copy(update={"resume": True}), MadeUp(), silent)
    assert outcome(config) == whole


def test_a_version_that_was_removed_has_no_metrics(tmp_path: Path) -> None:
    assert RoundTraining(tmp_path / "grpo-v1", "", tmp_path, {}).rows() == []


def test_a_resume_refuses_a_version_that_was_changed(config: GrpoConfig) -> None:
    train(config, MadeUp())
    (Path(config.adapters) / "grpo-v3" / "adapter_model.safetensors").write_text("other")
    with pytest.raises(ConfigError, match="is not the adapter that round 3 made"):
        train(config.model_copy(update={"resume": True}), MadeUp())


@pytest.mark.parametrize(
    ("source", "field"),
    [
        ("learning_rate=1", "learning_rate"),
        ("grpo.group_size=2", "grpo.group_size"),
        ("rollouts=[suite.name=ledger, model.sampling.temperature=2]", "grpo.temperature"),
    ],
)
def test_an_attempt_to_change_the_lock_is_refused_by_name(config: GrpoConfig, source: str, field: str) -> None:
    given = [f"lock={config.lock}", "rollouts=[suite.name=ledger]", source]
    with pytest.raises(ConfigError, match=f"{field} is locked at"):
        training_batch(load_grpo_config(given), load_lock(Path(config.lock)), 1, "", Path("run"))


def test_what_the_lock_decides_is_in_the_run_of_a_round(config: GrpoConfig) -> None:
    batch = training_batch(config, load_lock(Path(config.lock)), 2, "adapters/grpo-v1", Path("run"))
    run = batch.config
    assert (batch.tasks, batch.samples, run.run.samples) == (2, 2, 2)
    assert (run.model.provider, run.model.adapter, run.model.token_ids) == ("openai", "adapters/grpo-v1", True)
    assert (run.model.sampling.temperature, run.model.sampling.top_p, run.model.sampling.max_tokens) == (1.0, 1.0, 192)
    assert (run.model.base_url, run.run.concurrency) == ("http://127.0.0.1:8000/v1", 8)


def test_merged_weights_have_a_server_of_their_own_at_the_locked_address(config: GrpoConfig) -> None:
    merging = config.model_copy(
        update={"turns": "merge", "heldout": ("suite.name=ledger", "suite.split=heldout", "learning.arms=[off]")}
    )
    locked = load_lock(Path(config.lock)).model_copy(update={"max_token_length": 5000})
    rollouts = training_batch(merging, locked, 2, "adapters/grpo-v1", Path("run"))
    evaluation = heldout_batch(merging, locked, "adapters/grpo-v1", Path("run"))
    for model in (rollouts.config.model, evaluation.config.model):
        assert (model.provider, model.merge, model.adapter) == ("vllm", True, "adapters/grpo-v1")
        assert (model.server.port, model.server.max_model_len) == (8000, 5000)
    with pytest.raises(ConfigError, match="server_gpu: has no effect with turns=merge"):
        load_grpo_config([f"lock={config.lock}", "rollouts=[suite.name=ledger]", "turns=merge", "server_gpu=1"])


def test_an_evaluation_takes_no_task_that_is_trained_on(config: GrpoConfig) -> None:
    trained = config.model_copy(update={"heldout": ("suite.name=ledger", "learning.arms=[off]")})
    with pytest.raises(ConfigError, match=r"suite\.split 'train' is trained on"):
        heldout_batch(trained, load_lock(Path(config.lock)), "", Path("run"))


def test_a_library_that_changes_is_no_condition_of_a_round(config: GrpoConfig) -> None:
    growing = config.model_copy(update={"rollouts": ("suite.name=ledger", "learning.arms=[on]")})
    with pytest.raises(ConfigError, match=r"learning\.arms 'on' changes its library"):
        train(growing, MadeUp())
    assert not Path(config.out).exists()


def test_a_round_has_one_source_of_skills(config: GrpoConfig) -> None:
    locked = load_lock(Path(config.lock))
    sources = ("suite.name=ledger", "env.knowledge=lane")
    both = config.model_copy(update={"rollouts": (*sources, "learning.arms=[oracle]")})
    with pytest.raises(ConfigError, match=r"rollouts: env.knowledge `lane` and learning.arms both decide .*=\[off\]"):
        training_batch(both, locked, 1, "", Path("run"))
    one = config.model_copy(update={"rollouts": (*sources, "learning.arms=[off]")})
    assert training_batch(one, locked, 1, "", Path("run")).config.env.knowledge == "lane"


def test_a_training_that_was_begun_before_sequences_were_left_out_goes_on(config: GrpoConfig) -> None:
    train(config, MadeUp())
    path = Path(config.out) / "round-1" / "done.json"
    path.write_text(
        json.dumps({name: value for name, value in json.loads(path.read_text()).items() if name != "left_out"})
    )
    assert done(config)[0].left_out == 0


def test_a_check_is_read_as_it_was_written(tmp_path: Path) -> None:
    check = Check(step=4, policy="p", heldout_success=0.25, heldout_tasks=8)
    rounds = Rounds(tmp_path)
    rounds.finish_check(check)
    assert (rounds.check(4), rounds.check(5)) == (check, None)
