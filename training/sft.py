"""Supervised fine-tuning (SFT) of a LoRA adapter on selected episodes, with TRL and PEFT."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hermes_lab.errors import ConfigError
from hermes_lab.models.weights import Say
from hermes_lab.training import processes
from hermes_lab.training.batches import batch_order
from hermes_lab.training.compress import compress_selection
from hermes_lab.training.config import TrainConfig
from hermes_lab.training.job import Data, TrainingJob, check_inputs, check_start
from hermes_lab.training.layout import layout_of
from hermes_lab.training.lock import LockedConfig, load_lock
from hermes_lab.training.lora import arguments, load_tokenizer, progress, require_libraries
from hermes_lab.training.loss import add_gradients, count_trained
from hermes_lab.training.plan import Plan, data_rows, make_plan
from hermes_lab.training.select import Selection, refusals, select_rows
from hermes_lab.training.tokens import Row, tokenize
from hermes_lab.training.workload import sft_steps

_METRICS = {"loss": "loss", "grad_norm": "grad_norm", "learning_rate": "learning_rate"}


def train_sft(config: TrainConfig, say: Say, command: str = "") -> Path:
    """Trains one adapter and returns its folder in the registry. The card records `command`.

    Raises `ConfigError` if the lock was changed, no row is left to train on, a resume does not match, or a library is
    missing.
    """
    locked, parent, data, tokenizer = _prepare(config, say)
    with TrainingJob.begin("sft", config, locked, parent, data, say, command) as job:
        model = job.model()
        return job.run(_trainer(job, model, tokenizer, say), model, say)


def plan_sft(config: TrainConfig, say: Say) -> Plan:
    """What `train_sft` would need. Makes nothing; raises `ConfigError` as that does."""
    locked, parent, data, _ = _prepare(config, say, planned=True)
    check_inputs(config, locked, parent, data)
    rows = _in_order(data.sequences, locked)
    steps = list(sft_steps(rows, locked.batch_size, layout_of(locked)))
    about = data_rows(data.sentence(), data.refused, locked, steps)
    return make_plan("sft", config.lock, locked, steps, about)


def _prepare(config: TrainConfig, say: Say, *, planned: bool = False) -> tuple[LockedConfig, Path | None, Data, Any]:
    """The lock, the parent, the data and the tokenizer."""
    locked = load_lock(Path(config.lock))
    require_libraries(locked, divided=True, planned=planned)
    parent = check_start(config, locked, planned=planned)
    selection = select_rows(map(Path, config.data), config.gate)
    say(selection.sentence())
    tokenizer = load_tokenizer(locked, say)
    if config.gate.compress:
        selection = compress_selection(selection, tokenizer, locked.max_token_length)
        say(f"{selection.compressed} conversations compressed to {locked.max_token_length} tokens")
    return locked, parent, _data(locked, selection, tokenizer, say), tokenizer


def _data(locked: LockedConfig, selection: Selection, tokenizer: Any, say: Say) -> Data:
    rows, unusable, split = tokenize(selection.rows, tokenizer, locked.max_token_length)
    refused = Counter(selection.refused) + Counter(unusable)
    if not rows:
        raise ConfigError(f"train.data: no conversations left to train on{refusals(refused)}")
    data = Data(selection.digest, len(rows), rows, refused, selection.compressed)
    say(f"{data.sentence()}{refusals(unusable)}")
    if split:
        say(f"{split} conversations take several rows each: the chat template rewrites earlier replies")
    return data


def _trainer(job: TrainingJob, model: Any, tokenizer: Any, say: Say) -> Any:
    from trl import SFTTrainer

    layout = layout_of(job.locked)

    class Trainer(SFTTrainer):  # type: ignore[misc]
        """TRL's trainer with the training step of `hermes_lab.training.loss`."""

        def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
            del num_items_in_batch  # a batch is a whole optimiser step, so the loss is its mean
            model.train()
            inputs = self._prepare_inputs(inputs)
            base = self.accelerator.unwrap_model(model).get_base_model()
            ids_BT, labels_BT = inputs["input_ids"], inputs["labels"]
            trained = processes.total(count_trained(labels_BT), labels_BT.device)
            loss = add_gradients(base, ids_BT, labels_BT, self.accelerator.autocast, layout, trained)
            return processes.add_up(base, loss)

    return Trainer(model=model, **_trainer_fields(job, tokenizer, say))


def _trainer_fields(job: TrainingJob, tokenizer: Any, say: Say) -> dict[str, Any]:
    """What TRL's trainer is given besides the model."""
    from datasets import Dataset
    from trl import SFTConfig

    rows = _in_order(job.data.sequences, job.locked)
    # Rows are already tokenised, labelled, short enough and ordered.
    ready = {"max_length": None, "dataset_kwargs": {"skip_prepare_dataset": True}}
    return {
        "args": SFTConfig(**arguments(job.locked, job.training_run), **ready, train_sampling_strategy="sequential"),
        "train_dataset": Dataset.from_list([row._asdict() for row in rows]),
        "processing_class": tokenizer,
        "callbacks": [progress(job.training_run, _METRICS, say)],
    }


def _in_order(rows: Sequence[Row], locked: LockedConfig) -> list[Row]:
    lengths = [len(row.input_ids) for row in rows]
    order = batch_order(lengths, batch_size=locked.batch_size, steps=locked.total_steps, seed=locked.seed)
    return [rows[index] for index in order]
