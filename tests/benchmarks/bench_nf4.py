"""How far a base in 4 bits is from the one that samples: the packaged model with its adapter, in NF4 and in bfloat16.

    python tests/benchmarks/bench_nf4.py [TASKS]

Replies are sampled from the bfloat16 model at temperature 1. Prints the mean difference of their log-probabilities, in
nats per token, as the training's metric `mismatch` has it: of NF4, and, to compare, of float32 and of the base without
its adapter. Needs bitsandbytes.
"""

import sys
from pathlib import Path
from typing import Any

import torch

from hermes_lab.agent.prompt import system_prompt
from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.config.schema import SuiteConfig
from hermes_lab.models.adapters import packaged_folder
from hermes_lab.models.weights import PACKAGED, resolve
from hermes_lab.sandbox import open_sandbox
from hermes_lab.tasks.registry import load_suite
from hermes_lab.tools.registry import ToolContext
from hermes_lab.tools.toolbox import Toolbox
from hermes_lab.training.lock import HardwareLock, LockedConfig, load_lock
from hermes_lab.training.logprobs import score
from hermes_lab.training.lora import load_tokenizer, lora_model

MOST = 96
"""Tokens of a reply."""
FORMATS = {"NF4": ("bfloat16", "nf4"), "float32": ("float32", "none")}


def model(precision: str, quantization: str, adapter: Path | None) -> Any:
    """The policy, as a training loads it."""
    hardware: dict[str, Any] = {"precision": precision, "quantization": quantization}
    rest = {"gpu_memory": 1, "gradient_checkpointing": False, "packing": False, "micro_tokens": 1}
    return lora_model(lock().model_copy(update={"hardware": HardwareLock(**hardware, **rest)}), resolve(PACKAGED), adapter)


def lock() -> LockedConfig:
    """A lock of the packaged model."""
    return load_lock(Path("configs/locks/sft-cpu.yaml"))


def prompts(tokenizer: Any, tasks: int) -> list[str]:
    """What the agent of the packaged adapter is sent at the start of tasks."""
    sandbox = SandboxConfig()
    tools = Toolbox(("terminal",), ToolContext(open_sandbox(sandbox), None, sandbox))
    system = system_prompt(tools.schemas, "hermes", profile="compact")
    suite = load_suite(SuiteConfig(name="ledger"))
    return [
        tokenizer.apply_chat_template(
            [{"role": "system", "content": system}, {"role": "user", "content": task.prompt}],
            tokenize=False,
            add_generation_prompt=True,
        )
        for task in suite.load(split="train", count=tasks, seed=0, world=0)
    ]


def logprobs(policy: Any, ids_BT: Any, attention_BT: Any, wanted_BC: Any) -> Any:
    """Of the sampled tokens, as GRPO's steps compute them."""
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        return score(policy.get_base_model(), ids_BT, attention_BT, wanted_BC, 1.0).logprobs_BC[wanted_BC]


def main() -> None:
    """Prints the differences."""
    torch.manual_seed(0)
    tokenizer = load_tokenizer(lock(), lambda _: None)
    tokenizer.padding_side = "left"
    given = tokenizer(prompts(tokenizer, int(sys.argv[1]) if sys.argv[1:] else 16), return_tensors="pt", padding=True)
    policy = model("bfloat16", "none", packaged_folder()).eval()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ids_BT = policy.generate(**given, do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=MOST)
    sampled_BC = ids_BT[:, given["input_ids"].shape[1] :]
    ended_BC = (sampled_BC == tokenizer.eos_token_id).cumsum(1)
    wanted_BC = (ended_BC == 0) | ((ended_BC == 1) & (sampled_BC == tokenizer.eos_token_id))
    attention_BT = torch.cat([given["attention_mask"], wanted_BC.long()], dim=1)
    of = (ids_BT, attention_BT, wanted_BC)
    before_N = logprobs(policy, *of)
    print(f"{len(before_N)} tokens of {len(ids_BT)} replies; entropy about {-before_N.mean():.2f} nats per token")
    for name, format in FORMATS.items():
        tell(name, logprobs(model(*format, packaged_folder()).eval(), *of) - before_N)
    with policy.disable_adapter():
        tell("without the adapter", logprobs(policy, *of) - before_N)


def tell(name: str, apart_N: Any) -> None:
    """A line of figures."""
    print(f"{name}: {apart_N.abs().mean():.3f} nats per token, median {apart_N.abs().median():.3f}", flush=True)


if __name__ == "__main__":
    main()
