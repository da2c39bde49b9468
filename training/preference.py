"""Preference training (DPO) of a LoRA adapter, with TRL and PEFT, on the best and the worst sample of each prompt.

TRL's trainer tokenises text and puts a loss on everything after the prompt. Here rows are already tokenised, and only
sampled tokens have a loss, not tool results or template tokens.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hermes_lab.errors import ConfigError
from hermes_lab.models.weights import Say
from hermes_lab.training.batches import batch_order
from hermes_lab.training.config import TrainConfig
from hermes_lab.training.job import Data, TrainingJob, check_inputs, check_start
from hermes_lab.training.lock import HOW_TO_CHANGE, LockedConfig, PreferenceLock, load_lock
from hermes_lab.training.lora import arguments, load_tokenizer, progress, require_libraries
from hermes_lab.training.plan import Plan, data_rows, find_place, make_plan
from hermes_lab.training.preference_data import PairOfRows, SelectedPairs, select_pairs, tokenize_pairs
from hermes_lab.training.select import refusals
from hermes_lab.training.tokens import IGNORED
from hermes_lab.training.workload import pair_steps

_METRICS = {
    "loss": "loss",
    "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
    "rewards/margins": "margin",
    "rewards/accuracies": "accuracy",
    "logps/chosen": "chosen_logprob",
    "logps/rejected": "rejected_logprob",
}


def train_preference(config: TrainConfig, say: Say, command: str = "") -> Path:
    """Trains one adapter and returns its folder in the registry. The card records `command`.

    Raises `ConfigError` if the lock was changed or has no `preference`, no pair is left to train on, a resume does not
    match, or a library is missing.
    """
    prepared = _prepare(config, say)
    locked, parent, data = prepared.locked, prepared.parent, prepared.data
    with TrainingJob.begin("preference", config, locked, parent, data, say, command) as job:
        model = job.model()
        return job.run(_trainer(job, prepared.dpo, prepared.pairs, model, prepared.tokenizer, say), model, say)


def plan_preference(config: TrainConfig, say: Say) -> Plan:
    """What `train_preference` would need. Makes nothing; raises `ConfigError` as that does."""
    prepared = _prepare(config, say, planned=True)
    locked, data = prepared.locked, prepared.data
    check_inputs(config, locked, prepared.parent, data)
    steps = list(pair_steps(_in_order(prepared.pairs, locked), locked.batch_size, gpu=find_place(locked).gpu))
    about = data_rows(data.sentence(), data.refused, locked, steps)
    return make_plan("preference", config.lock, locked, steps, about)


class _Prepared(NamedTuple):
    locked: LockedConfig
    dpo: PreferenceLock
    parent: Path | None
    pairs: list[PairOfRows]
    data: Data
    tokenizer: Any


def _prepare(config: TrainConfig, say: Say, *, planned: bool = False) -> _Prepared:
    locked = load_lock(Path(config.lock))
    if locked.preference is None:
        raise ConfigError(f"{config.lock}: section preference (DPO's beta) is missing; {HOW_TO_CHANGE}")
    if locked.hardware is not None and locked.hardware.packing:
        raise ConfigError(f"{config.lock}: hardware.packing: a pair is two rows, which are not packed; {HOW_TO_CHANGE}")
    require_libraries(locked, divided=True, planned=planned)
    if config.gate.compress:
        raise ConfigError("gate.compress: not supported by preference: it would drop different turns from a pair")
    parent = check_start(config, locked, planned=planned)
    selected = select_pairs(map(Path, config.data), config.gate)
    say(f"{selected.sentence()}{refusals(selected.refused)}")
    tokenizer = load_tokenizer(locked, say)
    pairs, data = _data(locked, selected, tokenizer, say)
    return _Prepared(locked, locked.preference, parent, pairs, data, tokenizer)


def _data(locked: LockedConfig, selected: SelectedPairs, tokenizer: Any, say: Say) -> tuple[list[PairOfRows], Data]:
    rows, unusable = tokenize_pairs(selected.pairs, tokenizer, locked.max_token_length)
    refused = Counter(selected.refused) + Counter(unusable)
    if not rows:
        raise ConfigError(f"train.data: no pairs left to train on{refusals(refused)}")
    data = Data(selected.digest, len(rows), [row for pair in rows for row in pair], refused)
    say(f"{data.sentence()}{refusals(unusable)}")
    return rows, data


def _trainer(
    job: TrainingJob, dpo: PreferenceLock, pairs: Sequence[PairOfRows], model: Any, tokenizer: Any, say: Say
) -> Any:
    from datasets import Dataset
    from peft import load_peft_weights, set_peft_model_state_dict
    from trl import DPOConfig, DPOTrainer

    class Trainer(DPOTrainer):  # type: ignore[misc]
        """TRL's trainer for ordered, tokenised rows."""

        def _prepare_dataset(self, dataset: Any, *_: Any, **__: Any) -> Any:
            return dataset

        def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
            # If a checkpoint contains adapter folders (here TRL's `ref`, the initial copy of the parent), transformers
            # restores only those, and not the trained adapter next to them.
            del model
            set_peft_model_state_dict(
                self.accelerator.unwrap_model(self.model), load_peft_weights(resume_from_checkpoint)
            )

    shared = arguments(job.locked, job.training_run)
    # One pair per micro-batch bounds memory; the loss is still the mean over all pairs of the step.
    pairs_each = shared["per_device_train_batch_size"]
    shared |= {"per_device_train_batch_size": 1, "gradient_accumulation_steps": pairs_each}
    return Trainer(
        model=model,
        args=DPOConfig(
            **shared,
            beta=dpo.beta,
            max_length=None,
            remove_unused_columns=False,
            train_sampling_strategy="sequential",
        ),
        data_collator=lambda batch: collate(batch, tokenizer.pad_token_id or 0),
        train_dataset=Dataset.from_list([_columns(pair) for pair in _in_order(pairs, job.locked)]),
        processing_class=tokenizer,
        callbacks=[progress(job.training_run, _METRICS, say)],
    )


def collate(batch: Sequence[dict[str, Any]], pad_token_id: int) -> dict[str, Any]:
    """A batch for TRL's DPO trainer: chosen rows, then rejected ones; the completion mask is 1 on labelled tokens."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    ids = [torch.tensor(row[f"{side}_ids"]) for side in ("chosen", "rejected") for row in batch]
    labels = [torch.tensor(row[f"{side}_labels"]) for side in ("chosen", "rejected") for row in batch]
    return {
        "input_ids": pad_sequence(ids, batch_first=True, padding_value=pad_token_id),
        "attention_mask": pad_sequence([torch.ones_like(row_T) for row_T in ids], batch_first=True),
        "completion_mask": pad_sequence([(row_T != IGNORED).long() for row_T in labels], batch_first=True),
    }


def _columns(pair: PairOfRows) -> dict[str, Any]:
    return {
        "chosen_ids": pair.chosen.input_ids,
        "chosen_labels": pair.chosen.labels,
        "rejected_ids": pair.rejected.input_ids,
        "rejected_labels": pair.rejected.labels,
    }


def _in_order(pairs: Sequence[PairOfRows], locked: LockedConfig) -> list[PairOfRows]:
    """`batch_size` pairs per step, in the order of `batch_order`."""
    lengths = [len(pair.chosen.input_ids) + len(pair.rejected.input_ids) for pair in pairs]
    order = batch_order(lengths, batch_size=locked.batch_size, steps=locked.total_steps, seed=locked.seed)
    return [pairs[row] for row in order]
