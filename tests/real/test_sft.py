"""Real SFT on a CPU: the loss, the tokens, a training, and on a tiny model its resume after a kill."""

import json
import multiprocessing
import os
import signal
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import yaml
from fakes.episodes import CALL, conversation, episode, trajectory, with_review, write_run
from fakes.tiny_model import tiny_model
from fakes.training import TRAINING, smoke_lock

from hermes_lab.errors import ConfigError
from hermes_lab.models.adapters import adapter_digest
from hermes_lab.models.cards import read_card
from hermes_lab.models.weights import PACKAGED, resolve
from hermes_lab.training.adapters import find_adapter
from hermes_lab.training.config import Gate, TrainConfig, load_train_config
from hermes_lab.training.layout import Layout
from hermes_lab.training.lock import load_lock, lock_digest, write_lock
from hermes_lab.training.select import select_rows
from hermes_lab.training.tokens import IGNORED, tokenize

pytestmark = TRAINING

STEPS = 4


@pytest.fixture
def config(tmp_path: Path) -> TrainConfig:
    """Four steps of four short rows, a checkpoint after each of them."""
    lock = smoke_lock(tmp_path, "sft", total_steps=STEPS, batch_size=4, warmup_steps=0, save_checkpoint_interval=1)
    run = write_run(tmp_path / "run", *(episode(f"task {n}") for n in range(6)), with_review("the last"))
    return TrainConfig(lock=lock, data=(str(run),), adapters=str(tmp_path / "adapters"))


def train(config: TrainConfig) -> Path:
    from hermes_lab.training.sft import train_sft

    return train_sft(config, print, "hermes-lab train sft")


def metrics(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_training_lowers_the_loss_and_leaves_an_adapter_with_a_true_card(config: TrainConfig) -> None:
    folder = train(config)
    steps = metrics(folder)
    assert [step["step"] for step in steps] == [1, 2, 3, 4]
    assert steps[-1]["loss"] < steps[0]["loss"] / 2
    card = read_card(folder)
    assert (card.name, card.digest) == ("sft-v1", adapter_digest(folder))
    assert card.lock_digest == lock_digest(load_lock(Path(config.lock)))
    assert (card.method, card.rows, card.steps, card.command) == ("sft", 7, STEPS, "hermes-lab train sft")
    assert card.metrics == {name: steps[-1][name] for name in ("loss", "grad_norm", "learning_rate")}
    assert not (folder / "checkpoints").exists()
    assert find_adapter("sft", Path(config.adapters)) == folder
    child = train(config.model_copy(update={"parent": "sft-v1"}))
    assert (read_card(child).parent, read_card(child).parent_digest) == ("sft-v1", card.digest)
    assert metrics(child)[0]["loss"] < steps[0]["loss"] / 2


def die_in_the_third_step(config: TrainConfig) -> None:
    """In a process of its own: kills itself as soon as the third step is logged, and not yet saved."""
    from hermes_lab.training.training_run import TrainingRun

    log = TrainingRun.log

    def log_and_die(self: TrainingRun, line: Any) -> None:
        log(self, line)
        if line["step"] == 3:
            os.kill(os.getpid(), signal.SIGKILL)

    TrainingRun.log = log_and_die  # type: ignore[method-assign]
    train(config)


def test_a_killed_training_resumes_to_the_same_adapter(config: TrainConfig, tmp_path: Path) -> None:
    base = str(tiny_model(tmp_path / "base"))
    pace = {"total_steps": STEPS, "batch_size": 4, "warmup_steps": 0, "save_checkpoint_interval": 1}
    (tmp_path / "tiny").mkdir()
    lock = smoke_lock(tmp_path / "tiny", "sft", base_model=base, tokenizer=base, learning_rate=0.01, **pace)
    config = config.model_copy(update={"lock": lock})
    process = multiprocessing.get_context("spawn").Process(target=die_in_the_third_step, args=(config,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    folder = Path(config.adapters) / "sft-v1"
    assert [step["step"] for step in metrics(folder)] == [1, 2, 3]
    with pytest.raises(ConfigError, match="no such adapter"):
        find_adapter("sft", Path(config.adapters))
    assert train(config.model_copy(update={"resume": True})) == folder
    whole = train(config.model_copy(update={"adapters": str(tmp_path / "whole")}))
    assert [step["step"] for step in metrics(folder)] == [1, 2, 3, 4]
    assert metrics(folder)[-1]["loss"] == pytest.approx(metrics(whole)[-1]["loss"], rel=0.001)


def test_a_conversation_too_long_for_the_lock_is_trained_where_the_gate_compresses(
    config: TrainConfig, tmp_path: Path
) -> None:
    system, prompt, call, result, answer = conversation("Do it")
    long = (system, prompt, *([call, result] * 20), answer)
    run = write_run(tmp_path / "long", episode("long", trajectory=trajectory(long)))
    values = yaml.safe_load((tmp_path / "values.yaml").read_text()) | {"max_token_length": 256, "total_steps": 1}
    (tmp_path / "short.yaml").write_text(yaml.safe_dump(values))
    write_lock(tmp_path / "short.yaml", tmp_path / "short-lock.yaml")
    config = config.model_copy(update={"lock": str(tmp_path / "short-lock.yaml"), "data": (str(run),)})
    with pytest.raises(ConfigError, match="longer than 256 tokens"):
        train(config)
    card = read_card(train(config.model_copy(update={"gate": Gate(compress=True)})))
    assert (card.rows, card.compressed, card.refused) == (1, 1, {})
    assert card.tokens <= 256


def test_an_override_of_the_lock_trains_nothing(config: TrainConfig, tmp_path: Path) -> None:
    sources = [f"lock={config.lock}", f"data=[{config.data[0]}]", f"adapters={config.adapters}"]
    with pytest.raises(ConfigError, match=r"learning_rate is locked at 0\.0015"):
        train(load_train_config([*sources, "learning_rate=1"]))
    assert not (tmp_path / "adapters").exists()


def test_rendered_rows_decode_to_the_conversation_and_train_the_replies(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(resolve(PACKAGED))
    (selected,) = select_rows([write_run(tmp_path, with_review("t"))]).rows
    ((row,), *_) = tokenize([selected], tokenizer, 1000)
    messages = [{"role": m.role, "content": m.content} for m in selected.messages]
    whole = tokenizer.apply_chat_template(messages, tokenize=False)
    assert tokenizer.decode(row.input_ids) + "\n" == whole
    # A server tokenises each prompt as a whole: piece by piece must give the same.
    assert row.input_ids == tokenizer.encode(whole.removesuffix("\n"), add_special_tokens=False)
    trained = tokenizer.decode([label for label in row.labels if label != IGNORED])
    assert trained == f"{CALL}<|im_end|>Done: Do t.<|im_end|>Nothing to save.<|im_end|>"


PADDED = [Layout(1), Layout(16), Layout(1000), Layout(1000, shared=False)]
PACKED = [Layout(1, packed=True), Layout(30, packed=True), Layout(1000, packed=True)]


@pytest.mark.parametrize(
    ("layout", "checkpointing", "head_tokens"),
    [
        *((layout, False, 512) for layout in PADDED + PACKED),
        *((layout, True, 512) for layout in [*PACKED, Layout(1000, shared=False)]),
        (Layout(1000), False, 3),
    ],
)
def test_no_layout_changes_loss_or_gradient(
    layout: Layout, checkpointing: bool, head_tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from hermes_lab.training import loss
    from hermes_lab.training.loss import add_gradients, shared_prefix

    monkeypatch.setattr(loss, "HEAD_TOKENS", head_tokens)

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=97, num_attention_heads=4, num_key_value_heads=2, **sizes))
    ids_BT = torch.randint(1, 97, (3, 20))
    ids_BT[:, :9] = ids_BT[0, :9]
    ids_BT[0, 15:] = 0  # right padding
    labels_BT = torch.full_like(ids_BT, IGNORED)
    for row, start, end in ((0, 12, 15), (1, 11, 20), (2, 14, 18)):  # unlike counts: a mean of means is no token mean
        labels_BT[row, start:end] = ids_BT[row, start:end]
    assert shared_prefix(ids_BT, labels_BT) == 9

    def gradients() -> list[torch.Tensor]:
        found = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        model.zero_grad()
        return found

    mask_BT = torch.ones_like(ids_BT)
    mask_BT[0, 15:] = 0
    plain = model(input_ids=ids_BT, attention_mask=mask_BT, labels=labels_BT).loss
    plain.backward()
    expected = gradients()
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.train()
    ours = add_gradients(model, ids_BT, labels_BT, nullcontext, layout)
    torch.testing.assert_close(ours, plain.detach())
    torch.testing.assert_close(gradients(), expected)


def test_the_prefix_stops_before_the_first_prediction_that_counts() -> None:
    import torch

    from hermes_lab.training.loss import shared_prefix

    ids_BT = torch.zeros((2, 6), dtype=torch.long)
    labels_BT = torch.full_like(ids_BT, IGNORED)
    labels_BT[1, 3:] = 0
    assert shared_prefix(ids_BT, labels_BT) == 2
    labels_BT[0, 1] = 0
    assert shared_prefix(ids_BT, labels_BT) == 0
