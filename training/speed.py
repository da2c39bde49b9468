"""How fast this machine trains a base model: six of its layers and its head are run on the sizes of the real steps."""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from hermes_lab.training.architecture import Architecture
from hermes_lab.training.device import training_dtype
from hermes_lab.training.layout import HEAD_TOKENS
from hermes_lab.training.lock import LockedConfig
from hermes_lab.training.loss import Prefix, hidden_states
from hermes_lab.training.memory import TRL_VOCABULARY
from hermes_lab.training.packing import attention_mask
from hermes_lab.training.workload import Flops, Micro, StepWork, step_flops

LAYERS = 6
"""Of fewer layers a processor's cache would hold what those of a whole model do not fit into."""
_REPEATS = 2
_ASSUMED = {24: 35e12, 48: 50e12, 80: 120e12}
"""Operations per second of a GPU that is not here, by its memory in GB: 30 to 40 % of what an A10 or L4, an A40 or
A6000, and an A100 are sold for. Nobody has measured these here."""
_NF4_SLOWER = 1.3
"""Assumed: a layer in 4 bits is unpacked before each product."""


class Speed(NamedTuple):
    """Operations per second in the layers and in the head, and where the figures come from."""

    layers: float
    head: float
    source: str

    def seconds(self, flops: Flops) -> float:
        """The seconds that the operations take."""
        return flops.layers / self.layers + flops.head / self.head


def assumed_speed(gpu_memory: int, locked: LockedConfig) -> Speed:
    """The assumed speed of a GPU of `gpu_memory` GB that is not in this machine."""
    nearest = min(_ASSUMED, key=lambda known: abs(known - gpu_memory))
    rate = _ASSUMED[nearest] / _slower(locked)
    return Speed(rate, rate, f"assumed: {rate / 1e12:.0f} TFLOP/s for a GPU of {nearest} GB")


def measure_speed(architecture: Architecture, locked: LockedConfig, steps: Sequence[StepWork]) -> Speed:
    """The speed of this machine, on its first GPU if it has one. Takes seconds.

    `steps` are typical steps: each runs forward, backward and through the optimiser in six layers of the base model's
    sizes, with random weights.
    """
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = _layers(architecture, locked).to(device)
    taken = sum(_timed(_step(model, step, device), device) for step in steps)
    work = sum(step_flops(architecture, locked, step).layers for step in steps) * LAYERS / architecture.layers
    micros = [micro for step in steps for micro in step.micros]
    scored = max(1, min(HEAD_TOKENS, round(sum(micro.scored for micro in micros) / len(micros))))
    head = _timed(_head(architecture, locked, scored, device), device)
    head_work = (6 if locked.preference else 4) * scored * architecture.hidden * architecture.vocabulary
    slower = _slower(locked)
    name = torch.cuda.get_device_name() if device == "cuda" else "this CPU"
    return Speed(work / taken / slower, head_work / head, f"measured now, on six layers, on {name}")


def _slower(locked: LockedConfig) -> float:
    return _NF4_SLOWER if locked.hardware is not None and locked.hardware.quantization == "nf4" else 1.0


def _layers(architecture: Architecture, locked: LockedConfig) -> Any:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    a = architecture
    config = LlamaConfig(
        vocab_size=8,
        hidden_size=a.hidden,
        intermediate_size=a.intermediate,
        num_hidden_layers=LAYERS,
        num_attention_heads=a.heads,
        num_key_value_heads=a.kv_heads,
        head_dim=a.head_dim,
        max_position_embeddings=1 << 20,
    )
    model = LlamaForCausalLM(config).to(getattr(torch, training_dtype(locked)))
    # By name, since the layers that a regular expression matches may not be among these.
    adapted = sorted(set(a.matched(locked.lora_target)))
    lora = LoraConfig(task_type="CAUSAL_LM", r=locked.lora_rank, target_modules=adapted)
    adapted = get_peft_model(model, lora)
    if locked.hardware is not None and locked.hardware.gradient_checkpointing:
        adapted.gradient_checkpointing_enable({"use_reentrant": False})
    return adapted.train()


def _step(model: Any, step: StepWork, device: str) -> Callable[[], None]:
    """An optimiser step, as `hermes_lab.training.loss` takes it, without its head."""
    import torch
    from peft.helpers import disable_input_dtype_casting

    base, dtype = model.get_base_model(), next(model.get_base_model().parameters()).dtype
    optimiser = torch.optim.AdamW([weight for weight in model.parameters() if weight.requires_grad])

    def autocast() -> Any:
        return torch.autocast(device, dtype=torch.bfloat16, enabled=dtype == torch.bfloat16)

    def ids(rows: int, tokens: int) -> Any:
        return torch.zeros((rows, tokens), dtype=torch.long, device=device)

    def run_micro(micro: Micro, prefix: Prefix | None) -> Any:
        with autocast():
            if prefix or not micro.masked:
                return hidden_states(base, ids(micro.rows, micro.tokens), prefix)
            row_T = torch.ones(micro.tokens, dtype=torch.long, device=device)
            mask = attention_mask(row_T, dtype)
            inputs_BT = ids(micro.rows, micro.tokens)
            return base.base_model(input_ids=inputs_BT, attention_mask=mask, use_cache=False).last_hidden_state

    def run() -> None:
        prefix = None
        with disable_input_dtype_casting(model):
            if step.prefix:
                with autocast():
                    prefix = Prefix(base, ids(1, step.prefix))
            for micro in step.micros:
                for _ in range(step.forwards):
                    with torch.no_grad():
                        run_micro(micro, None)
                run_micro(micro, prefix).float().sum().backward()
            if prefix:
                prefix.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()

    return run


def _head(architecture: Architecture, locked: LockedConfig, scored: int, device: str) -> Callable[[], None]:
    import torch
    from torch.nn.functional import cross_entropy, linear

    dtype = getattr(torch, training_dtype(locked))
    # Logits near 1, as of a model: with larger ones most probabilities are subnormal, which a CPU is slow at.
    scale = architecture.hidden**-0.5
    weight_VH = scale * torch.randn(architecture.vocabulary, architecture.hidden, dtype=dtype, device=device)
    hidden_NH = torch.randn(scored, architecture.hidden, dtype=dtype, device=device, requires_grad=True)
    labels_N = torch.zeros(scored, dtype=torch.long, device=device)

    def run() -> None:
        cross_entropy(linear(hidden_NH, weight_VH).float(), labels_N).backward()

    def run_trl() -> None:
        from trl.kernels.chunked_logprob import ChunkedLogProbFunction

        # The arguments of TRL's preference training, see `trl.trainer.utils.add_fused_lm_head`.
        outputs = ("log_probs", "entropy", "mean_logits", "is_top1")
        logprobs_N, *_ = ChunkedLogProbFunction.apply(
            hidden_NH, weight_VH, None, labels_N, 1.0, TRL_VOCABULARY, None, 1.0, outputs
        )
        logprobs_N.sum().backward()

    return run_trl if locked.preference else run


def _timed(run: Callable[[], None], device: str) -> float:
    """The seconds of a call, the mean of several after one that is not counted."""
    import torch

    seconds = []
    for _ in range(_REPEATS + 1):
        began = time.perf_counter()
        run()
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    return sum(seconds[1:]) / _REPEATS
