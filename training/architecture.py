"""The sizes of a base model, from which a plan computes parameters, memory and work."""

import json
import re
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from hermes_lab.errors import ConfigError

_LIKE_LLAMA = {"llama": {}, "mistral": {}, "qwen2": {"qkv_bias": True}, "qwen3": {"qk_norm": True}}
"""Model types with the same layer: attention and a gated MLP, each after an RMS norm."""

_NOT_LINEAR = ("model", "model.layers", "model.norm", "model.rotary_emb")
"""Modules that PEFT would find by too wide an expression, and cannot adapt."""
_NOT_LINEAR_IN_LAYER = ("", ".self_attn", ".mlp", ".mlp.act_fn", ".input_layernorm", ".post_attention_layernorm")
"""The same within each decoder layer."""
_TABLES = ("lm_head", "model.embed_tokens")
"""The head and the embedding, one matrix in a tied model."""


class Architecture(NamedTuple):
    """A decoder of the Llama, Qwen2 or Qwen3 type."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    tied: bool
    """The head has no weights of its own."""
    qkv_bias: bool = False
    qk_norm: bool = False

    @property
    def attention(self) -> int:
        """Width of queries and of the attention's output."""
        return self.heads * self.head_dim

    @property
    def keys(self) -> int:
        """Width of keys; values have the same."""
        return self.kv_heads * self.head_dim

    def linears(self) -> dict[str, tuple[int, int]]:
        """The linear layers of a decoder layer: inputs and outputs."""
        return {
            "self_attn.q_proj": (self.hidden, self.attention),
            "self_attn.k_proj": (self.hidden, self.keys),
            "self_attn.v_proj": (self.hidden, self.keys),
            "self_attn.o_proj": (self.attention, self.hidden),
            "mlp.gate_proj": (self.hidden, self.intermediate),
            "mlp.up_proj": (self.hidden, self.intermediate),
            "mlp.down_proj": (self.intermediate, self.hidden),
        }

    def linear_parameters(self) -> int:
        """Weights of a decoder layer's linear layers, which QLoRA quantizes."""
        return sum(inputs * outputs for inputs, outputs in self.linears().values())

    def parameters(self) -> int:
        """All weights."""
        biases = (self.attention + 2 * self.keys) * self.qkv_bias
        norms = 2 * self.hidden + 2 * self.head_dim * self.qk_norm
        tables = self.vocabulary * self.hidden * (1 if self.tied else 2)
        return tables + self.layers * (self.linear_parameters() + biases + norms) + self.hidden

    def matched(self, target: str) -> list[str]:
        """The linear layers that get LoRA weights, of all decoder layers: their names within those.

        As PEFT reads `target_modules`: `all-linear`, or a regular expression for the full name. Raises `ConfigError` if
        it matches none, a module that is not a linear layer, or a head that has the embedding's weights.
        """
        if target == "all-linear":
            return [*self.linears()] * self.layers
        try:
            pattern = re.compile(target)
        except re.error as error:
            raise ConfigError(f"lock.lora_target: {target!r} is not a regular expression: {error}") from None
        if other := next(filter(pattern.fullmatch, self._not_linear()), ""):
            raise ConfigError(f"lock.lora_target: {target!r} matches {other}, which is no linear layer")
        if self.tied and (table := next(filter(pattern.fullmatch, _TABLES), "")):
            raise ConfigError(
                f"lock.lora_target: {target!r} adapts {table}, and the head of this base model has the weights of its "
                "embedding, so a merge would change both: leave out lm_head and embed_tokens"
            )
        layers = range(self.layers)
        found = [name for n in layers for name in self.linears() if pattern.fullmatch(f"model.layers.{n}.{name}")]
        if not found:
            raise ConfigError(
                f"lock.lora_target: {target!r} matches no linear layer: it must match a full name, such as "
                r"model.layers.0.self_attn.q_proj; give all-linear, or for example .*\.(q_proj|v_proj)"
            )
        return found

    def _not_linear(self) -> list[str]:
        """The full names of modules that PEFT cannot adapt."""
        norms = (".self_attn.q_norm", ".self_attn.k_norm") if self.qk_norm else ()
        inner = [*_NOT_LINEAR_IN_LAYER, *norms]
        return [*_NOT_LINEAR, *(f"model.layers.{n}{name}" for n in range(self.layers) for name in inner)]

    def adapted(self, target: str) -> list[tuple[int, int]]:
        """Inputs and outputs of the linear layers that get LoRA weights (`matched`), of all decoder layers."""
        sizes = self.linears()
        return [sizes[name] for name in self.matched(target)]

    def lora_parameters(self, rank: int, target: str) -> int:
        """Trained weights of a LoRA adapter."""
        return rank * sum(inputs + outputs for inputs, outputs in self.adapted(target))


def check_target(base_model: str, target: str) -> None:
    """Raises `ConfigError` for a `lora_target` that does not fit a base model whose sizes are known."""
    try:
        sizes = architecture(base_model)
    except ConfigError:
        return
    sizes.matched(target)


def known() -> dict[str, Architecture]:
    """The base models whose sizes ship with the lab, by name."""
    text = (resources.files(__package__) / "architectures.yaml").read_text()
    return {name: Architecture(**sizes) for name, sizes in yaml.safe_load(text).items()}


def architecture(base_model: str) -> Architecture:
    """The sizes of a base model: those that ship with the lab, or else from the config.json of a folder.

    Nothing is downloaded. Raises `ConfigError` if the sizes are not known.
    """
    if base_model in (listed := known()):
        return listed[base_model]
    path = Path(base_model).expanduser() / "config.json"
    if not path.is_file():
        raise ConfigError(
            f"base_model: the sizes of {base_model!r} are not known: give a folder with a config.json, or one of "
            f"{', '.join(listed)}"
        )
    try:
        return _from_config(json.loads(path.read_text()))
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}: the sizes of this model are not known: {error}") from None


def _from_config(config: dict[str, Any]) -> Architecture:
    kind = config["model_type"]
    if kind not in _LIKE_LLAMA:
        raise ValueError(f"its model_type is {kind!r}; known are {', '.join(_LIKE_LLAMA)}")
    heads = config["num_attention_heads"]
    return Architecture(
        layers=config["num_hidden_layers"],
        hidden=config["hidden_size"],
        intermediate=config["intermediate_size"],
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim") or config["hidden_size"] // heads,
        vocabulary=config["vocab_size"],
        tied=config.get("tie_word_embeddings", False),
        **_LIKE_LLAMA[kind],
    )
