"""How far a base in 4 bits is from the one that samples: the packaged model in NF4 and in bfloat16.

    python tests/benchmarks/bench_nf4.py [TASKS]

Replies are sampled from the bfloat16 model at temperature 1, with its adapter and without. Prints the mean difference
of their log-probabilities, in nats per token, as the training's metric `mismatch` has it, and that of the reply that
differs most: of NF4, of rounding alone (float32), and of other weights (the base without its adapter). Needs
bitsandbytes.
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


def model(precision: str, quantization: str, adapter: Path | None) -> Any:
    """The policy, as a training loads it."""
    hardware: dict[str, Any] = {"precision": precision, "quantization": quantization}
    rest = {"gpu_memory": 1, "gradient_checkpointing": False, "packing": False, "micro_tokens": 1}
    return lora_model(
        lock().model_copy(update={"hardware": HardwareLock(**hardware, **rest)}), resolve(PACKAGED), adapter
    )


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


class Sampled:
    """Replies of a policy in bfloat16: `before_BC` are their log-probabilities, `wanted_BC` says which tokens count."""

    def __init__(self, policy: Any, tokenizer: Any, texts: list[str]) -> None:
        given = tokenizer(texts, return_tensors="pt", padding=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            self.ids_BT = policy.generate(
                **given, do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=MOST
            )
        ends_BC = self.ids_BT[:, given["input_ids"].shape[1] :] == tokenizer.eos_token_id
        self.wanted_BC = ends_BC.cumsum(1) - ends_BC.long() == 0
        self.attention_BT = torch.cat([given["attention_mask"], self.wanted_BC.long()], dim=1)
        self.before_BC = self.logprobs(policy)
        count = int(self.wanted_BC.sum())
        print(f"  {count} tokens, on average {-self.before_BC.sum() / count:.2f} nats unlikely")

    def logprobs(self, policy: Any) -> Any:
        """Of the sampled tokens, as GRPO's steps compute them; 0 elsewhere."""
        half = next(policy.get_input_embeddings().parameters()).dtype == torch.bfloat16
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
            return score(policy.get_base_model(), self.ids_BT, self.attention_BT, self.wanted_BC, 1.0).logprobs_BC

    def compare(self, name: str, policy: Any) -> None:
        """Prints how far `policy` is from the sampler."""
        apart_B = (self.logprobs(policy) - self.before_BC).abs().sum(1)
        most = (apart_B / self.wanted_BC.sum(1)).max()
        mean = apart_B.sum() / self.wanted_BC.sum()
        print(f"  {name}: {mean:.3f} nats per token, at most {most:.3f} in a reply", flush=True)


def main() -> None:
    """Prints the differences."""
    tokenizer = load_tokenizer(lock(), lambda _: None)
    tokenizer.padding_side = "left"
    texts = prompts(tokenizer, int(sys.argv[1]) if sys.argv[1:] else 16)
    for name, adapter in {"with the adapter": packaged_folder(), "without an adapter": None}.items():
        print(name)
        policy = model("bfloat16", "none", adapter).eval()
        torch.manual_seed(0)
        sampled = Sampled(policy, tokenizer, texts)
        sampled.compare("NF4", model("bfloat16", "nf4", adapter).eval())
        sampled.compare("float32", model("float32", "none", adapter).eval())
        if adapter:
            with policy.disable_adapter():
                sampled.compare("the base alone", policy)


if __name__ == "__main__":
    main()
