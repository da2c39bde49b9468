"""The optimiser steps of one GRPO round, by TRL, on that round's groups."""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hermes_lab.envs.trl import rollout_columns
from hermes_lab.errors import ConfigError
from hermes_lab.models.weights import Say
from hermes_lab.training.device import is_quantized, release_memory
from hermes_lab.training.layout import layout_of, micro_batch
from hermes_lab.training.lock import GrpoLock, LockedConfig
from hermes_lab.training.lock_enforcement import refusal
from hermes_lab.training.logprobs import score
from hermes_lab.training.lora import arguments, load_tokenizer, lora_model, progress, save_adapter, train
from hermes_lab.training.rounds import Policy, RoundTraining
from hermes_lab.types import ScoredGroup

MISMATCH = 0.1
"""Largest allowed mean log-probability difference between sampler and trainer in a group, in nats per token. bfloat16
rounding alone gives about 0.05."""
MISMATCH_NF4 = 1.0
"""The same if the trainer's base is in 4 bits and the sampler's is not: the packaged model gives 0.1 to 0.7, and a
server without its adapter 2.4 (`tests/benchmarks/bench_nf4.py`)."""

METRICS = {
    "loss": "loss",
    "kl": "kl",
    "entropy": "entropy",
    "clip_ratio/region_mean": "clip_fraction",
    "mismatch": "mismatch",
    "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
}


class RoundBatch(NamedTuple):
    """The training batch of one round: steps `begin` (exclusive) to `end` on `groups`, starting from `policy`."""

    groups: Sequence[ScoredGroup]
    policy: Policy
    begin: int
    end: int


def take_steps(
    locked: LockedConfig, grpo: GrpoLock, base: Path, round_batch: RoundBatch, round_training: RoundTraining, say: Say
) -> None:
    """Trains to the end of the round from the last complete checkpoint, and saves the adapter.

    The checkpoint carries weights, Adam state and schedule from round to round, in float32. Raises `ConfigError` if the
    sampler's log-probabilities do not match the policy, or a checkpoint is missing.
    """
    _check_begin(round_batch, round_training)
    if round_training.last_step() < round_batch.end:
        _train(locked, grpo, base, round_batch, round_training, say)
    release_memory()  # for the server, which may use the same GPU
    # Load from the checkpoint, so that the adapter is the same after a restart.
    save_adapter(lora_model(locked, base, round_training.last_checkpoint()), round_training.folder, locked)
    release_memory()


def scaling(groups: Sequence[ScoredGroup]) -> str:
    """What rewards minus their group's mean are divided by, in TRL's words: the deviation within the `group`, or with
    reviews that over the `batch`, which is the round. In one group of reviews a rule is at stake and in the next the
    cost of some words; divided by its own deviation, each would count the same. Source: arXiv:2508.08221."""
    return "batch" if any(group.kind == "review" for group in groups) else "group"


def _train(
    locked: LockedConfig, grpo: GrpoLock, base: Path, round_batch: RoundBatch, round_training: RoundTraining, say: Say
) -> None:
    model = lora_model(locked, base, Path(round_batch.policy.folder) if round_batch.policy.folder else None)
    train(_trainer(model, locked, grpo, round_batch, round_training, say), model, round_training)


def _check_begin(round_batch: RoundBatch, round_training: RoundTraining) -> None:
    """Raises `ConfigError` for a checkpoint from before the round: resuming from it would take more steps on this
    round's groups than the lock allows."""
    step = round_training.last_step()
    if not round_batch.begin <= step <= round_batch.end:
        raise ConfigError(
            f"resume: the newest complete checkpoint in {round_training.checkpoints} is at step {step}, but the round "
            f"trains steps {round_batch.begin} to {round_batch.end}: "
            f"{refusal('grpo.steps_per_round', round_training.lock)}. "
            "Start without resume, with another out"
        )


def _trainer(
    model: Any, locked: LockedConfig, grpo: GrpoLock, round_batch: RoundBatch, round_training: RoundTraining, say: Say
) -> Any:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer
    from trl.trainer.utils import split_tensor_dict

    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # silences the warning about rollout_func
    sequences = len(round_batch.groups) * grpo.group_size
    size = micro_batch(sequences, locked.batch_size)
    layout = layout_of(locked)

    class Trainer(GRPOTrainer):  # type: ignore[misc]
        """TRL's trainer on given rollouts: it generates nothing, and ratios are relative to the sampling policy."""

        _buffered_inputs: Any = None
        _wanted: Any = None  # mask of the tokens with a loss
        _current: Any = None  # log-probabilities of these tokens

        def _prepare_inputs(self, generation_batch: Any) -> Any:
            # A round is one generation batch in group order, so that the rows of a micro-batch share a prompt.
            if self._buffered_inputs is None:
                whole = self._generate_and_score_completions(generation_batch)
                self._buffered_inputs = split_tensor_dict(whole, self.args.steps_per_generation)
            return self._buffered_inputs[self._step % self.args.steps_per_generation]

        def _generate_and_score_completions(self, inputs: Any) -> Any:
            import torch

            output = super()._generate_and_score_completions(inputs)
            sampled_NC = output["sampling_per_token_logps"]
            mask_NC = (output["completion_mask"] * output["tool_mask"]).bool()
            if self.state.global_step == round_batch.begin:  # later, the policy differs from the sampler's
                ids_NT = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)
                attention_NT = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)
                own_NC = self._own_logprobs(ids_NT, attention_NT, mask_NC)
                self._metrics["train"]["mismatch"].append(
                    _check_sampler(own_NC, sampled_NC, mask_NC, round_batch, grpo, quantized=is_quantized(locked))
                )
            output["old_per_token_logps"] = sampled_NC
            return output

        def _own_logprobs(self, ids_NT: Any, attention_NT: Any, mask_NC: Any) -> Any:
            import torch

            parts = []
            base_model = self.accelerator.unwrap_model(self.model).get_base_model()
            for ids_BT, attention_BT, mask_BC in zip(
                ids_NT.split(size), attention_NT.split(size), mask_NC.split(size), strict=True
            ):
                with torch.no_grad(), self.accelerator.autocast():
                    parts.append(score(base_model, ids_BT, attention_BT, mask_BC, grpo.temperature, layout).logprobs_BC)
            return torch.cat(parts)

        def _get_per_token_logps_and_entropies(
            self, model: Any, input_ids: Any, attention_mask: Any, logits_to_keep: int, *_: Any, **__: Any
        ) -> Any:
            if self._wanted is None:  # TRL asks for old log-probabilities; the sampler's are used instead
                return input_ids.new_zeros((len(input_ids), logits_to_keep)).float(), None, None
            base_model = self.accelerator.unwrap_model(model).get_base_model()
            with self.accelerator.autocast():
                scored = score(base_model, input_ids, attention_mask, self._wanted, grpo.temperature, layout)
            self._current = scored.logprobs_BC.detach()
            return scored.logprobs_BC, scored.entropies_BC, None

        def _compute_loss(self, model: Any, inputs: Any) -> Any:
            self._wanted = (inputs["completion_mask"] * inputs["tool_mask"]).bool()
            try:
                loss = super()._compute_loss(model, inputs)
                ratio_N = (self._current - inputs["old_per_token_logps"])[self._wanted]
                # The k3 estimator of KL(sampler || policy): http://joschu.net/blog/kl-approx.html
                self._metrics["train"]["kl"].append((ratio_N.exp() - 1 - ratio_N).mean().item())
            finally:
                self._wanted = None
            return loss

        def create_model_card(self, *_: Any, **__: Any) -> None:
            """Does nothing: the registry writes the card."""

    columns = rollout_columns(round_batch.groups)
    columns.pop("advantage")  # TRL recomputes advantages from rewards

    def rewarded(reward: list[float], **_: Any) -> list[float]:
        return reward

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category=FutureWarning)
        args = GRPOConfig(
            **arguments(locked, round_training)
            | {
                "per_device_train_batch_size": size,
                "gradient_accumulation_steps": sequences // size,
                "steps_per_generation": sequences // size,
                # Each round is an epoch over its own groups.
                "ignore_data_skip": True,
            },
            num_generations=grpo.group_size,
            num_iterations=grpo.steps_per_round,
            max_completion_length=locked.max_token_length,
            temperature=grpo.temperature,
            epsilon=grpo.clip_epsilon,
            loss_type="dr_grpo",
            scale_rewards=scaling(round_batch.groups),
            beta=0.0,
            shuffle_dataset=False,
        )
    return Trainer(
        model=model,
        args=args,
        reward_funcs=[rewarded],
        train_dataset=Dataset.from_list([{"prompt": group.task_id} for group in round_batch.groups]),
        processing_class=load_tokenizer(locked, say),
        rollout_func=lambda *_: {name: list(column) for name, column in columns.items()},
        callbacks=[progress(round_training, METRICS, say), _end_of_round(round_batch.end)],
    )


def _check_sampler(
    own_NC: Any, sampled_NC: Any, mask_NC: Any, round_batch: RoundBatch, grpo: GrpoLock, *, quantized: bool
) -> float:
    """Returns the mean difference in nats per token. Raises `ConfigError` if other weights sampled a group."""
    apart_NC = (own_NC - sampled_NC).abs() * mask_NC
    most = MISMATCH_NF4 if quantized else MISMATCH
    for group, apart_GC, mask_GC in zip(
        round_batch.groups, apart_NC.split(grpo.group_size), mask_NC.split(grpo.group_size), strict=True
    ):
        apart = float(apart_GC.sum() / mask_GC.sum())
        if group.policy == round_batch.policy.digest and apart > most:
            raise ConfigError(
                f"{group.task_id}: the sampler's log-probabilities differ from the policy's by {apart:.2f} nats per "
                f"token (at most {most}): {_cause(quantized)}"
            )
    return float(apart_NC.sum() / mask_NC.sum())


def _cause(quantized: bool) -> str:
    if not quantized:
        return "the server had other weights; start a new server and a new training"
    return (
        "the steps use the base in 4 bits, the server does not, and this model changes too much in 4 bits: use a lock "
        "with hardware.quantization none (a smaller base, or a larger GPU); if another round was accepted, the server "
        "had other weights: start a new server and a new training"
    )


def _end_of_round(end: int) -> Any:
    from transformers import TrainerCallback

    class EndOfRound(TrainerCallback):  # type: ignore[misc]
        """Saves a checkpoint and stops training at the end of the round."""

        def on_step_end(self, _args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step >= end:
                control.should_save = control.should_training_stop = True

    return EndOfRound()
