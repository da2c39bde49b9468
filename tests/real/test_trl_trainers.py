"""TRL's own trainers take steps: on rollouts from vLLM, on our environments, and on rows that we export."""

import copy
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from fakes.episodes import episode, write_run
from fakes.training import TRAINING

from hermes_lab.config.schema import RunConfig
from hermes_lab.config.sources import load_config
from hermes_lab.envs.trl import environment_rows, episode_reward, make_environment, make_rollout_func, prompt_rows
from hermes_lab.models.hermes_format import render_calls
from hermes_lab.models.precision import cpu_dtype
from hermes_lab.models.weights import PACKAGED
from hermes_lab.runners.export import FORMATS
from hermes_lab.runners.export.format import Lines
from hermes_lab.runners.export.source import Source
from hermes_lab.tasks import load_suite
from hermes_lab.types import Episode, ToolCall, Verdict

pytestmark = TRAINING

LEDGER = ["suite.name=ledger", "suite.count=2", "agent.prompt=compact"]


def arguments(folder: Path, **more: Any) -> dict[str, Any]:
    """What all trainers here have in common: a CPU, short, silent."""
    return {
        "output_dir": str(folder),
        "max_steps": 1,
        "per_device_train_batch_size": 2,
        "learning_rate": 1e-2,
        "bf16": cpu_dtype() == "bfloat16",
        "use_cpu": True,
        "gradient_checkpointing": False,
        "save_strategy": "no",
        "logging_steps": 1,
        "report_to": "none",
        "disable_tqdm": True,
        **more,
    }


def losses(trainer: Any) -> list[float]:
    return [line["loss"] for line in trainer.state.log_history if "loss" in line]


@pytest.fixture(scope="module")
def tokenizer(packaged: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(packaged)


@pytest.fixture
def tiny(tokenizer: Any) -> Any:
    """A small model of random weights with the packaged model's vocabulary."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    special = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    return LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=4096, **sizes, **special))


@pytest.mark.real
def test_grpo_steps_on_rollouts_of_vllm_each_by_the_weights_of_its_step(
    vllm_url: str, packaged: Path, tokenizer: Any, tmp_path: Path
) -> None:
    from datasets import Dataset
    from lora import base_model
    from peft import LoraConfig
    from trl import GRPOConfig, GRPOTrainer

    config = load_config(
        [
            *LEDGER,
            f"model.base_url={vllm_url}",
            f"model.name={PACKAGED}",
            "model.sampling={temperature: 1.0, max_tokens: 12}",
            "agent.tool_format=hermes",
            "agent.toolsets=[terminal]",
            "agent.max_iterations=1",
        ]
    )
    seen: list[Episode] = []
    rollout = make_rollout_func(config, tmp_path / "adapters", seen=seen.append)

    def variety(completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float]:
        """Beside the task's reward, which the untrained model hardly ever earns: something that always differs."""
        return [sum(ids) % 1009 / 1009 for ids in completion_ids]

    trainer = GRPOTrainer(
        model=base_model(packaged),
        args=GRPOConfig(**arguments(tmp_path / "out", max_steps=2, num_generations=2, temperature=1.0, beta=0.0)),
        reward_funcs=[episode_reward, variety],
        rollout_func=rollout,
        train_dataset=Dataset.from_list(prompt_rows(config)),
        processing_class=tokenizer,
        peft_config=LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM"),
    )
    trainer.train()
    rollout.close()
    assert trainer.state.global_step == 2
    assert all(math.isfinite(loss) for loss in losses(trainer))
    assert [episode.round for episode in seen] == [0, 0, 1, 1]
    digests = [episode.model.adapter_digest for episode in seen]
    assert (digests[0] == digests[1], digests[2] == digests[3]) == (True, True)
    assert digests[0] != digests[2]
    assert all(episode.status == "ok" for episode in seen)


@pytest.fixture
def ledger() -> RunConfig:
    return load_config([*LEDGER, "agent.toolsets=[terminal]"])


def grpo_on_environments(
    trainer_class: Any, model: Any, tokenizer: Any, config: RunConfig, folder: Path, **more: Any
) -> Any:
    from datasets import Dataset
    from trl import GRPOConfig

    return trainer_class(
        model=model,
        args=GRPOConfig(**arguments(folder, num_generations=2, **more)),
        environment_factory=make_environment(config),
        train_dataset=Dataset.from_list(environment_rows(config)),
        processing_class=tokenizer,
    )


def test_grpo_samples_in_an_environment_by_itself(tiny: Any, tokenizer: Any, ledger: RunConfig, tmp_path: Path) -> None:
    from trl import GRPOTrainer

    trainer = grpo_on_environments(GRPOTrainer, tiny, tokenizer, ledger, tmp_path, max_completion_length=8)
    trainer.train()
    (line,) = [line for line in trainer.state.log_history if "loss" in line]
    assert math.isfinite(line["loss"])
    assert line["rewards/HermesLabEnvironment/mean"] == 0.0


def test_grpo_rewards_the_completion_that_used_the_tools_well(
    tiny: Any, tokenizer: Any, ledger: RunConfig, tmp_path: Path
) -> None:
    """The turns are given; all between them is TRL's: it reads the calls, runs the tools and asks for the reward."""
    from trl import GRPOTrainer

    suite = load_suite(ledger.suite)
    moves = {
        task.prompt: [move.arguments["command"] for move in suite.oracle(task)]
        for task in suite.load(split="train", count=2, seed=0, world=0)
    }
    prompts: list[str] = []

    class Scripted(GRPOTrainer):
        """The first completion of a group does what the oracle does; the others only answer."""

        turns: Iterator[str]

        def _generate_single_turn(self, prompt_ids: Any, *_: Any, **__: Any) -> Any:
            texts = [self.processing_class.decode(ids) for ids in prompt_ids]
            prompts.extend(texts)
            if "assistant\n" in texts[0].removesuffix("<|im_start|>assistant\n"):
                replies = [next(self.turns, "Done.")]
            else:
                (commands,) = [moves[task] for task in moves if task in texts[0]]
                calls = [render_calls("", [ToolCall("c", "terminal", {"command": command})]) for command in commands]
                self.turns = iter(calls)
                replies = [next(self.turns), *["Done."] * (len(prompt_ids) - 1)]
            encode = self.processing_class.encode
            ids = [encode(reply + "<|im_end|>", add_special_tokens=False) for reply in replies]
            return ids, [[-1.0] * len(one) for one in ids]

    trainer = grpo_on_environments(Scripted, tiny, tokenizer, ledger, tmp_path, max_completion_length=2000)
    trainer.train()
    (line,) = [line for line in trainer.state.log_history if "loss" in line]
    assert line["rewards/HermesLabEnvironment/mean"] == 0.5
    assert line["tools/failure_frequency"] == 0.0
    assert '"name": "terminal"' in prompts[0]
    assert '"required": ["command"]' in prompts[0]
    assert prompts[0].count("<|im_start|>user\n") == 1
    assert "<tool_response>" in prompts[-1]


def exported(run: Path, name: Literal["sft", "preference"]) -> Any:
    """The rows of an export, as TRL's users load them."""
    from datasets import load_dataset

    file = run / f"{name}.jsonl"
    form = FORMATS[name]
    assert isinstance(form, Lines)
    file.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in form.rows(Source(run))))
    return load_dataset("json", data_files=str(file), split="train", cache_dir=str(run / "cache"))


def scored(task_id: str, sample: int, score: float) -> Episode:
    made = episode(task_id, sample=sample, score=score, verdicts=(Verdict(score, score == 1.0),))
    messages = made.trajectory.messages
    answer = msgspec.structs.replace(messages[-1], content=f"Done with {score}.")
    trajectory = msgspec.structs.replace(made.trajectory, messages=(*messages[:-1], answer))
    return msgspec.structs.replace(made, trajectory=trajectory)


def test_sft_steps_on_exported_conversations(tiny: Any, tokenizer: Any, tmp_path: Path) -> None:
    from trl import SFTConfig, SFTTrainer

    run = write_run(tmp_path / "run", *(episode(f"task {n}") for n in range(4)))
    rows = exported(run, "sft")
    assert len(rows) == 4
    config = SFTConfig(**arguments(tmp_path / "out", assistant_only_loss=True, max_length=512))
    trainer = SFTTrainer(model=tiny, args=config, train_dataset=rows, processing_class=tokenizer)
    trainer.train()
    assert all(math.isfinite(loss) and loss > 0 for loss in losses(trainer))
    assert trainer.state.global_step == 1


def test_dpo_steps_on_exported_preferences(tiny: Any, tokenizer: Any, tmp_path: Path) -> None:
    from trl import DPOConfig, DPOTrainer

    pairs = [scored(f"task {n}", sample, float(sample)) for n in range(2) for sample in (0, 1)]
    rows = exported(write_run(tmp_path / "run", *pairs), "preference")
    assert len(rows) == 2
    assert rows[0]["chosen"][-1]["content"] == "Done with 1.0."
    config = DPOConfig(**arguments(tmp_path / "out", max_length=512))
    reference = copy.deepcopy(tiny)  # TRL would load it by a name that a model made here has not
    trainer = DPOTrainer(model=tiny, ref_model=reference, args=config, train_dataset=rows, processing_class=tokenizer)
    trainer.train()
    assert losses(trainer) == [pytest.approx(math.log(2), rel=0.05)]
