"""Supervised fine-tuning of a LoRA adapter, by TRL and PEFT, on selected episodes."""

import importlib.metadata
import importlib.util
import os
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from hermes_lab.errors import ConfigError
from hermes_lab.models import weights
from hermes_lab.models.adapters import adapter_digest
from training.adapters import Card, find_adapter, read_card, write_card
from training.batches import batch_order
from training.config import TrainConfig
from training.draft import Draft
from training.lock import LockedConfig, load_lock, lock_digest
from training.loss import sft_loss
from training.select import Selection, refusals, select_rows
from training.tokens import IGNORED, Row, Tokenized, tokenize

Say = Callable[[str], None]
"""Takes a line of progress."""

_LIBRARIES = ("torch", "transformers", "trl", "peft")


class Job(NamedTuple):
    """A training, resolved: what it is made from, and where it goes."""

    config: TrainConfig
    locked: LockedConfig
    base: Path
    parent: Path | None
    selection: Selection
    data: Tokenized
    draft: Draft


def train_sft(config: TrainConfig, say: Say) -> Path:
    """Trains one adapter and returns its folder in the registry.

    Raises `ConfigError` where the lock was changed, no row is left to train on, a resume does not fit, or a
    library is missing.
    """
    _require_libraries(load_lock(Path(config.lock)))
    # OpenMP reads this when torch loads. Threads that spin while they wait slow whatever else runs here.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    job = _prepare(config, say)
    _train(job, say)
    card = _card(job)
    write_card(job.draft.folder, card)
    job.draft.clear()
    say(f"{job.draft.folder}: {card.sentence()}")
    return job.draft.folder


def _require_libraries(locked: LockedConfig) -> None:
    wanted = (*_LIBRARIES, *(["wandb"] if locked.use_wandb else []))
    missing = [name for name in wanted if importlib.util.find_spec(name) is None]
    if missing:
        extra = "wandb" if missing == ["wandb"] else "train"
        raise ConfigError(f"train: needs {', '.join(missing)}: pip install 'hermes-lab[{extra}]'")


def _prepare(config: TrainConfig, say: Say) -> Job:
    locked = load_lock(Path(config.lock))
    selection = select_rows(map(Path, config.data), config.gate)
    say(selection.sentence())
    data = _tokenize(locked, selection, say)
    parent = _parent(config, locked)
    base = weights.resolve(locked.base_model, say)
    made_from = {
        "lock": lock_digest(locked),
        "data": selection.digest,
        "parent": adapter_digest(parent) if parent else "",
        "base model": weights.digest(base),
    }
    return Job(config, locked, base, parent, selection, data, Draft.begin(config, made_from))


def _tokenize(locked: LockedConfig, selection: Selection, say: Say) -> Tokenized:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(weights.resolve(locked.tokenizer, say))
    data = tokenize(selection.rows, tokenizer, locked.max_token_length)
    if not data.rows:
        refused = refusals(Counter(selection.refused) + Counter(data.refused))
        raise ConfigError(f"train.data: no conversation is left to train on{refused}")
    tokens = sum(len(row.input_ids) for row in data.rows)
    say(f"{len(data.rows)} rows, {tokens} tokens, {_trained_tokens(data)} trained on{refusals(data.refused)}")
    return data


def _parent(config: TrainConfig, locked: LockedConfig) -> Path | None:
    if not config.parent:
        return None
    folder = find_adapter(config.parent, Path(config.adapters))
    before = read_card(folder).locked
    for field in ("base_model", "lora_rank", "lora_alpha", "lora_target"):
        if before.get(field) != getattr(locked, field):
            raise ConfigError(
                f"train.parent: {folder} has {field} {before.get(field)!r}, not {getattr(locked, field)!r}; "
                "a child keeps the shape of its parent"
            )
    return folder


def _train(job: Job, say: Say) -> None:
    """Trains to the last step and saves the adapter into the draft's folder."""
    import torch
    from peft.helpers import disable_input_dtype_casting
    from transformers.utils import logging as transformers_logging

    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    model = _lora_model(job)
    trainer = _trainer(job, model, say)
    if trainer.args.train_batch_size != job.locked.batch_size:
        raise ConfigError(
            f"train: {torch.cuda.device_count()} devices would multiply the locked batch_size; "
            "set CUDA_VISIBLE_DEVICES=0"
        )
    checkpoint = job.draft.last_checkpoint()
    job.draft.rewind(checkpoint)
    # PEFT would copy inputs to float32, the type of its weights; autocast brings the weights to bfloat16.
    with disable_input_dtype_casting(model):
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    model.save_pretrained(job.draft.folder)


def _lora_model(job: Job) -> Any:
    """The base model in bfloat16 with LoRA layers in float32."""
    import torch
    from peft import LoraConfig, PeftModel, get_peft_model
    from transformers import AutoModelForCausalLM, set_seed

    set_seed(job.locked.seed)
    base = AutoModelForCausalLM.from_pretrained(job.base, dtype=torch.bfloat16)
    if job.parent:
        return PeftModel.from_pretrained(base, job.parent, is_trainable=True)
    lora = LoraConfig(
        task_type="CAUSAL_LM",
        r=job.locked.lora_rank,
        lora_alpha=job.locked.lora_alpha,
        target_modules=job.locked.lora_target,
    )
    return get_peft_model(base, lora)


def _trainer(job: Job, model: Any, say: Say) -> Any:
    from datasets import Dataset
    from transformers import AutoTokenizer, PrinterCallback
    from trl import SFTTrainer

    class Trainer(SFTTrainer):  # type: ignore[misc]
        """TRL's, with the loss of `training.loss`."""

        def compute_loss(
            self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
        ) -> Any:
            del return_outputs, num_items_in_batch  # a batch is one micro-batch: its mean is the loss
            base = self.accelerator.unwrap_model(model).get_base_model()
            with self.accelerator.autocast():
                return sft_loss(base, inputs["input_ids"], inputs["labels"])

    rows = _in_order(job.data.rows, job.locked)
    trainer = Trainer(
        model=model,
        args=_arguments(job),
        train_dataset=Dataset.from_list([row._asdict() for row in rows]),
        processing_class=AutoTokenizer.from_pretrained(weights.resolve(job.locked.tokenizer)),
        callbacks=[_progress(job, say)],
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def _in_order(rows: list[Row], locked: LockedConfig) -> list[Row]:
    lengths = [len(row.input_ids) for row in rows]
    order = batch_order(lengths, batch_size=locked.batch_size, steps=locked.total_steps, seed=locked.seed)
    return [rows[index] for index in order]


def _arguments(job: Job) -> Any:
    import torch
    from trl import SFTConfig

    locked = job.locked
    return SFTConfig(
        output_dir=str(job.draft.checkpoints),
        run_name=job.draft.folder.name,
        max_steps=locked.total_steps,
        per_device_train_batch_size=locked.batch_size,
        learning_rate=locked.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=locked.warmup_steps,
        seed=locked.seed,
        bf16=True,
        use_cpu=not torch.cuda.is_available(),
        gradient_checkpointing=False,
        # The rows are ready: tokenised, labelled, short enough and in their order.
        max_length=None,
        dataset_kwargs={"skip_prepare_dataset": True},
        train_sampling_strategy="sequential",
        dataloader_pin_memory=torch.cuda.is_available(),
        save_steps=locked.save_checkpoint_interval,
        save_total_limit=1,
        logging_steps=1,
        report_to=["wandb"] if locked.use_wandb else "none",
        disable_tqdm=True,
    )


def _progress(job: Job, say: Say) -> Any:
    """Writes every step to the metrics, and says one in twenty."""
    from transformers import TrainerCallback

    class Progress(TrainerCallback):  # type: ignore[misc]
        """Counts the seconds of each step, resumed ones included."""

        def on_train_begin(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
            self.first, self.began = state.global_step, time.monotonic()
            self.last = self.began

        def on_log(self, _args: Any, state: Any, _control: Any, logs: Any = None, **_: Any) -> None:
            if "loss" not in logs:
                return  # the summary after the last step
            step, total = state.global_step, state.max_steps
            now = time.monotonic()
            pace = (now - self.began) / (step - self.first)
            numbers = {name: float(logs[name]) for name in ("loss", "grad_norm", "learning_rate")}
            job.draft.log({"step": step, **numbers, "seconds": round(now - self.last, 3)})
            self.last = now
            if step % max(total // 20, 1) == 0 or step == self.first + 1:
                say(f"step {step}/{total}, loss {numbers['loss']:.4f}, {pace * (total - step):.0f} s left")

    return Progress()


def _card(job: Job) -> Card:
    metrics = job.draft.rows()
    refused = Counter(job.selection.refused) + Counter(job.data.refused)
    return Card(
        name=job.draft.folder.name,
        digest=adapter_digest(job.draft.folder),
        base_model=job.locked.base_model,
        base_digest=weights.digest(job.base),
        parent=job.parent.name if job.parent else "",
        parent_digest=adapter_digest(job.parent) if job.parent else "",
        lock_digest=lock_digest(job.locked),
        locked=job.locked.model_dump(mode="json"),
        runs=job.config.data,
        data_digest=job.selection.digest,
        refused=dict(sorted(refused.items())),
        rows=len(job.data.rows),
        tokens=sum(len(row.input_ids) for row in job.data.rows),
        trained_tokens=_trained_tokens(job.data),
        steps=metrics[-1]["step"],
        loss=metrics[-1]["loss"],
        seconds=sum(step["seconds"] for step in metrics),
        versions={name: importlib.metadata.version(name) for name in _LIBRARIES},
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _trained_tokens(data: Tokenized) -> int:
    return sum(label != IGNORED for row in data.rows for label in row.labels)
