"""Real SFT on the packaged model, on a CPU: the loss, the tokens, a training, and its resume after a kill."""

import json
import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml
from fakes.episodes import CALL, episode, with_review, write_run

from hermes_lab.errors import ConfigError
from hermes_lab.models.adapters import adapter_digest
from hermes_lab.models.weights import PACKAGED, resolve
from training.adapters import find_adapter, read_card
from training.config import TrainConfig, load_train_config
from training.lock import load_lock, lock_digest, write_lock
from training.select import select_rows
from training.tokens import IGNORED, tokenize

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("default"),  # of the libraries under test
]

STEPS = 4


@pytest.fixture
def config(tmp_path: Path) -> TrainConfig:
    """Four steps of four short rows, a checkpoint after each of them."""
    values: dict[str, Any] = yaml.safe_load(Path("configs/locks/sft-smoke.yaml").read_text())
    values |= {"total_steps": STEPS, "batch_size": 4, "warmup_steps": 0, "save_checkpoint_interval": 1}
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    write_lock(tmp_path / "values.yaml", tmp_path / "lock.yaml")
    run = write_run(tmp_path / "run", *(episode(f"task {n}") for n in range(6)), with_review("the last"))
    return TrainConfig(lock=str(tmp_path / "lock.yaml"), data=(str(run),), adapters=str(tmp_path / "adapters"))


def train(config: TrainConfig) -> Path:
    from training.sft import train_sft

    return train_sft(config, print)


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
    assert (card.rows, card.steps, card.loss) == (7, STEPS, steps[-1]["loss"])
    assert not (folder / "checkpoints").exists()
    assert find_adapter("sft", Path(config.adapters)) == folder
    child = train(config.model_copy(update={"parent": "sft-v1"}))
    assert (read_card(child).parent, read_card(child).parent_digest) == ("sft-v1", card.digest)
    assert metrics(child)[0]["loss"] < steps[0]["loss"] / 2


def die_in_the_third_step(config: TrainConfig) -> None:
    """In a process of its own: kills itself as soon as the third step is logged, and not yet saved."""
    from training.draft import Draft

    log = Draft.log

    def log_and_die(self: Draft, line: Any) -> None:
        log(self, line)
        if line["step"] == 3:
            os.kill(os.getpid(), signal.SIGKILL)

    Draft.log = log_and_die  # type: ignore[method-assign]
    train(config)


def test_a_killed_training_resumes_to_the_same_adapter(config: TrainConfig, tmp_path: Path) -> None:
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
    assert metrics(folder)[-1]["loss"] == pytest.approx(metrics(whole)[-1]["loss"], rel=0.02)


def test_an_override_of_the_lock_trains_nothing(config: TrainConfig, tmp_path: Path) -> None:
    sources = [f"lock={config.lock}", f"data=[{config.data[0]}]", f"adapters={config.adapters}"]
    with pytest.raises(ConfigError, match=r"learning_rate is locked at 0\.0015"):
        train(load_train_config([*sources, "learning_rate=1"]))
    assert not (tmp_path / "adapters").exists()


def test_rendered_rows_decode_to_the_conversation_and_train_the_replies(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(resolve(PACKAGED))
    (conversation,) = select_rows([write_run(tmp_path, with_review("t"))]).rows
    ((row,), _) = tokenize([conversation], tokenizer, 1000)
    messages = [{"role": m.role, "content": m.content} for m in conversation.messages]
    whole = tokenizer.apply_chat_template(messages, tokenize=False)
    assert tokenizer.decode(row.input_ids) + "\n" == whole
    # A server tokenises each prompt as a whole: piece by piece must give the same.
    assert row.input_ids == tokenizer.encode(whole.removesuffix("\n"), add_special_tokens=False)
    trained = tokenizer.decode([label for label in row.labels if label != IGNORED])
    assert trained == f"{CALL}<|im_end|>Done: Do t.<|im_end|>Nothing to save.<|im_end|>"


def test_the_shared_prefix_changes_neither_loss_nor_gradient() -> None:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from training.loss import sft_loss, shared_prefix

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=97, num_attention_heads=4, num_key_value_heads=2, **sizes))
    ids_BT = torch.randint(0, 97, (3, 20))
    ids_BT[:, :9] = ids_BT[0, :9]
    labels_BT = torch.full_like(ids_BT, IGNORED)
    labels_BT[0, 12:15], labels_BT[1, 11:], labels_BT[2, 14:18] = (
        ids_BT[0, 12:15],
        ids_BT[1, 11:],
        ids_BT[2, 14:18],
    )
    ids_BT[0, 15:] = 0  # right padding
    assert shared_prefix(ids_BT, labels_BT) == 9

    def gradients(loss: torch.Tensor) -> list[torch.Tensor]:
        model.zero_grad()
        loss.backward()
        return [p.grad.clone() for p in model.parameters() if p.grad is not None]

    mask_BT = torch.ones_like(ids_BT)
    mask_BT[0, 15:] = 0
    plain = model(input_ids=ids_BT, attention_mask=mask_BT, labels=labels_BT).loss
    ours = sft_loss(model, ids_BT, labels_BT)
    torch.testing.assert_close(ours, plain)
    torch.testing.assert_close(gradients(ours), gradients(plain))


def test_the_prefix_stops_before_the_first_prediction_that_counts() -> None:
    import torch

    from training.loss import shared_prefix

    ids_BT = torch.zeros((2, 6), dtype=torch.long)
    labels_BT = torch.full_like(ids_BT, IGNORED)
    labels_BT[1, 3:] = 0
    assert shared_prefix(ids_BT, labels_BT) == 2
    labels_BT[0, 1] = 0
    assert shared_prefix(ids_BT, labels_BT) == 0
