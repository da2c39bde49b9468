"""LoRA adapters on a running vLLM: each version under a name of its own, proved to be served."""

import time
from pathlib import Path
from typing import NamedTuple

import anyio.to_thread

from hermes_lab.errors import ConfigError, ModelError
from hermes_lab.models.cards import ADAPTER_CONFIG, WEIGHTS, check_card
from hermes_lab.models.endpoint import Endpoint
from hermes_lab.models.model_list import ModelList, NoModelList, read_model_list
from hermes_lab.models.refusals import Refused
from hermes_lab.models.weights import sha256_files

PACKAGED = "packaged"
"""The name of the adapter that the package brings along."""

_PACKAGED_FOLDER = Path(__file__).parent / "packaged_adapter"


class Adapter(NamedTuple):
    """What a server calls an adapter, and the sha256 of its files."""

    name: str
    digest: str


def packaged_folder() -> Path:
    """Where the adapter is that the package brings along, if it does."""
    return _PACKAGED_FOLDER


def adapter_folder(name: str) -> Path | None:
    """The folder that `name` means: `packaged`, or a folder; None where it is neither.

    Raises `ConfigError` where the package brings no adapter along.
    """
    if name != PACKAGED:
        folder = Path(name).expanduser()
        return folder if name and folder.is_dir() else None
    if not (_PACKAGED_FOLDER / WEIGHTS).is_file():
        raise ConfigError(
            f"model.adapter: this installation brings no `{PACKAGED}` adapter along; give a folder of your own"
        )
    return _PACKAGED_FOLDER


def adapter_digest(folder: Path) -> str:
    """sha256 over an adapter's two files. Raises `ConfigError` where one of them is missing."""
    files = [folder / name for name in (ADAPTER_CONFIG, WEIGHTS)]
    for file in files:
        if not file.is_file():
            raise ConfigError(f"model.adapter: {folder} is no LoRA adapter of PEFT: it holds no {file.name}")
    return sha256_files(files)


async def served_models(endpoint: Endpoint) -> dict[str, str]:
    """The models and adapters that a server serves: name -> folder, or "" where the server does not tell."""
    return (await list_models(endpoint)).models


async def list_models(endpoint: Endpoint) -> ModelList:
    """The same, with how certain it is. Raises `NoModelList` where the server gives none."""
    content, _ = await endpoint.get("/models")
    try:
        return read_model_list(content)
    except NoModelList as error:
        raise NoModelList(f"{endpoint.base_url}/models: {error}") from None


async def load_adapter(endpoint: Endpoint, folder: Path) -> Adapter:
    """Loads an adapter as `<folder's name>-<first 12 of its digest>`, unless it is loaded already.

    A changed adapter so has a new name: vLLM keeps cached prefixes of a name whose weights were replaced. It
    may also read the folder again later, so every version needs a folder that does not change. The server
    must see the same file system. Raises `ConfigError` where the folder holds no adapter or the server takes
    none.
    """
    folder, adapter = await anyio.to_thread.run_sync(identify, folder)
    served = await served_models(endpoint)
    if adapter.name not in served:
        try:
            await endpoint.post("/load_lora_adapter", {"lora_name": adapter.name, "lora_path": str(folder)})
        except Refused as error:
            hint = "; it must run with VLLM_ALLOW_RUNTIME_LORA_UPDATING=True" if error.status in (404, 405) else ""
            raise ConfigError(f"model.adapter: the server does not load {folder}: {error}{hint}") from None
        served = await served_models(endpoint)
    if adapter.name not in served:
        raise ModelError(f"{endpoint.base_url}: took the adapter {adapter.name}, but does not serve it")
    root = served[adapter.name]
    if root and not _same(root, folder):
        raise ConfigError(
            f"model.adapter: {endpoint.base_url} serves {adapter.name} from {root}, not from {folder}; "
            f"first `hermes-lab adapters unload {adapter.name} --base-url {endpoint.base_url}`"
        )
    return adapter


class StillServed:
    """Raises `ModelError` where a server no longer serves `name` from `root`, or the files there were written since:
    somebody took it off, or loaded another adapter under its name. It looks at most once in `every` seconds."""

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
            self._next = 0.0  # whoever asks next looks again
            now_at = f"from {served[self._name]}" if self._name in served else "no longer"
            raise ModelError(
                f"{self._endpoint.base_url}: the adapter {self._name} of {self._root} is served {now_at}; load it again"
            )
        if _stamp(Path(self._root)) != self._stamp:
            self._next = 0.0
            raise ModelError(f"model.adapter: {self._root} was written since {self._name} was loaded; start a new run")


def _stamp(root: Path) -> list[tuple[int, int, int]]:
    """When an adapter's files were written, as far as they can be seen from here; a server may be elsewhere."""
    files = [root / name for name in (ADAPTER_CONFIG, WEIGHTS)]
    found = [file.stat() for file in files if file.is_file()]
    return [(stat.st_ino, stat.st_size, stat.st_mtime_ns) for stat in found]


def _same(root: str, folder: Path) -> bool:
    return Path(root).resolve() == folder


def identify(folder: Path) -> tuple[Path, Adapter]:
    """An adapter's absolute folder, its name and its digest.

    Raises `ConfigError` where the folder holds none, or one that is not what its card tells of.
    """
    folder = folder.expanduser().resolve()
    digest = adapter_digest(folder)
    check_card(folder, digest)
    return folder, Adapter(f"{folder.name}-{digest[:12]}", digest)


async def unload_adapter(endpoint: Endpoint, name: str) -> None:
    """Takes an adapter off a server."""
    await endpoint.post("/unload_lora_adapter", {"lora_name": name})
