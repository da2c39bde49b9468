"""atroposlib's own server as a process, and the trainer's side of its protocol."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

RUN_API = Path(sys.executable).parent / "run-api"

REGISTRATION = {
    "wandb_group": "g",
    "wandb_project": "p",
    "batch_size": 8,
    "max_token_len": 100_000,
    "checkpoint_dir": "",
    "save_checkpoint_interval": 0,
    "starting_step": 0,
    "num_steps": 2,
}


def require_run_api() -> None:
    """Skips where the extra `atropos` is not installed."""
    if not RUN_API.exists():
        pytest.skip("run-api is not there; pip install 'hermes-lab[atropos]'")


class RunApi:
    """`run-api` on a port."""

    def __init__(self, port: int, folder: Path) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self._log = folder / "run-api.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            command = [str(RUN_API), "--host", "127.0.0.1", "--port", str(self.port)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        for _ in range(6000):
            try:
                httpx.get(self.url, timeout=5)
                return
            except httpx.TransportError:
                time.sleep(0.05)
        raise AssertionError(self._log.read_text())

    def kill(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()

    def forget(self) -> None:
        """Runs, and has the data of nobody."""
        if self._process and self._process.poll() is not None:
            self.start()
        self.reset()

    def get(self, path: str) -> Any:
        return httpx.get(self.url + path, timeout=30).json()

    def post(self, path: str, body: Any) -> Any:
        return httpx.post(self.url + path, json=body, timeout=30).json()

    def reset(self) -> None:
        httpx.get(f"{self.url}/reset_data", timeout=30)

    def start_trainer(self, **changes: Any) -> None:
        """`POST /register` and the first `GET /batch`, without which no environment may register."""
        self.post("/register", REGISTRATION | changes)
        assert self.get("/batch") == {"batch": None}

    def next_batch(self, seconds: float = 180.0) -> list[dict[str, Any]]:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if (batch := self.get("/batch")["batch"]) is not None:
                return batch
            time.sleep(0.05)
        raise AssertionError("no batch came")

    def connected(self) -> bool:
        """Whether the first environment shares the batches: its weight among none is a division by 0."""
        return httpx.request("GET", f"{self.url}/status-env", json={"env_id": 0}, timeout=30).status_code == 200


@contextmanager
def run_api(port: int, folder: Path) -> Iterator[RunApi]:
    server = RunApi(port, folder)
    server.start()
    try:
        yield server
    finally:
        server.kill()
