"""Code shared by all trainings: libraries, LoRA model, trainer arguments, progress and saving."""

import copy
import importlib.metadata
import importlib.util
import json
import logging
import os
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from hermes_lab.commit import package_commit
from hermes_lab.errors import ConfigError
from hermes_lab.models import weights
from hermes_lab.models.cards import read_card
from hermes_lab.models.lora_files import check_lora, is_head_or_embedding
from hermes_lab.training import processes
from hermes_lab.training.adapters import find_adapter
from hermes_lab.training.checkpoint_manifest import manifest_callback
from hermes_lab.training.config import Training
from hermes_lab.training.device import check_device, is_quantized, peak_memory, quantization, training_dtype
from hermes_lab.training.environment import refuse_numbers, remove_variables
from hermes_lab.training.lock import HOW_TO_CHANGE, LockedConfig, lock_metadata
from hermes_lab.training.lock_enforcement import refuse_environment
from hermes_lab.training.locked_files import base_folder
from hermes_lab.training.training_run import TrainingRun

_SILENCE = 30.0
"""Maximum seconds between progress lines."""

_LIBRARIES = ("torch", "transformers", "trl", "peft")


def require_libraries(locked: LockedConfig, *, divided: bool = False, planned: bool = False) -> None:
    """Raises `ConfigError` for missing libraries or conflicting environment variables. Call before importing torch.

    `divided`: this training can run in several processes, which are connected here. `planned`: for a plan, which needs
    no GPU.
    """
    refuse_environment(locked, divided=divided)
    refuse_numbers()
    remove_variables()
    processes.check_division(locked)
    wanted = (*_LIBRARIES, *(["wandb"] if locked.use_wandb else []))
    if is_quantized(locked):
        wanted = (*wanted, "bitsandbytes")
    missing = [name for name in wanted if importlib.util.find_spec(name) is None]
    if missing:
        extra = {"wandb": "wandb", "bitsandbytes": "qlora"}.get(missing[0], "train")
        raise ConfigError(f"train: needs {', '.join(missing)}: pip install 'hermes-lab[{extra}]'")
    # OpenMP reads this when torch is imported. Threads that spin would slow down other processes.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # PEFT loads bitsandbytes if it is there, which on a CPU warns about a faster kernel that we do not use.
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
    check_device(locked, planned=planned)
    processes.connect()


def library_versions() -> dict[str, str]:
    """Versions of this package, with its commit if one is known, and of the libraries that determine a training."""
    found = {name: importlib.metadata.version(name) for name in ("hermes-lab", *_LIBRARIES)}
    return found | ({"commit": commit} if (commit := package_commit()) else {})


def find_parent(config: Training, locked: LockedConfig, *, planned: bool = False) -> Path | None:
    """The adapter to start from, if any.

    Raises `ConfigError` if its shape, base or tokenizer is not the locked one. For a plan (`planned`) it is not
    compared with weights that would have to be downloaded.
    """
    if not config.parent:
        return None
    folder = find_adapter(config.parent, Path(config.adapters))
    card = read_card(folder)
    before = card.locked
    for field in ("base_model", "lora_rank", "lora_alpha", "lora_target"):
        if before.get(field) != getattr(locked, field):
            raise ConfigError(
                f"train.parent: {folder} has {field} {before.get(field)!r}, not {getattr(locked, field)!r}; "
                "it must have the same LoRA shape as the lock"
            )
    base = base_folder(locked, planned=planned)
    if base and (found := weights.training_digest(locked.base_model, base)) != card.base_digest:
        raise ConfigError(
            f"train.parent: {folder} was trained on weights of sha256 {card.base_digest[:12]}, but base_model "
            f"{locked.base_model!r} is {found[:12]} here; parent and lock must have the same base"
        )
    tokenizer = weights.resolve_tokenizer(locked.tokenizer)
    if card.tokenizer_digest and (found := weights.tokenizer_digest(tokenizer)) != card.tokenizer_digest:
        raise ConfigError(
            f"train.parent: {folder} was trained with a tokenizer and chat template of sha256 "
            f"{card.tokenizer_digest[:12]}, but tokenizer {locked.tokenizer!r} is {found[:12]} here; parent and lock "
            "must have the same tokenizer"
        )
    check_lora(folder, base)
    return folder


def load_tokenizer(locked: LockedConfig, say: weights.Say) -> Any:
    """The tokenizer with its chat template."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(weights.resolve_tokenizer(locked.tokenizer, say))


def lora_model(locked: LockedConfig, base: Path, parent: Path | None) -> Any:
    """The base model with LoRA layers in float32: those of `parent`, or new ones."""
    from peft import LoraConfig, PeftModel, get_peft_model
    from transformers import AutoModelForCausalLM, set_seed
    from transformers.utils import logging as transformers_logging

    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    set_seed(locked.seed)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=training_dtype(locked), **quantization(locked))
    if parent:
        child = PeftModel.from_pretrained(model, parent, is_trainable=True)
        _refuse_tied(child, locked)
        # The parent's config has the base model's public name. Checkpoints need the local folder: otherwise PEFT would
        # contact the hub.
        child.peft_config["default"].base_model_name_or_path = str(base)
        return _kept(child, locked)
    lora = LoraConfig(
        task_type="CAUSAL_LM",
        r=locked.lora_rank,
        lora_alpha=locked.lora_alpha,
        target_modules=locked.lora_target,
    )
    adapted = get_peft_model(model, lora)
    _refuse_tied(adapted, locked)
    return _kept(adapted, locked)


def _kept(model: Any, locked: LockedConfig) -> Any:
    """The model. With a quantized base it keeps a copy of its LoRA weights, which TRL's trainers round to bfloat16."""
    if is_quantized(locked):
        keep_float32(model)
    return model


def keep_float32(model: Any) -> None:
    """Copies the trainable weights, for `restore_float32`."""
    trained = (each for each in model.named_parameters() if each[1].requires_grad)
    model.kept_float32 = {name: parameter.detach().to("cpu", copy=True) for name, parameter in trained}


def restore_float32(model: Any) -> None:
    """Makes the trainable weights float32, with the values that `keep_float32` copied."""
    kept = model.__dict__.pop("kept_float32", {})
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            parameter.data = kept.get(name, parameter.data).to(parameter.device).float()


def _refuse_tied(model: Any, locked: LockedConfig) -> None:
    found = next(filter(is_head_or_embedding, model.base_model.targeted_module_names), "")
    if found and model.config.tie_word_embeddings:
        raise ConfigError(
            f"lock: lora_target {locked.lora_target!r} adapts {found}, and the head of {locked.base_model} has the "
            f"weights of its embedding, so a merge would change both: leave it out; {HOW_TO_CHANGE}"
        )


def save_adapter(model: Any, folder: Path, locked: LockedConfig) -> None:
    """Writes the two files that PEFT and vLLM load. The bytes are the same on every machine.

    Tensors are float32, as trained; a server casts them to the type in which it computes. The metadata of the weights
    contain the lock's digest.
    """
    import torch
    from peft import get_peft_model_state_dict

    state = get_peft_model_state_dict(model, save_embedding_layers=False)
    tensors = {name: tensor.to("cpu", torch.float32).contiguous() for name, tensor in state.items()}
    (folder / "adapter_model.safetensors").write_bytes(_safetensors(tensors, {"format": "pt", **lock_metadata(locked)}))
    config = copy.copy(model.peft_config["default"])
    config.inference_mode = True
    if not isinstance(config.target_modules, str):
        config.target_modules = sorted(config.target_modules)  # set order differs between processes
    base = Path(config.base_model_name_or_path)
    config.base_model_name_or_path = _base_name(base)
    config.save_pretrained(folder)
    check_lora(folder, base if (base / "config.json").is_file() else None)


def _safetensors(tensors: Mapping[str, Any], metadata: Mapping[str, str]) -> bytes:
    """Serialises a safetensors file with sorted metadata; the library's order differs between processes."""
    from safetensors.torch import save

    content = save(dict(tensors), metadata=dict(metadata))
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + content[8 + size :]


def _base_name(base: Path) -> str:
    """The public name of the base model: `owner/name` for a hub snapshot, else its folder name."""
    hub = base.parent.parent.name
    return hub.removeprefix("models--").replace("--", "/", 1) if hub.startswith("models--") else base.name


def arguments(locked: LockedConfig, training_run: TrainingRun) -> dict[str, Any]:
    """The arguments shared by TRL's trainers."""
    import torch

    if locked.use_wandb:
        _keep_wandb_here(training_run)
    return {
        "output_dir": str(training_run.checkpoints),
        "run_name": training_run.folder.name,
        "max_steps": locked.total_steps,
        "per_device_train_batch_size": locked.batch_size // processes.count(),
        "learning_rate": locked.learning_rate,
        "lr_scheduler_type": "cosine",
        "warmup_steps": locked.warmup_steps,
        "seed": locked.seed,
        "bf16": training_dtype(locked) == "bfloat16",
        "use_cpu": not torch.cuda.is_available(),
        "gradient_checkpointing": locked.hardware is not None and locked.hardware.gradient_checkpointing,
        "gradient_checkpointing_kwargs": {"use_reentrant": False},
        "dataloader_pin_memory": torch.cuda.is_available(),
        "save_steps": locked.save_checkpoint_interval,
        "save_total_limit": 2,  # the newest one may be incomplete if the process is killed
        "logging_steps": 1,
        "report_to": ["wandb"] if locked.use_wandb else "none",
        "disable_tqdm": True,
    }


def _keep_wandb_here(training_run: TrainingRun) -> None:
    """Makes wandb write offline files to the adapter's folder, unless the environment says otherwise."""
    os.environ.setdefault("WANDB_MODE", "offline")
    os.environ.setdefault("WANDB_PROJECT", "hermes-lab")
    os.environ.setdefault("WANDB_SILENT", "true")
    # Always set, since another training in this process has another folder.
    os.environ["WANDB_DIR"] = str(training_run.folder.absolute())


def train(trainer: Any, model: Any, training_run: TrainingRun) -> None:
    """Trains to the last step, resuming from the last complete checkpoint if there is one.

    Raises `ConfigError` if several devices would multiply the locked batch size.
    """
    from peft.helpers import disable_input_dtype_casting
    from transformers import PrinterCallback

    _check_one_device(trainer)
    trainer.remove_callback(PrinterCallback)  # prints every step to stdout
    checkpoint = training_run.last_checkpoint()
    processes.from_first(lambda: training_run.rewind(checkpoint))
    trainer.add_callback(manifest_callback(training_run.write_manifest, training_run.lock))
    restore_float32(model)
    # PEFT would cast inputs to float32, the dtype of its weights. Autocast casts the weights to the base dtype instead.
    with disable_input_dtype_casting(model):
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    if "wandb" in trainer.args.report_to:
        import wandb

        wandb.finish()


def _check_one_device(trainer: Any) -> None:
    import torch

    if trainer.args.train_batch_size != trainer.args.per_device_train_batch_size:
        raise ConfigError(
            f"train: {torch.cuda.device_count()} devices would multiply the locked batch_size; "
            "set CUDA_VISIBLE_DEVICES=0"
        )


def progress(training_run: TrainingRun, names: Mapping[str, str], say: weights.Say) -> Any:
    """A callback that writes every step to the metrics, and reports every twentieth of the steps, or every 30 s.

    `names` maps the trainer's metric names to those in `metrics.jsonl`.
    """
    from transformers import TrainerCallback

    class Progress(TrainerCallback):  # type: ignore[misc]
        """Measures seconds per step, also after a resume."""

        def on_train_begin(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
            self.first, self.began = state.global_step, time.monotonic()
            self.last, self.said = self.began, float("-inf")

        def on_log(self, _args: Any, state: Any, _control: Any, logs: Any = None, **_: Any) -> None:
            if "loss" not in logs or not processes.is_first():
                return  # TRL's final summary, or another process
            step, total = state.global_step, state.max_steps
            now = time.monotonic()
            pace = (now - self.began) / (step - self.first)
            numbers = {name: float(logs[logged]) for logged, name in names.items() if logged in logs}
            training_run.log({"step": step, **numbers, "seconds": round(now - self.last, 3), **peak_memory()})
            self.last = now
            if step % max(total // 20, 1) == 0 or now - self.said > _SILENCE:
                self.said = now
                left = timedelta(seconds=round(pace * (total - step)))
                say(f"step {step}/{total}, loss {numbers['loss']:.4f}, {left} left")

    return Progress()
