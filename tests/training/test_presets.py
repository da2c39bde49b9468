"""Locks that fit a GPU, and the sizes they are computed from."""

from pathlib import Path
from typing import Any

import pytest
from fakes.training import smoke_lock

from hermes_lab.errors import ConfigError
from hermes_lab.runners.cli import app
from hermes_lab.training.architecture import architecture, known
from hermes_lab.training.lock import load_lock
from hermes_lab.training.preset_table import BEGIN, END, lines
from hermes_lab.training.presets import preset

SHIPPED = sorted(path for path in Path("configs/locks").glob("*.yaml") if load_lock(path).hardware)

PUBLISHED = {
    "packaged": 134.5,
    "Qwen/Qwen2.5-0.5B-Instruct": 494.0,
    "Qwen/Qwen2.5-1.5B-Instruct": 1543.7,
    "Qwen/Qwen3-0.6B": 596.0,
    "Qwen/Qwen3-1.7B": 1720.6,
    "Qwen/Qwen3-4B": 4022.5,
    "Qwen/Qwen3-8B": 8190.7,
    "NousResearch/Hermes-3-Llama-3.2-3B": 3212.7,
    "NousResearch/Hermes-3-Llama-3.1-8B": 8030.3,
}
"""Millions of parameters on the models' pages."""


@pytest.mark.parametrize(("name", "millions"), PUBLISHED.items())
def test_the_sizes_of_a_base_give_its_published_parameters(name: str, millions: float) -> None:
    assert round(known()[name].parameters() / 1e6, 1) == millions


def test_a_base_is_known_by_its_config(tmp_path: Path) -> None:
    sizes = (
        '"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "vocab_size": 9'
    )
    (tmp_path / "config.json").write_text(f'{{"model_type": "qwen3", {sizes}, "num_key_value_heads": 2}}')
    found = architecture(str(tmp_path))
    assert (found.layers, found.head_dim, found.keys, found.qk_norm, found.tied) == (2, 16, 32, True, False)
    (tmp_path / "config.json").write_text('{"model_type": "mamba"}')
    with pytest.raises(ConfigError, match=r"config.json: .* its model_type is 'mamba'; known are llama"):
        architecture(str(tmp_path))
    with pytest.raises(ConfigError, match="the sizes of 'owner/other' are not known: give a folder"):
        architecture("owner/other")


def test_lora_weights_are_those_that_the_target_names() -> None:
    sizes = known()["packaged"]
    assert sizes.lora_parameters(16, "all-linear") == 4_884_480
    assert sizes.lora_parameters(16, r".*\.q_proj") == 30 * 16 * (576 + 576)
    assert sizes.lora_parameters(16, r"model\.layers\.0\..*q_proj") == 16 * (576 + 576)
    upper = sizes.lora_parameters(16, r"model\.layers\.(1[0-9]|2[0-9])\..*proj")
    assert upper == sizes.lora_parameters(16, "all-linear") * 20 / 30


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("q_proj", "'q_proj' matches no linear layer: it must match a full name"),  # PEFT's fullmatch finds nothing
        (r"model\.layers\.30\..*", "matches no linear layer"),
        (".*", "matches model, which is no linear layer"),
        (r".*\.mlp\..*", r"matches model\.layers\.0\.mlp\.act_fn, which is no linear layer"),
        (r"model\.layers\.(8|9)\..*", r"matches model\.layers\.8\.self_attn, which"),
        (r".*\.layers\.1\d\.mlp.*", r"matches model\.layers\.10\.mlp, which"),
        (r".*(post_attention_layernorm|q_proj)", r"matches model\.layers\.0\.post_attention_layernorm, which"),
        (r"model\.(rotary_emb|layers\.0\.mlp\.up_proj)", r"matches model\.rotary_emb, which"),
    ],
)
def test_no_lock_is_made_of_a_target_that_peft_would_refuse(tmp_path: Path, target: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=f"lock.lora_target: .*{problem}"):
        smoke_lock(tmp_path, "sft", lora_target=target)
    assert not (tmp_path / "lock.yaml").exists()


def test_norms_of_queries_and_keys_are_refused_where_a_model_has_them() -> None:
    target = r".*\.self_attn\..*"
    assert len(known()["packaged"].matched(target)) == 4 * 30
    with pytest.raises(ConfigError, match=r"matches model\.layers\.0\.self_attn\.q_norm, which is no linear layer"):
        known()["Qwen/Qwen3-0.6B"].matched(target)


LARGEST = ("Qwen/Qwen3-8B", "NousResearch/Hermes-3-Llama-3.1-8B")
ONLY_IN_4_BITS = {(base, 24, method) for base in LARGEST for method in ("preference", "grpo")}


@pytest.mark.parametrize("method", ["sft", "preference", "grpo"])
@pytest.mark.parametrize("gpu", [24, 48, 80])
@pytest.mark.parametrize("base", [name for name in PUBLISHED if name != "packaged"])
def test_every_base_has_a_lock_that_fits_every_gpu(base: str, gpu: int, method: Any) -> None:
    asleep = 2.5e9 if method == "grpo" else 0
    for qlora in (False, True):
        found = preset(base, gpu, method, qlora=qlora)
        assert found.locked.hardware
        assert found.memory.total + asleep <= 0.92 * gpu * 1e9
        nf4 = qlora or (base, gpu, method) in ONLY_IN_4_BITS
        assert found.locked.hardware.quantization == ("nf4" if nf4 else "none")


def test_a_gpu_must_hold_the_server_of_grpo_too() -> None:
    """16.4 GB of weights, 2.4 of keys and values (4 rollouts of 4,096 tokens, 36 layers, 8 heads of 128), and 2.5."""
    preset("Qwen/Qwen3-8B", 22, "sft")
    with pytest.raises(ConfigError, match=r"does not fit on a GPU of 22 GB.* need at least 21\.3 GB"):
        preset("Qwen/Qwen3-8B", 22, "grpo")


def test_a_small_model_stays_in_bfloat16_and_a_large_one_saves_memory() -> None:
    small, large = preset("Qwen/Qwen2.5-0.5B-Instruct", 24, "sft"), preset("Qwen/Qwen3-8B", 24, "preference")
    assert small.locked.hardware
    assert large.locked.hardware
    assert (small.locked.hardware.quantization, small.locked.hardware.gradient_checkpointing) == ("none", False)
    assert (large.locked.hardware.quantization, large.locked.hardware.gradient_checkpointing) == ("nf4", True)


def test_what_does_not_fit_is_refused_with_the_least_it_needs() -> None:
    with pytest.raises(
        ConfigError, match=r"does not fit on a GPU of 8 GB.* rows of 4096 tokens need at least \d+\.\d GB"
    ):
        preset("NousResearch/Hermes-3-Llama-3.1-8B", 8, "sft")


def test_the_command_writes_a_lock_that_trainings_accept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "mine.yaml"
    app(
        ["train", "lock", "--base", "Qwen/Qwen3-4B", "--gpu", "24", "--method", "grpo", "-o", str(out)],
        standalone_mode=False,
    )
    locked = load_lock(out)
    assert (locked.base_model, locked.tokenizer) == ("Qwen/Qwen3-4B", "Qwen/Qwen3-4B")
    assert locked.grpo
    assert "gradient checkpointing, rows of up to 4096 tokens" in capsys.readouterr().err


@pytest.mark.parametrize("given", [[], ["values.yaml", "--base", "Qwen/Qwen3-4B"]])
def test_a_lock_is_made_from_a_file_or_for_a_base(tmp_path: Path, given: list[str]) -> None:
    with pytest.raises(ConfigError, match="give either a file of hyperparameters, or --base"):
        app(["train", "lock", *given, "-o", str(tmp_path / "mine.yaml")], standalone_mode=False)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_locks_for_gpus_are_those_that_the_command_makes(path: Path) -> None:
    locked = load_lock(path)
    assert locked.hardware
    method: Any = path.name.partition("-")[0]
    gpu, qlora = locked.hardware.gpu_memory, path.stem.endswith("-qlora")
    assert path.stem == f"{method}-{locked.base_model.partition('/')[2].lower()}-{gpu}gb{'-qlora' * qlora}"
    made = preset(locked.base_model, gpu, method, qlora=qlora)
    assert made.locked == locked
    assert f"| `{path.stem}` | {made.sentence()} |" in Path("docs/gpu.md").read_text()


def test_each_method_has_a_shipped_lock_with_qlora_and_one_for_48_gb() -> None:
    shipped = [(path.name.partition("-")[0], load_lock(path).hardware) for path in SHIPPED]
    for method in ("sft", "preference", "grpo"):
        sections = [hardware for of, hardware in shipped if of == method and hardware]
        assert any(hardware.quantization == "nf4" for hardware in sections)
        assert any(hardware.gpu_memory > 24 for hardware in sections)


def test_the_table_of_the_page_is_what_the_command_makes() -> None:
    table = "\n".join([BEGIN, *lines(), END])
    assert table in Path("docs/gpu.md").read_text()
