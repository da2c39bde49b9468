"""GRPO on a tiny model, on a CPU: rounds, the direction of a step, resume after a kill, and what is refused."""

import json
import multiprocessing
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fakes.episodes import conversation, episode, trajectory, write_run
from fakes.training import TRAINING, hardware, killed_at, smoke_lock

from hermes_lab.envs.groups import read_groups
from hermes_lab.errors import ConfigError
from hermes_lab.models.adapters import adapter_digest
from hermes_lab.models.cards import read_card
from hermes_lab.models.weights import PACKAGED, resolve
from hermes_lab.training import lora
from hermes_lab.training.adapters import find_adapter
from hermes_lab.training.device import training_dtype
from hermes_lab.training.grpo import train_grpo
from hermes_lab.training.grpo_config import Batch, GrpoConfig
from hermes_lab.training.lock import load_lock
from hermes_lab.training.lora import lora_model
from hermes_lab.types import ModelIdentity, Reward, TaskInfo, TokenBranch

pytestmark = TRAINING

PROMPT = list(range(1000, 1012))
TEMPERATURE = 0.8


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random model, with the packaged tokenizer."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    folder = tmp_path_factory.mktemp("base")
    tokenizer = AutoTokenizer.from_pretrained(resolve(PACKAGED))
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    tiny = LlamaConfig(vocab_size=len(tokenizer), num_attention_heads=4, num_key_value_heads=2, **sizes)
    LlamaForCausalLM(tiny).to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def config(base: Path, tmp_path: Path) -> GrpoConfig:
    """Two rounds of two steps, on two groups of four."""
    lock = smoke_lock(
        tmp_path,
        "grpo",
        base_model=str(base),
        tokenizer=str(base),
        total_steps=4,
        learning_rate=0.01,
        grpo={"steps_per_round": 2, "steps_per_eval": 2, "temperature": TEMPERATURE},
        curriculum={"min_success": 0.2, "max_success": 0.8, "memory_rounds": 2},
    )
    return GrpoConfig(
        lock=lock,
        adapters=str(tmp_path / "adapters"),
        out=str(tmp_path / "out"),
        rollouts=("suite.name=ledger", "learning.arms=[off]"),
        heldout=("suite.name=ledger", "suite.split=heldout", "learning.arms=[off]"),
    )


class TinySampler:
    """Samples short replies, and a tool's output between them, from the very model; every second one is rewarded."""

    def __init__(self, config: GrpoConfig, *, policy: str | None = None, louder: float = 0.0) -> None:
        self.locked = load_lock(Path(config.lock))
        self.policy, self.louder = policy, louder
        self.batches: list[Batch] = []
        self.retired: list[str] = []

    def collect(self, batch: Batch) -> None:
        import torch

        self.batches.append(batch)
        adapter = Path(batch.config.model.adapter) if batch.config.model.adapter else None
        model = lora_model(self.locked, Path(self.locked.base_model), adapter).eval()
        digest = adapter_digest(adapter) if adapter else ""
        identity = ModelIdentity("openai", self.locked.base_model, "", adapter.name if adapter else "", digest)
        if self.policy is not None:
            identity = ModelIdentity("openai", self.policy)
        torch.manual_seed(batch.config.suite.seed)
        autocast = torch.autocast("cpu", dtype=torch.bfloat16, enabled=training_dtype(self.locked) == "bfloat16")
        episodes = []
        for task in range(batch.tasks):
            for sample in range(batch.samples):
                ids_T, mask_T = [*PROMPT, 2000 + task], [0] * (len(PROMPT) + 1)
                logprobs_T = [0.0] * len(ids_T)
                for turn in range(2):
                    if turn:
                        ids_T, mask_T, logprobs_T = [*ids_T, 7, 8, 9], [*mask_T, 0, 0, 0], [*logprobs_T, 0.0, 0.0, 0.0]
                    for _ in range(3 + sample % 2):
                        with torch.no_grad(), autocast:
                            logits_V = model(input_ids=torch.tensor([ids_T])).logits[0, -1].float() / TEMPERATURE
                        token = int(torch.multinomial(logits_V.softmax(0), 1))
                        logprobs_T.append(float(logits_V.log_softmax(0)[token]) - self.louder)
                        ids_T.append(token)
                        mask_T.append(1)
                branch = TokenBranch(tuple(ids_T), tuple(mask_T), tuple(logprobs_T))
                score = float(sample % 2)
                episodes.append(
                    episode(
                        f"task {task}",
                        lane=f"off-r0-w{batch.first_world}",
                        sample=sample,
                        task=TaskInfo("d", batch.config.suite.split, batch.first_world),
                        model=identity,
                        success=bool(score),
                        score=score,
                        reward=Reward(score, {"score": score}),
                        trajectory=trajectory(conversation(f"Do {task}"), branches=(branch,)),
                    )
                )
        write_run(batch.folder, *episodes)

    def rest(self) -> None:
        """Shares no GPU."""

    def retire(self, version: Path) -> None:
        self.retired.append(version.name)


def train(config: GrpoConfig, sampler: TinySampler | None = None) -> Path:
    made = sampler or TinySampler(config)

    @contextmanager
    def opened(*_: Any) -> Iterator[TinySampler]:
        yield made

    return train_grpo(config, opened, print)


def metrics(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_rounds_move_the_policy_towards_what_was_rewarded(config: GrpoConfig) -> None:
    sampler = TinySampler(config)
    last = train(config, sampler)
    root, out = Path(config.adapters), Path(config.out)
    first, last_card = read_card(root / "grpo-v1"), read_card(last)
    assert (last.name, last_card.parent, last_card.parent_digest) == ("grpo-v2", "grpo-v1", first.digest)
    assert (first.method, first.parent, first.steps, first.rows) == ("grpo", "", 2, 8)
    assert find_adapter("grpo", root) == last
    rounds = [batch for batch in sampler.batches if batch.samples == 4]
    assert [Path(batch.config.model.adapter).name for batch in rounds] == ["", "grpo-v1"]
    assert [batch.config.suite.seed for batch in rounds] == [1, 2]
    steps = [row for row in metrics(out / "metrics.jsonl") if "loss" in row]
    assert [(row["step"], row["round"]) for row in steps] == [(1, 1), (2, 1), (3, 2), (4, 2)]
    assert [row["policy"] for row in steps] == [*[str(config_base(config))] * 2, *[first.digest] * 2]
    assert steps[0]["mismatch"] < 0.03
    assert 0 <= steps[0]["kl"] < steps[1]["kl"]
    assert all(row["reward"] == 0.5 and row["length"] == 7 for row in steps)
    checks = [row for row in metrics(out / "metrics.jsonl") if "heldout_success" in row]
    assert [row["step"] for row in checks] == [0, 2, 4]
    # what was rewarded in the first round is likelier after its steps, and what was not is less likely
    groups = read_groups(out / "round-1" / "groups.jsonl")
    before, after = gains(config, groups, None), gains(config, groups, root / "grpo-v1")
    for gained, reward in zip((b - a for a, b in zip(before, after, strict=True)), rewards(groups), strict=True):
        assert gained > 0 if reward else gained < 0


def config_base(config: GrpoConfig) -> str:
    return load_lock(Path(config.lock)).base_model


def rewards(groups: Any) -> list[float]:
    return [reward for group in groups for reward in group.rewards]


def gains(config: GrpoConfig, groups: Any, adapter: Path | None) -> list[float]:
    """Log-probability of what was sampled of each sequence, by transformers alone."""
    import torch

    model = lora_model(load_lock(Path(config.lock)), Path(config_base(config)), adapter).eval()
    found = []
    for group in groups:
        for ids_T, mask_T in zip(group.token_ids, group.masks, strict=True):
            with torch.no_grad():
                logprobs_TV = model(input_ids=torch.tensor([ids_T])).logits[0].float().log_softmax(-1)
            found.append(sum(float(logprobs_TV[t - 1, ids_T[t]]) for t in range(len(ids_T)) if mask_T[t]))
    return found


def die_at(config: GrpoConfig, step: int) -> None:
    """In a process of its own."""
    killed_at(step)
    train(config)


def test_a_training_killed_in_its_steps_resumes_to_the_very_same_adapters(config: GrpoConfig, tmp_path: Path) -> None:
    """With families, whose rates so far are in the checkpoint, too."""
    families = {name: (f"suite.options.ruled={n}",) for n, name in enumerate("abc", 1)}
    config = config.model_copy(update={"heldout": (), "families": families})
    process = multiprocessing.get_context("spawn").Process(target=die_at, args=(config, 4))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert not (Path(config.out) / "round-2" / "done.json").exists()
    sampler = TinySampler(config)
    resumed = train(config.model_copy(update={"resume": True}), sampler)
    assert sampler.batches == []  # all rollouts were there
    whole = config.model_copy(update={"adapters": str(tmp_path / "whole"), "out": str(tmp_path / "other")})
    assert adapter_digest(resumed) == adapter_digest(train(whole))
    assert [row["step"] for row in metrics(Path(config.out) / "metrics.jsonl")] == [1, 2, 3, 4]


def test_groups_of_another_policy_are_refused_and_counted(
    config: GrpoConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match="no usable group in round 1 "):
        train(config.model_copy(update={"heldout": ()}), TinySampler(config, policy="forged"))
    done = json.loads((Path(config.out) / "round-1" / "done.json").read_text())
    assert (done["used"], done["refused"], done["version"]["folder"]) == (0, {"of another policy": 2}, "")
    assert not Path(config.adapters).exists()
    assert "2 of another policy" in capsys.readouterr().out


def test_log_probabilities_of_other_weights_stop_the_training(config: GrpoConfig) -> None:
    with pytest.raises(ConfigError, match=r"differ from the policy's by 0\.\d+ nats per token"):
        train(config.model_copy(update={"heldout": ()}), TinySampler(config, louder=0.3))
    assert not (Path(config.adapters) / "grpo-v1" / "card.json").exists()


@pytest.fixture
def in_4_bits(config: GrpoConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GrpoConfig:
    """One round of two steps on a base in 4 bits; a lock for a GPU is accepted on this CPU."""
    monkeypatch.setattr(lora, "check_device", lambda *_, **__: None)
    values = load_lock(Path(config.lock)).content()
    del values["curriculum"]
    (tmp_path / "nf4").mkdir()
    section = hardware(precision="bfloat16", quantization="nf4")
    lock = smoke_lock(tmp_path / "nf4", "grpo", **values | {"total_steps": 2, "hardware": section})
    return config.model_copy(update={"lock": lock, "heldout": ()})


def test_steps_in_4_bits_may_differ_from_the_server_by_what_4_bits_change(
    config: GrpoConfig, in_4_bits: GrpoConfig
) -> None:
    folder = train(in_4_bits, TinySampler(config, louder=0.5))
    (first, _) = metrics(folder / "metrics.jsonl")
    assert first["mismatch"] == pytest.approx(0.5, abs=0.1)


def test_a_base_that_changes_too_much_in_4_bits_is_said_to_be_the_cause(
    config: GrpoConfig, in_4_bits: GrpoConfig
) -> None:
    told = (
        r"by 1\.\d+ nats per token \(at most 1\.0\): .* this model changes too much in 4 bits: use a lock with hardware"
    )
    with pytest.raises(ConfigError, match=told):
        train(in_4_bits, TinySampler(config, louder=1.5))


def test_an_edited_checkpoint_is_not_resumed(config: GrpoConfig) -> None:
    config = config.model_copy(update={"heldout": ()})
    train(config)
    out = Path(config.out)
    (out / "round-2" / "done.json").unlink()
    (Path(config.adapters) / "grpo-v2" / "card.json").unlink()
    state = out / "checkpoints" / "checkpoint-4" / "trainer_state.json"
    state.write_text(state.read_text().replace('"max_steps": 4', '"max_steps": 400'))
    with pytest.raises(ConfigError, match="was changed after training wrote it"):
        train(config.model_copy(update={"resume": True}))
