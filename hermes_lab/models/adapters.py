"""LoRA adapters on a running vLLM: each version is served under its own name, which is verified."""

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import anyio.to_thread

from hermes_lab.config.schema import ModelConfig
from hermes_lab.errors import ConfigError, ModelError
from hermes_lab.models.cards import ADAPTER_CONFIG, WEIGHTS, check_card
from hermes_lab.models.endpoint import Endpoint
from hermes_lab.models.lora_files import check_lora, max_rank, server_rank
from hermes_lab.models.model_list import ModelList, NoModelList, read_model_list
from hermes_lab.models.refusals import Refused
from hermes_lab.models.weights import sha256_files

PACKAGED = "packaged"
"""The name of the bundled adapter."""

_PACKAGED_FOLDER = Path(__file__).parent / "packaged_adapter"


class Adapter(NamedTuple):
    """The name of a served adapter and the sha256 of its files."""

    name: str
    digest: str


def packaged_folder() -> Path:
    """The folder of the bundled adapter; None if this installation has none."""
    return _PACKAGED_FOLDER


def adapter_folder(name: str) -> Path | None:
    """The folder that `name` refers to: `packaged` or a path; None if it is neither.

    Raises `ConfigError` if this installation has no bundled adapter.
    """
    if name != PACKAGED:
        folder = Path(name).expanduser()
        return folder if name and folder.is_dir() else None
    if not (_PACKAGED_FOLDER / WEIGHTS).is_file():
        raise ConfigError(
            f"model.adapter: this installation has no bundled `{PACKAGED}` adapter; give the folder of an adapter"
        )
    return _PACKAGED_FOLDER


def check_folders(config: ModelConfig, adapters: Iterable[str]) -> None:
    """Raises `ConfigError` if a server that the lab starts could not load one of `adapters`, for want of its folder.

    Servers with arguments of their own may serve it under its name.
    """
    if config.provider != "vllm" or config.server.args:
        return
    for name in adapters:
        if name and adapter_folder(name) is None:
            raise ConfigError(f"model.adapter: {name!r} is neither a folder nor `{PACKAGED}`")


def adapter_digest(folder: Path) -> str:
    """sha256 over an adapter's two files. Raises `ConfigError` if one of them is missing."""
    files = [folder / name for name in (ADAPTER_CONFIG, WEIGHTS)]
    for file in files:
        if not file.is_file():
            raise ConfigError(f"model.adapter: {folder} is not a PEFT LoRA adapter: {file.name} is missing")
    return sha256_files(files)


async def served_models(endpoint: Endpoint) -> dict[str, str]:
    """The models and adapters that a server serves: name -> folder, "" if the server does not report it."""
    return (await list_models(endpoint)).models


async def list_models(endpoint: Endpoint) -> ModelList:
    """As `served_models`, with how certain the list is. Raises `NoModelList` if the server provides none."""
    content, _ = await endpoint.get("/models")
    try:
        return read_model_list(content)
    except NoModelList as error:
        raise NoModelList(f"{endpoint.base_url}/models: {error}") from None


async def load_adapter(endpoint: Endpoint, folder: Path) -> Adapter:
    """Loads an adapter as `<folder name>-<first 12 characters of its digest>`, unless already loaded.

    A changed adapter gets a new name, since vLLM reuses cached prefixes of a name whose weights were replaced. vLLM may
    also read the folder again later, so every version needs a folder that never changes. The server must share the file
    system. Raises `ConfigError` if the folder contains no adapter or the server rejects it.
    """
    folder, adapter = await anyio.to_thread.run_sync(identify, folder)
    served = await served_models(endpoint)
    if adapter.name not in served:
        await anyio.to_thread.run_sync(check_lora, folder, _base_folder(served))
        refused = None
        try:
            await endpoint.post("/load_lora_adapter", {"lora_name": adapter.name, "lora_path": str(folder)})
        except Refused as error:
            refused = error
        served = await served_models(endpoint)
        # Another run may have loaded it at the same moment, which the server refuses.
        if refused and adapter.name not in served:
            hint = "; it must run with VLLM_ALLOW_RUNTIME_LORA_UPDATING=True" if refused.status in (404, 405) else ""
            if "max_lora_rank" in str(refused):
                hint = f"; start it with --max-lora-rank {server_rank(max_rank(folder))}, as `hermes-lab serve` can"
            raise ConfigError(f"model.adapter: the server cannot load {folder}: {refused}{hint}")
    if adapter.name not in served:
        raise ModelError(f"{endpoint.base_url}: accepted the adapter {adapter.name} but does not serve it")
    root = served[adapter.name]
    if root and not _same(root, folder):
        raise ConfigError(
            f"model.adapter: {endpoint.base_url} serves {adapter.name} from {root}, not from {folder}; "
            f"unload it first: `hermes-lab adapters unload {adapter.name} --base-url {endpoint.base_url}`"
        )
    return adapter


class StillServed:
    """Checks that a server still serves `name` from `root`, at most once every `every` seconds.

    Raises `ModelError` if it does not, or if the files were changed since: somebody unloaded the adapter or loaded
    another one under its name.
    """

    def __init__(self, endpoint: Endpoint, name: str, root: str, every: float = 1.0) -> None:
        self._endpoint = endpoint
        self._name = name
        self._root = root
        self._every = every
        self._next = 0.0
        self._stamp = _stamp(Path(root))

    async def __call__(self) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._every
        served = await served_models(self._endpoint)
        if served.get(self._name) != self._root:
            self._next = 0.0  # check again on the next call
            now_at = f"now served from {served[self._name]}" if self._name in served else "no longer served"
            raise ModelError(
                f"{self._endpoint.base_url}: the adapter {self._name} from {self._root} is {now_at}; load it again"
            )
        if _stamp(Path(self._root)) != self._stamp:
            self._next = 0.0
            raise ModelError(f"model.adapter: {self._root} was changed after {self._name} was loaded; start a new run")


def _stamp(root: Path) -> list[tuple[int, int, int]]:
    """Inode, size and modification time of an adapter's files; empty if they are not on this machine, as with a remote
    server."""
    files = [root / name for name in (ADAPTER_CONFIG, WEIGHTS)]
    found = [file.stat() for file in files if file.is_file()]
    return [(stat.st_ino, stat.st_size, stat.st_mtime_ns) for stat in found]


def _base_folder(served: Mapping[str, str]) -> Path | None:
    """The folder of the base model that a server serves, if it is on this machine and the only one."""
    found = {Path(root) for root in served.values() if root and (Path(root) / "config.json").is_file()}
    return found.pop() if len(found) == 1 else None


def _same(root: str, folder: Path) -> bool:
    return Path(root).resolve() == folder


def identify(folder: Path, base: Path | None = None) -> tuple[Path, Adapter]:
    """An adapter's absolute folder, its name and its digest.

    Raises `ConfigError` if the folder contains no adapter, or one that does not match its card, its PEFT configuration
    or the base model in the folder `base`.
    """
    folder = folder.expanduser().resolve()
    digest = adapter_digest(folder)
    check_card(folder, digest)
    check_lora(folder, base)
    return folder, Adapter(f"{folder.name}-{digest[:12]}", digest)


async def unload_adapter(endpoint: Endpoint, name: str) -> None:
    """Unloads an adapter from a server."""
    await endpoint.post("/unload_lora_adapter", {"lora_name": name})
