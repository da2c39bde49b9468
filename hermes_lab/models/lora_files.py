"""Checks that an adapter's tensors are those of its PEFT configuration, and fit a base model.

PEFT ignores tensors whose names it does not expect, leaves layers without tensors untouched, and says neither. Such an
adapter would load, and change nothing.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hermes_lab.errors import ConfigError
from hermes_lab.models.cards import ADAPTER_CONFIG, WEIGHTS
from hermes_lab.models.tensor_files import read_header

_PICKLES = ("adapter_model.bin", "adapter_model.pt", "adapter_model.pth", "adapter_model.pkl", "new_embeddings.bin")
_TENSOR = re.compile(
    r"base_model\.model\.(?P<module>.+?)\."
    r"(?:(?P<part>lora_[AB])\.weight|(?P<embedding>lora_embedding_[AB])|lora_B\.bias|lora_magnitude_vector(?:\.weight)?)"
)
_LAYER = re.compile(r".*?\.[^.]*\.(\d+)\.")
_EMBEDDING = re.compile(r"embed|\bwte\b|\bwpe\b")
_HEADS = ("lm_head", "embed_out", "output")
_TABLES = ("embed_tokens", "embed_in", "word_embeddings", "wte")
_ADDED = ("model.", "transformer.")
"""What transformers puts before the names of weights that were saved without their head."""
_SHOWN = 3
SERVED_RANKS = (16, 32, 64, 128, 256, 320, 512)
"""The values of vLLM's --max-lora-rank, from its default up."""

Shapes = Mapping[str, tuple[int, ...]]


class _Lora(NamedTuple):
    """The LoRA matrices of an adapter, (A, B) by module, and the names of its other tensors."""

    pairs: dict[str, dict[str, tuple[int, ...]]]
    others: list[str]


def check_lora(folder: Path, base: Path | None = None) -> None:
    """Raises `ConfigError` if an adapter's tensors do not match its configuration and, if given, the base model.

    `base` is the folder of the base model. Its weights are compared if they are safetensors files.
    """
    _refuse_pickles(folder)
    config = _config(folder)
    lora = _tensors(folder)
    if problem := next(_own_problems(config, lora), ""):
        raise ConfigError(f"{folder / WEIGHTS}: {problem}")
    weights = _base_shapes(base) if base else {}
    if not base or not weights or config.get("target_parameters"):
        return
    if problem := next(_base_problems(config, lora, _Base.of(base, weights)), ""):
        raise ConfigError(f"{folder / WEIGHTS}: {problem} (base model: {base})")


def check_mergeable(folder: Path, base: Path) -> None:
    """`check_lora`; also raises `ConfigError` if a merge would change weights that the base model uses twice."""
    check_lora(folder, base)
    lora = _tensors(folder)
    whole = [name.removeprefix("base_model.model.").rpartition(".")[0] for name in lora.others]
    if (found := next(filter(is_head_or_embedding, (*lora.pairs, *whole)), "")) and _is_tied(base):
        raise ConfigError(
            f"{folder / WEIGHTS}: it adapts {found}, and the head of the base model {base} has the weights of its "
            "embedding: a merge would change both. Serve the adapter without merging it, or train one with another "
            "lora_target"
        )


def is_head_or_embedding(module: str) -> bool:
    """Whether a module is a model's head or its token embedding, which are one matrix in many small models."""
    return module in _HEADS or module.rpartition(".")[2] in ("lm_head", *_TABLES)


def _is_tied(base: Path) -> bool:
    """Whether the head has the embedding's weights. Where config.json does not say, it does if none are stored."""
    try:
        config = dict(json.loads((base / "config.json").read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise ConfigError(f"{base / 'config.json'}: not the configuration of a model: {error}") from None
    tied = config.get("tie_word_embeddings", (config.get("text_config") or {}).get("tie_word_embeddings"))
    return not any("lm_head" in name for name in _base_shapes(base)) if tied is None else bool(tied)


def max_rank(folder: Path) -> int:
    """The largest LoRA rank of an adapter. Raises `ConfigError` if it has none."""
    config = _config(folder)
    return max(
        [int(config["r"]), *(rank for rank in (config.get("rank_pattern") or {}).values() if isinstance(rank, int))]
    )


def server_rank(rank: int) -> int:
    """The smallest --max-lora-rank that serves adapters of this rank. Raises `ConfigError` if none does."""
    if found := next((each for each in SERVED_RANKS if each >= rank), 0):
        return found
    raise ConfigError(f"lora_rank: vLLM serves adapters of a rank up to {SERVED_RANKS[-1]}, not {rank}")


def _refuse_pickles(folder: Path) -> None:
    if found := next((name for name in _PICKLES if (folder / name).exists()), ""):
        raise ConfigError(
            f"{folder / found}: a pickle, which can run code when it is loaded, so it never is; remove it, and give "
            f"the tensors as {WEIGHTS}"
        )


def _config(folder: Path) -> dict[str, Any]:
    path = folder / ADAPTER_CONFIG
    try:
        config = dict(json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise ConfigError(f"{path}: not a PEFT configuration: {error}") from None
    if config.get("peft_type") != "LORA":
        raise ConfigError(f"{path}: peft_type is {config.get('peft_type')!r}, not 'LORA'; only LoRA adapters are read")
    rank = config.get("r")
    if not isinstance(rank, int) or isinstance(rank, bool) or rank < 1:
        raise ConfigError(f"{path}: r (the LoRA rank) is {rank!r}, not a positive integer")
    targets = config.get("target_modules")
    named = isinstance(targets, list) and all(isinstance(name, str) for name in targets)
    if not (named or isinstance(targets, str) or config.get("target_parameters")):
        raise ConfigError(f"{path}: target_modules is {targets!r}, not the names of modules")
    library = (config.get("auto_mapping") or {}).get("parent_library") or "transformers"
    if str(library).partition(".")[0] != "transformers":
        raise ConfigError(f"{path}: auto_mapping names code of {library!r}, which is not run; remove auto_mapping")
    return config


def _tensors(folder: Path) -> _Lora:
    pairs: dict[str, dict[str, tuple[int, ...]]] = {}
    others = []
    for name, shape in read_header(folder / WEIGHTS).shapes.items():
        match = _TENSOR.fullmatch(name)
        if match is None:
            others.append(name)
        elif part := match["part"] or match["embedding"]:
            pairs.setdefault(match["module"], {})[part.removeprefix("lora_")] = shape
    return _Lora(pairs, others)


def _own_problems(config: Mapping[str, Any], lora: _Lora) -> Iterator[str]:
    """What is wrong without knowing the base model."""
    if not lora.pairs:
        yield f"contains no LoRA tensors {_some(lora.others)}, so it would change nothing; give another adapter"
    if unknown := [name for name in lora.others if not _is_whole(config, name)]:
        yield f"{_count(unknown)} no LoRA tensors of PEFT: {_some(unknown)}; they would be ignored"
    if half := [module for module, shapes in lora.pairs.items() if len(shapes) != 2]:
        yield f"{_count(half, 'modules have', 'module has')} one of lora_A and lora_B: {_some(half)}; save it again"
    if config.get("target_parameters"):
        return
    if left_over := [module for module in lora.pairs if not _is_target(config, module)]:
        yield f"{_count(left_over, 'modules are', 'module is')} not in target_modules: {_some(left_over)}"
    for module, shapes in lora.pairs.items():
        rank, (first, second) = _rank(config, module), _ranks(shapes)
        if {first, second} != {rank}:
            yield f"{module} has LoRA matrices of rank {first} and {second}, not {rank} as in {ADAPTER_CONFIG}"


class _Base(NamedTuple):
    """The modules of a base model with their weights' shapes, () where they are stored otherwise.

    `head` is whether the head shares the weights of the embedding, and is not stored.
    """

    modules: Shapes
    head: tuple[int, ...]
    multimodal: bool

    @classmethod
    def of(cls, folder: Path, weights: Shapes) -> "_Base":
        """The modules of the weights in a folder. Raises `ConfigError` if its config.json cannot be read."""
        path = folder / "config.json"
        try:
            config = dict(json.loads(path.read_bytes()))
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise ConfigError(f"{path}: not the configuration of a model: {error}") from None
        modules: dict[str, tuple[int, ...]] = {}
        for name, shape in weights.items():
            module, _, kind = name.rpartition(".")
            if len(shape) == 2 and kind == "weight":
                modules[module] = shape
            elif kind in ("qweight", "weight_packed", "weight"):
                modules.setdefault(module, ())
        embedding = next((shape for module, shape in modules.items() if _EMBEDDING.search(module) and shape), ())
        tied = config.get("tie_word_embeddings", True)
        return cls(modules, embedding if tied else (), "text_config" in config)

    def named(self, adapter: _Lora) -> Shapes:
        """The modules under the names of transformers, which may begin with one more word."""
        modules = (
            {_text_model(name): shape for name, shape in self.modules.items()} if self.multimodal else self.modules
        )
        for added in _ADDED:
            if not any(name.startswith(added) for name in modules) and any(n.startswith(added) for n in adapter.pairs):
                modules = {name if name in _HEADS else added + name: shape for name, shape in modules.items()}
        return modules


def _text_model(module: str) -> str:
    """A name in a model of text and images, which is stored with and without `language_model`."""
    return "model." + re.sub(r"^(?:model\.|language_model\.)*", "", module)


def _base_problems(config: Mapping[str, Any], lora: _Lora, base: _Base) -> Iterator[str]:
    modules = base.named(lora)
    own = {_text_model(name) if base.multimodal else name: shapes for name, shapes in lora.pairs.items()}
    known = dict(modules)
    if base.head:
        known |= {head: base.head for head in _HEADS if head not in known and head in own}
    if unknown := [name for name in own if name not in known]:
        yield (
            f"{_count(unknown, 'modules do', 'module does')} not exist in the base model: {_some(unknown)}, so their "
            "tensors would be ignored; give the base model that the adapter was trained on"
        )
    if missing := [name for name in modules if name not in own and _is_wanted(config, name, modules)]:
        yield (
            f"{_count(missing, 'modules have', 'module has')} no tensors, though target_modules names them: "
            f"{_some(missing)}; the adapter was not saved as a whole"
        )
    for name, shapes in own.items():
        if (wanted := known[name]) and not _fits(shapes, wanted, transposed=bool(config.get("fan_in_fan_out"))):
            yield f"{name} has LoRA matrices {_shown(shapes)}, which do not fit its weight {list(wanted)}"


def _is_wanted(config: Mapping[str, Any], module: str, modules: Shapes) -> bool:
    """Whether PEFT would adapt a module of the base model."""
    if config.get("target_modules") != "all-linear":
        return _is_target(config, module)
    return len(modules[module]) == 2 and not _EMBEDDING.search(module) and module not in _HEADS


def _is_target(config: Mapping[str, Any], module: str) -> bool:
    targets, excluded = config.get("target_modules") or [], config.get("exclude_modules") or []
    if _matches(excluded, module) or _is_saved_whole(config, module):
        return False
    if targets == "all-linear":
        return True
    return _matches(targets, module) and _is_transformed(config, module)


def _matches(targets: str | list[str], module: str) -> bool:
    if isinstance(targets, str):
        try:
            return re.fullmatch(targets, module) is not None
        except re.error:
            return False
    return any(module == name or module.endswith(f".{name}") for name in targets)


def _is_transformed(config: Mapping[str, Any], module: str) -> bool:
    layers = config.get("layers_to_transform")
    if layers is None or layers == [] or isinstance(config.get("target_modules"), str):
        return True
    patterns = config.get("layers_pattern") or []
    patterns = [patterns] if isinstance(patterns, str) else patterns
    found = [re.match(rf"(?:^|.*?\.){re.escape(each)}\.(\d+)\.", module) for each in patterns] or [_LAYER.match(module)]
    number = next((int(match[1]) for match in found if match), -1)
    return number in (layers if isinstance(layers, list) else [layers])


def _is_whole(config: Mapping[str, Any], name: str) -> bool:
    """Whether a tensor is no LoRA matrix but one that the configuration says is saved as a whole."""
    module = name.removeprefix("base_model.model.").rpartition(".")[0]
    biases = name.endswith(".bias") and config.get("bias", "none") != "none"
    embeds = bool(config.get("trainable_token_indices")) and ".token_adapter." in name
    return name.startswith("base_model.model.") and (_is_saved_whole(config, module) or biases or embeds)


def _is_saved_whole(config: Mapping[str, Any], module: str) -> bool:
    return any(re.match(rf"(^|.*\.){re.escape(name)}($|\..*)", module) for name in config.get("modules_to_save") or [])


def _rank(config: Mapping[str, Any], module: str) -> int:
    """The rank of a module: the configuration's, or that of a pattern which its name ends with."""
    patterns: Mapping[str, int] = config.get("rank_pattern") or {}
    return next((rank for end, rank in patterns.items() if re.match(rf"(?:.*\.)?(?:{end})$", module)), config["r"])


def _ranks(shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, int]:
    """The ranks of both matrices: A is rank x in, and B out x rank."""
    (_, a), (_, b) = sorted(shapes.items())
    return (a[0], b[1]) if len(a) == len(b) == 2 else (0, 0)


def _fits(shapes: Mapping[str, tuple[int, ...]], weight: tuple[int, ...], *, transposed: bool) -> bool:
    (first, a), (_, b) = sorted(shapes.items())
    found = (b[0], a[1])
    return found == (weight[::-1] if transposed or first.startswith("embedding") else weight)


def _base_shapes(base: Path) -> Shapes:
    """The shapes of all weights of a folder; empty if they are in another format."""
    shapes: dict[str, tuple[int, ...]] = {}
    for path in sorted(base.glob("*.safetensors")):
        shapes |= read_header(path).shapes
    return shapes


def _count(found: list[str], many: str = "tensors are", one: str = "tensor is") -> str:
    return f"{len(found)} {many if len(found) > 1 else one}"


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"({', '.join(names[:_SHOWN])}{more})" if names else "at all"


def _shown(shapes: Mapping[str, tuple[int, ...]]) -> str:
    return " and ".join(str(list(shape)) for _, shape in sorted(shapes.items()))
