"""Weights & Biases, really: nothing leaves the machine, and what its files hold is what `metrics.jsonl` holds."""

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes.episodes import episode, write_run
from fakes.tiny_model import tiny_model
from fakes.training import TRAINING, smoke_lock

from hermes_lab.training.config import TrainConfig

pytest.importorskip("wandb", reason="optional: pip install 'hermes-lab[wandb]'")
pytestmark = TRAINING

STEPS = 3


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The addresses outside of this machine that this process tried to reach."""
    tried: list[Any] = []
    connect = socket.socket.connect

    def refuse(self: socket.socket, address: Any) -> None:
        if self.family == socket.AF_UNIX or address[0] in ("127.0.0.1", "localhost", "::1"):
            return connect(self, address)  # of wandb's own process
        tried.append(address)
        raise OSError(f"no network in this test: {address}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    return tried


def records(content: bytes) -> Iterator[bytes]:
    """What a `.wandb` file holds: LevelDB's log format behind seven bytes, in blocks of 32 KiB."""
    at, whole = 7, b""
    while at + 7 <= len(content):
        if (left := 32768 - at % 32768) < 7:
            at += left
            continue
        length, kind = int.from_bytes(content[at + 4 : at + 6], "little"), content[at + 6]
        whole += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or its last part
            yield whole
            whole = b""


def logged(file: Path) -> list[dict[str, Any]]:
    """The rows of an offline run that have a loss."""
    from wandb.proto.wandb_internal_pb2 import Record

    rows = []
    for content in records(file.read_bytes()):
        record = Record()
        record.ParseFromString(content)
        row = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
        if "train/loss" in row:
            rows.append(row)
    return rows


def test_a_training_is_logged_offline_as_it_is_in_the_metrics(
    tmp_path: Path, no_network: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from hermes_lab.training.sft import train_sft

    monkeypatch.setenv("WANDB_BASE_URL", "http://192.0.2.1")  # nobody's
    base = str(tiny_model(tmp_path / "base"))
    lock = smoke_lock(tmp_path, "sft", base_model=base, tokenizer=base, total_steps=STEPS, batch_size=2, use_wandb=True)
    run = write_run(tmp_path / "run", *(episode(f"task {n}") for n in range(4)))
    config = TrainConfig(lock=lock, data=(str(run),), adapters=str(tmp_path / "adapters"))
    folder = train_sft(config, print)
    (file,) = (folder / "wandb").glob("offline-run-*/*.wandb")
    rows = logged(file)
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert len(metrics) == STEPS
    assert [row["train/global_step"] for row in rows] == [step["step"] for step in metrics]
    assert [row["train/loss"] for row in rows] == [step["loss"] for step in metrics]
    assert [row["train/grad_norm"] for row in rows] == pytest.approx([step["grad_norm"] for step in metrics])
    assert not no_network
