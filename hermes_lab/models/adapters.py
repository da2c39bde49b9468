"""LoRA adapters on a running vLLM: each version under a name of its own, proved to be served."""

from pathlib import Path
from typing import NamedTuple

import anyio.to_thread
import msgspec

from hermes_lab.errors import ConfigError, ModelError
from hermes_lab.models.endpoint import Endpoint, Refused
from hermes_lab.models.weights import sha256_files

_FILES = ("adapter_config.json", "adapter_model.safetensors")


class Adapter(NamedTuple):
    """What a server calls an adapter, and the sha256 of its files."""

    name: str
    digest: str


class ServedModel(msgspec.Struct):
    """One entry of `/models`. vLLM gives as `root` the folder that it loaded."""

    id: str
    root: str | None = None


class _ServedModels(msgspec.Struct):
    data: list[ServedModel]


def adapter_digest(folder: Path) -> str:
    """sha256 over an adapter's two files. Raises `ConfigError` where one of them is missing."""
    files = [folder / name for name in _FILES]
    for file in files:
        if not file.is_file():
            raise ConfigError(f"model.adapter: {folder} is no LoRA adapter of PEFT: it holds no {file.name}")
    return sha256_files(files)


async def served_models(endpoint: Endpoint) -> dict[str, str]:
    """The models and adapters that a server serves: name -> folder, or "" where the server does not tell."""
    content, _ = await endpoint.get("/models")
    try:
        models = msgspec.json.decode(content, type=_ServedModels)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ModelError(f"{endpoint.base_url}/models: no list of models: {error}") from None
    return {model.id: model.root or "" for model in models.data}


async def load_adapter(endpoint: Endpoint, folder: Path) -> Adapter:
    """Loads an adapter as `<folder's name>-<first 12 of its digest>`, unless it is loaded already.

    A changed adapter so has a new name: vLLM keeps cached prefixes of a name whose weights were replaced. It
    may also read the folder again later, so every version needs a folder that does not change. The server
    must see the same file system. Raises `ConfigError` where the folder holds no adapter or the server takes
    none.
    """
    folder, adapter = await anyio.to_thread.run_sync(identify, folder)
    if adapter.name in await served_models(endpoint):
        return adapter
    try:
        await endpoint.post("/load_lora_adapter", {"lora_name": adapter.name, "lora_path": str(folder)})
    except Refused as error:
        hint = "; it must run with VLLM_ALLOW_RUNTIME_LORA_UPDATING=True" if error.status in (404, 405) else ""
        raise ConfigError(f"model.adapter: the server does not load {folder}: {error}{hint}") from None
    if adapter.name not in await served_models(endpoint):
        raise ModelError(f"{endpoint.base_url}: took the adapter {adapter.name}, but does not serve it")
    return adapter


def identify(folder: Path) -> tuple[Path, Adapter]:
    """An adapter's absolute folder, its name and its digest. Raises `ConfigError` where the folder holds none."""
    folder = folder.expanduser().resolve()
    digest = adapter_digest(folder)
    return folder, Adapter(f"{folder.name}-{digest[:12]}", digest)


async def unload_adapter(endpoint: Endpoint, name: str) -> None:
    """Takes an adapter off a server."""
    await endpoint.post("/unload_lora_adapter", {"lora_name": name})
