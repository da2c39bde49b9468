"""Real DPO by TRL on a tiny random model: the margin rises, and only what was sampled gets a gradient."""

import json
from pathlib import Path
from typing import Any

import pytest
from fakes.episodes import conversation, episode, trajectory, write_run
from fakes.tiny_model import tiny_model
from fakes.training import TRAINING, smoke_lock

from hermes_lab.errors import ConfigError
from hermes_lab.models.adapters import adapter_digest
from hermes_lab.models.cards import read_card
from hermes_lab.training.adapters import find_adapter
from hermes_lab.training.config import TrainConfig
from hermes_lab.training.tokens import IGNORED
from hermes_lab.types import Episode, Message, Verdict

pytestmark = TRAINING

STEPS = 6


def scored(task_id: str, sample: int, score: float) -> Episode:
    messages = [*conversation(f"Do {task_id}")[:-1], Message(role="assistant", content=f"Answer {sample} is right.")]
    verdict = Verdict(score, score == 1.0)
    return episode(task_id, sample=sample, score=score, verdicts=(verdict,), trajectory=trajectory(messages))


@pytest.fixture
def config(tmp_path: Path) -> TrainConfig:
    """Six steps of two pairs on a tiny base, a checkpoint after every second."""
    base = str(tiny_model(tmp_path / "base"))
    pace = {"total_steps": STEPS, "batch_size": 2, "warmup_steps": 0, "save_checkpoint_interval": 2}
    lock = smoke_lock(tmp_path, "preference", base_model=base, tokenizer=base, learning_rate=0.01, **pace)
    samples = [scored(task, sample, float(sample)) for task in "tuv" for sample in (0, 1)]
    run = write_run(tmp_path / "run", *samples)
    return TrainConfig(lock=lock, data=(str(run),), adapters=str(tmp_path / "adapters"), name="preference")


def train(config: TrainConfig) -> Path:
    from hermes_lab.training.preference import train_preference

    return train_preference(config, print, "hermes-lab train preference")


def metrics(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_the_margin_rises_from_nothing_and_the_card_is_true(config: TrainConfig) -> None:
    folder = train(config)
    steps = metrics(folder)
    assert [step["step"] for step in steps] == list(range(1, STEPS + 1))
    assert steps[0]["loss"] == pytest.approx(0.6931, abs=1e-3)  # log 2: the policy is its own reference
    assert steps[0]["margin"] == pytest.approx(0.0, abs=1e-6)
    assert steps[-1]["margin"] > 0.001
    assert steps[-1]["loss"] < steps[0]["loss"]
    card = read_card(folder)
    assert (card.method, card.rows, card.command) == ("preference", 3, "hermes-lab train preference")
    assert card.digest == adapter_digest(folder)
    assert card.metrics["margin"] == steps[-1]["margin"]
    assert find_adapter("preference", Path(config.adapters)) == folder


def test_a_child_is_held_to_its_parent_and_resumes(config: TrainConfig) -> None:
    from hermes_lab.training.training_run import TrainingRun

    class StoppedError(Exception):
        pass

    train(config)
    child = config.model_copy(update={"parent": "preference-v1"})
    log = TrainingRun.log

    def log_and_stop(self: TrainingRun, line: Any) -> None:
        log(self, line)
        if line["step"] == 3:
            raise StoppedError

    TrainingRun.log = log_and_stop  # type: ignore[method-assign]
    try:
        with pytest.raises(StoppedError):
            train(child)
    finally:
        TrainingRun.log = log  # type: ignore[method-assign]
    folder = train(child.model_copy(update={"resume": True}))
    assert folder.name == "preference-v2"
    steps = metrics(folder)
    assert [step["step"] for step in steps] == list(range(1, STEPS + 1))
    assert steps[0]["margin"] == pytest.approx(0.0, abs=1e-6)  # its reference is the parent, not the base
    assert steps[-1]["margin"] > steps[1]["margin"]
    whole = train(config.model_copy(update={"parent": "preference-v1", "name": "whole"}))
    assert metrics(whole)[-1]["margin"] == pytest.approx(steps[-1]["margin"], rel=0.05)


def test_no_token_of_a_tool_or_of_the_template_has_a_gradient(tmp_path: Path) -> None:
    """What DPO scores are TRL's log-probabilities under the mask of our collator."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl.trainer.utils import add_fused_lm_head

    from hermes_lab.training.config import Gate
    from hermes_lab.training.preference import _columns, collate
    from hermes_lab.training.preference_data import select_pairs, tokenize_pairs

    base = tiny_model(tmp_path / "base")
    tokenizer = AutoTokenizer.from_pretrained(base)
    run = write_run(tmp_path / "run", scored("t", 0, 0.0), scored("t", 1, 1.0))
    (pair,), _ = tokenize_pairs(select_pairs([run], Gate()).pairs, tokenizer, 1000)
    batch = collate([_columns(pair)], 0)
    for row, ids_T, mask_T in zip(pair, batch["input_ids"], batch["completion_mask"], strict=True):
        sampled = [label for label in row.labels if label != IGNORED]
        assert ids_T[mask_T.bool()].tolist() == sampled
        assert "tool_response" not in tokenizer.decode(sampled)
        assert tokenizer.decode(sampled).count("<|im_end|>") == 2
    model = AutoModelForCausalLM.from_pretrained(base)
    add_fused_lm_head(model)
    labels_BT = batch["input_ids"].masked_fill(batch["completion_mask"] == 0, -100)
    out = model(
        input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], labels=labels_BT, fused_lm_head=True
    )
    assert torch.equal(out.log_probs != 0, batch["completion_mask"][:, 1:].bool())


def test_a_lock_without_a_beta_trains_nothing(config: TrainConfig, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"section preference \(DPO's beta\) is missing; make a new lock"):
        train(config.model_copy(update={"lock": "configs/locks/sft-smoke.yaml"}))
    assert not (tmp_path / "adapters").exists()
