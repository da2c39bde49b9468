"""An adapter's tensors are those of its configuration and of the base model, or it is not loaded."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes.openai_server import FakeOpenAIServer

from hermes_lab.errors import ConfigError
from hermes_lab.models import weights
from hermes_lab.models.adapters import identify, load_adapter
from hermes_lab.models.endpoint import Endpoint
from hermes_lab.models.lora_files import check_lora, check_mergeable, max_rank, server_rank

Shapes = dict[str, tuple[int, ...]]
MODULES = {"self_attn.q_proj": (8, 8), "self_attn.k_proj": (4, 8), "mlp.down_proj": (8, 16)}


def write_tensors(path: Path, shapes: Shapes) -> None:
    """A safetensors file of zeros in one byte each."""
    header, at = {}, 0
    for name, shape in shapes.items():
        size = 1
        for length in shape:
            size *= length
        header[name] = {"dtype": "U8", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(at))


def base_shapes(layers: int = 3) -> Shapes:
    named = {f"model.layers.{n}.{name}.weight": shape for n in range(layers) for name, shape in MODULES.items()}
    norms: Shapes = {f"model.layers.{n}.input_layernorm.weight": (8,) for n in range(layers)}
    return {"model.embed_tokens.weight": (97, 8)} | named | norms


def lora_shapes(rank: int = 2, layers: int = 3) -> Shapes:
    found: Shapes = {}
    for n in range(layers):
        for name, (out, inner) in MODULES.items():
            at = f"base_model.model.model.layers.{n}.{name}"
            found |= {f"{at}.lora_A.weight": (rank, inner), f"{at}.lora_B.weight": (out, rank)}
    return found


def config(**changes: Any) -> dict[str, Any]:
    targets = ["down_proj", "k_proj", "q_proj"]
    return {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": targets} | changes


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path / "base"
    folder.mkdir()
    (folder / "config.json").write_text('{"tie_word_embeddings": true}')
    write_tensors(folder / "model.safetensors", base_shapes())
    return folder


def adapter(tmp_path: Path, shapes: Shapes | None = None, **changes: Any) -> Path:
    folder = tmp_path / "adapter"
    folder.mkdir(exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps(config(**changes)))
    write_tensors(folder / "adapter_model.safetensors", lora_shapes() if shapes is None else shapes)
    return folder


def renamed(old: str, new: str) -> Shapes:
    return {name.replace(old, new): shape for name, shape in lora_shapes().items()}


def without(part: str) -> Shapes:
    return {name: shape for name, shape in lora_shapes().items() if part not in name}


def with_shape(part: str, shape: tuple[int, ...]) -> Shapes:
    return {name: shape if part in name else own for name, own in lora_shapes().items()}


def test_an_adapter_that_fits_is_taken(tmp_path: Path, base: Path) -> None:
    check_lora(adapter(tmp_path), base)
    check_lora(adapter(tmp_path))


FIRST = "model.layers.0.self_attn.q_proj"


@pytest.mark.parametrize(
    ("shapes", "problem"),
    [
        (renamed("base_model.model.", "base_model.model.language_model."),
         r"9 modules do not exist in the base model: \(language_model.model.layers.0.self_attn.q_.* and 6 more\)"),
        (renamed("model.layers", "model.language_model.layers"), "9 modules do not exist in the base model"),
        (renamed("layers.", "layers.1"), "9 modules do not exist in the base model"),
        (lora_shapes(layers=4), r"3 modules do not exist in the base model: \(model.layers.3"),
        (lora_shapes(layers=1), r"6 modules have no tensors, though target_modules names them: \(model.layers.1"),
        (without("layers.1.mlp.down_proj"), r"1 module has no tensors, .*: \(model.layers.1.mlp.down_proj\)"),
        (with_shape("0.self_attn.q_proj.lora_B", (4, 2)), rf"{FIRST} has LoRA matrices \[2, 8\] and \[4, 2\]"),
        ({name.translate(str.maketrans("qk", "kq")): shape for name, shape in lora_shapes().items()},
         r"model.layers.0.self_attn.k_proj has LoRA matrices \[2, 8\] and \[8, 2\], which do not fit"),
    ],
)  # fmt: skip
def test_one_that_does_not_fit_the_base_is_refused(tmp_path: Path, base: Path, shapes: Shapes, problem: str) -> None:
    folder = adapter(tmp_path, shapes)
    check_lora(folder)  # by itself it is an adapter
    with pytest.raises(ConfigError, match=rf"adapter_model.safetensors: {problem}.*\(base model: {base}\)"):
        check_lora(folder, base)


@pytest.mark.parametrize(
    ("shapes", "changes", "problem"),
    [
        ({}, {}, "contains no LoRA tensors at all, so it would change nothing"),
        (renamed("base_model.model.", ""), {}, r"contains no LoRA tensors \(model.layers.0"),
        (renamed("lora_A.weight", "lora_A.default.weight"), {}, "9 tensors are no LoRA tensors of PEFT"),
        (lora_shapes() | {"base_model.model.lm_head.weight": (97, 8)}, {},
         r"1 tensor is no LoRA tensors of PEFT: \(base"),
        (without("0.self_attn.q_proj.lora_A"), {}, rf"1 module has one of lora_A and lora_B: \({FIRST}\)"),
        (None, {"target_modules": ["q_proj", "k_proj"]}, r"3 modules are not in target_modules: \(model.layers.0.mlp"),
        (None, {"target_modules": r".*\.q_proj"}, "6 modules are not in target_modules"),
        (None, {"layers_to_transform": [0, 2]}, r"3 modules are not in target_modules: \(model.layers.1"),
        (None, {"exclude_modules": ["q_proj"]}, "3 modules are not in target_modules"),
        (None, {"r": 4}, f"{FIRST} has LoRA matrices of rank 2 and 2, not 4 as in adapter_config.json"),
        (with_shape("0.self_attn.q_proj.lora_A", (2, 8, 1)), {}, f"{FIRST} has LoRA matrices of rank 0 and 0, not 2"),
    ],
)  # fmt: skip
def test_one_that_is_not_what_its_configuration_says_is_refused(
    tmp_path: Path, shapes: Shapes | None, changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigError, match=rf"adapter_model.safetensors: {problem}"):
        identify(adapter(tmp_path, shapes, **changes))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"peft_type": "IA3"}, "peft_type is 'IA3', not 'LORA'"),
        ({"r": True}, r"r \(the LoRA rank\) is True"),
        ({"r": "2"}, r"r \(the LoRA rank\) is '2'"),
        ({"target_modules": None}, "target_modules is None"),
        ({"auto_mapping": {"base_model_class": "X", "parent_library": "evil.code"}}, "code of 'evil.code', which"),
    ],
)  # fmt: skip
def test_a_configuration_that_is_none_is_refused(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=rf"adapter_config.json: .*{problem}"):
        identify(adapter(tmp_path, **changes))


def test_what_peft_can_save_is_taken(tmp_path: Path, base: Path) -> None:
    check_lora(adapter(tmp_path, target_modules="all-linear"), base)
    check_lora(adapter(tmp_path, target_modules=r"model\.layers\.\d+\.(self_attn|mlp)\..*_proj"), base)
    part = {name: shape for name, shape in lora_shapes().items() if ".1." not in name}
    check_lora(adapter(tmp_path, part, layers_to_transform=[0, 2]), base)
    ranked = {
        n: tuple(5 if size == 2 else size for size in s) if "k_proj" in n else s for n, s in lora_shapes().items()
    }
    folder = adapter(tmp_path, ranked, rank_pattern={"k_proj": 5})
    check_lora(folder, base)
    assert max_rank(folder) == 5
    head = {"base_model.model.lm_head.lora_A.weight": (2, 8), "base_model.model.lm_head.lora_B.weight": (97, 2)}
    check_lora(adapter(tmp_path, lora_shapes() | head, target_modules=[*config()["target_modules"], "lm_head"]), base)
    whole: Shapes = {"base_model.model.lm_head.weight": (97, 8)}
    check_lora(adapter(tmp_path, lora_shapes() | whole, modules_to_save=["lm_head"]), base)
    embedding: Shapes = {
        "base_model.model.model.embed_tokens.lora_embedding_A": (2, 97),
        "base_model.model.model.embed_tokens.lora_embedding_B": (8, 2),
    }
    targets = [*config()["target_modules"], "embed_tokens"]
    check_lora(adapter(tmp_path, lora_shapes() | embedding, target_modules=targets), base)


def test_weights_saved_without_their_head_or_in_parts_are_compared(tmp_path: Path, base: Path) -> None:
    bare = {name.removeprefix("model."): shape for name, shape in base_shapes().items()}
    (base / "model.safetensors").unlink()
    for number in (1, 2):
        part = dict(list(bare.items())[number - 1 :: 2])
        write_tensors(base / f"model-0000{number}-of-00002.safetensors", part)
    check_lora(adapter(tmp_path), base)
    with pytest.raises(ConfigError, match="9 modules do not exist"):
        check_lora(adapter(tmp_path, renamed("base_model.model.", "base_model.model.language_model.")), base)


class Ran:
    """A pickle that runs code when it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return (Path.touch, (self.mark,))


@pytest.mark.parametrize("name", ["adapter_model.bin", "adapter_model.pt", "new_embeddings.bin"])
@pytest.mark.parametrize("instead", [True, False])
def test_a_pickle_is_never_loaded(tmp_path: Path, base: Path, name: str, instead: bool) -> None:
    folder, mark = adapter(tmp_path), tmp_path / "ran"
    (folder / name).write_bytes(pickle.dumps(Ran(mark)))
    if instead:
        (folder / "adapter_model.safetensors").unlink()
    for load in (lambda: identify(folder), lambda: weights.merge_into(tmp_path / "out", base, folder)):
        with pytest.raises(ConfigError, match=r"a pickle, which can run code|adapter_model.safetensors is missing"):
            load()
    assert not mark.exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.anyio
async def test_a_server_is_not_asked_to_load_what_its_model_cannot_use(tmp_path: Path, base: Path) -> None:
    folder = adapter(tmp_path, renamed("base_model.model.", "base_model.model.language_model."))
    async with FakeOpenAIServer(["x"]) as server, Endpoint(server.base_url) as endpoint:
        server.base = str(base)
        with pytest.raises(ConfigError, match="9 modules do not exist in the base model"):
            await load_adapter(endpoint, folder)
        assert server.adapters == {}
        assert (await load_adapter(endpoint, adapter(tmp_path))).name in server.adapters


HEAD: Shapes = {"base_model.model.lm_head.lora_A.weight": (2, 8), "base_model.model.lm_head.lora_B.weight": (97, 2)}
TABLE: Shapes = {
    "base_model.model.model.embed_tokens.lora_embedding_A": (2, 97),
    "base_model.model.model.embed_tokens.lora_embedding_B": (8, 2),
}


@pytest.mark.parametrize(
    ("added", "changes"),
    [
        (HEAD, {"target_modules": [*config()["target_modules"], "lm_head"]}),
        (TABLE, {"target_modules": [*config()["target_modules"], "embed_tokens"]}),
        ({"base_model.model.lm_head.weight": (97, 8)}, {"modules_to_save": ["lm_head"]}),
    ],
    ids=["head", "embedding", "whole head"],
)
def test_a_head_that_is_also_the_embedding_is_not_merged(
    tmp_path: Path, base: Path, added: Shapes, changes: dict[str, Any]
) -> None:
    folder = adapter(tmp_path, lora_shapes() | added, **changes)
    check_lora(folder, base)  # it can be served
    refused = r"it adapts (lm_head|model.embed_tokens), .* a merge would change both"
    with pytest.raises(ConfigError, match=refused):
        weights.merge_into(tmp_path / "out", base, folder)
    with pytest.raises(ConfigError, match=refused):
        weights.merged(base, folder, "0")
    (base / "config.json").write_text("{}")  # no head is stored, so it is the embedding
    with pytest.raises(ConfigError, match=refused):
        check_mergeable(folder, base)
    for said in ('{"tie_word_embeddings": false}', "{}"):
        (base / "config.json").write_text(said)
        write_tensors(base / "model.safetensors", base_shapes() | {"lm_head.weight": (97, 8)})
        check_mergeable(folder, base)
    assert not (tmp_path / "out").exists()


def test_a_merge_is_refused_even_if_an_earlier_version_has_made_it(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_LAB_CACHE", str(tmp_path / "cache"))
    folder = adapter(tmp_path, renamed("base_model.model.", "base_model.model.language_model."))
    made = tmp_path / "cache" / "merged" / f"{weights.digest(base)[:12]}-{'0' * 12}-v2"
    made.mkdir(parents=True)
    with pytest.raises(ConfigError, match="9 modules do not exist in the base model"):
        weights.merged(base, folder, "0" * 64)
    assert weights.merged(base, adapter(tmp_path), "0" * 64) == made


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.json", {"auto_map": {"AutoConfig": "configuration_x.XConfig"}}),
        ("config.json", {"trust_remote_code": True}),
        ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["tokenization_x.XTokenizer", None]}}),
    ],
)
def test_a_model_that_brings_its_own_code_is_refused(tmp_path: Path, base: Path, file: str, content: object) -> None:
    assert weights.resolve(str(base)) == base
    (base / file).write_text(json.dumps(content))
    with pytest.raises(ConfigError, match=rf"{file}: \w+ names Python code in the model's folder, which .* never runs"):
        weights.resolve(str(base))


@pytest.mark.parametrize(("rank", "most"), [(1, 16), (16, 16), (17, 32), (32, 32), (65, 128), (300, 320), (512, 512)])
def test_a_server_takes_the_rank(rank: int, most: int) -> None:
    assert server_rank(rank) == most


def test_a_rank_that_no_server_takes_is_told() -> None:
    with pytest.raises(ConfigError, match="vLLM serves adapters of a rank up to 512, not 513"):
        server_rank(513)
