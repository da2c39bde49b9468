"""The managed server's life, with a stand-in for vLLM: it comes up, or says why not, and never stays."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from hermes_lab.config.schema import ServerConfig
from hermes_lab.errors import ModelError
from hermes_lab.models import server as server_module
from hermes_lab.models.adapters import served_models
from hermes_lab.models.endpoint import Endpoint
from hermes_lab.models.server import VllmServer

STAND_IN = Path(__file__).parents[2] / "fakes" / "vllm_package"


class OfTheBlockError(Exception): ...


HARNESS = """
import sys, anyio
from pathlib import Path
from hermes_lab.config.schema import ServerConfig
from hermes_lab.models import server
server.is_cpu_build = lambda: True

async def main():
    log = Path(sys.argv[1])
    async with server.VllmServer(log.parent, ServerConfig(), name="m", log=log):
        print("up", flush=True)
        await anyio.sleep(600)

anyio.run(main)
"""


@pytest.fixture(autouse=True)
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(STAND_IN))
    monkeypatch.setenv("FAKE_VLLM_PIDS", str(tmp_path / "pids"))
    monkeypatch.setattr(server_module, "is_cpu_build", lambda: True)
    monkeypatch.setattr(server_module, "_STOP_SECONDS", 1.0)


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., VllmServer]:
    def make_server(**config: float) -> VllmServer:
        return VllmServer(tmp_path, ServerConfig(**config), name="m", log=tmp_path / "logs" / "server.log")

    return make_server


def running_pids(tmp_path: Path) -> list[int]:
    """Those of the stand-in's processes that still run; a zombie that nobody collects does not."""
    pids = json.loads((tmp_path / "pids").read_text())
    assert len(pids) == 2
    return [pid for pid in pids if _state(pid) not in ("", "Z")]


def they_end(tmp_path: Path) -> None:
    """Waits for the end of what was killed: on a busy machine a killed process still has to get its turn to die."""
    give_up = time.monotonic() + 20
    while running_pids(tmp_path):
        assert time.monotonic() < give_up
        time.sleep(0.05)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


@pytest.mark.anyio
async def test_it_serves_the_name_and_leaves_no_process(make: Callable[..., VllmServer], tmp_path: Path) -> None:
    async with make() as server:
        async with Endpoint(server.base_url) as endpoint:
            assert list(await served_models(endpoint)) == ["m"]
        assert len(running_pids(tmp_path)) == 2
    they_end(tmp_path)
    assert (tmp_path / "logs" / "server.log").read_text().startswith("loading True\n")


@pytest.mark.anyio
async def test_a_server_that_dies_shows_the_end_of_its_log(
    make: Callable[..., VllmServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_VLLM", "die")
    with pytest.raises(ModelError, match=r"exited with code 1 (?s:.*)server.log(?s:.*)this model is too large"):
        async with make():
            pass


@pytest.mark.anyio
async def test_a_server_that_never_answers_is_given_up_and_ended(
    make: Callable[..., VllmServer], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FAKE_VLLM", "hang")
    with pytest.raises(ModelError, match=r"was not ready within 5 s"):
        async with make(startup_seconds=5):
            pass
    they_end(tmp_path)


@pytest.mark.anyio
async def test_cancelling_the_start_ends_the_process(
    make: Callable[..., VllmServer], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FAKE_VLLM", "hang")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(make().__aenter__)
        while not (tmp_path / "pids").exists():  # noqa: ASYNC110
            await anyio.sleep(0.02)
        assert len(running_pids(tmp_path)) == 2
        tasks.cancel_scope.cancel()
    they_end(tmp_path)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_the_server_ends_with_the_harness(how: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-c", HARNESS, str(tmp_path / "server.log")]
    # Python ignores SIGINT where its parent did: a test run in the background would otherwise prove nothing.
    harness = subprocess.Popen(command, stdout=subprocess.PIPE, process_group=0, preexec_fn=_default_sigint)
    with harness, harness.stdout as output:
        assert output.readline() == b"up\n"
        assert len(running_pids(tmp_path)) == 2
        os.killpg(harness.pid, how)  # as a terminal does
    they_end(tmp_path)


def _default_sigint() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_options_of_the_configuration_come_last(make: Callable[..., VllmServer]) -> None:
    server = make(port=1234, max_model_len=99, args=["--max-lora-rank", "64"])
    command = server._command(cpu=False)
    assert command[-2:] == ["--max-lora-rank", "64"]
    assert command[command.index("--port") + 1] == "1234"
    assert command[command.index("--max-model-len") + 1] == "99"
    assert "--enforce-eager" not in command
    assert "--enforce-eager" in server._command(cpu=True)


@pytest.mark.anyio
async def test_a_server_that_dies_ends_the_work_with_its_log(make: Callable[..., VllmServer], tmp_path: Path) -> None:
    async def work() -> None:
        async with make() as server, server.watched():
            for pid in running_pids(tmp_path):
                os.kill(pid, signal.SIGKILL)
            await anyio.sleep(60)

    with pytest.raises(ModelError, match=r"vLLM exited with code .*server.log ends with:"):
        await work()


@pytest.mark.anyio
async def test_what_fails_beside_a_watched_server_is_told_as_it_is(make: Callable[..., VllmServer]) -> None:
    async with make() as server:
        with pytest.raises(OfTheBlockError):
            async with server.watched():
                raise OfTheBlockError
        async with server.watched():
            pass
