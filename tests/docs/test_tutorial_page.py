"""docs/tutorial.md, done as it says: with the rehearsal, and with an endpoint on loopback."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from code_blocks import ROOT, Block, Reader, blocks
from fakes.openai_server import FakeOpenAIServer, Reply, function_call, running
from fakes.tiny_model import tiny_model
from fakes.training import TRAINING, smoke_lock

LABEL = """echo "$(cut -d' ' -f2 order.txt | paste -sd';')" > label.txt"""
PAGE = blocks("tutorial.md")


def reply(body: dict[str, Any]) -> str | Reply:
    """A model that writes the usual label."""
    if body["messages"][-1]["role"] == "user" and "Write the label" in body["messages"][-1]["content"]:
        return Reply(tool_calls=[function_call("c", "terminal", {"command": LABEL})])
    return "Done."


@pytest.fixture
def endpoint() -> Iterator[FakeOpenAIServer]:
    with running(FakeOpenAIServer(reply, models=["my-model"])) as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the reader works, and modules are found."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    for module in ("mine", "mine.parcels", "mine.rehearsal"):
        sys.modules.pop(module, None)


def follow(reader: Reader, page: list[Block]) -> None:
    for block in page:
        reader.follow(block)


def test_the_tutorial_does_what_it_says(endpoint: FakeOpenAIServer, folder: Path) -> None:
    small = "-c learning.worlds=2 -c model.name=my-model --out runs/parcels"
    reader = Reader(
        folder,
        {"http://127.0.0.1:8000/v1": endpoint.base_url, "-c model.name=my-model --out runs/parcels": small},
    )
    follow(reader, PAGE)
    assert "2 solved" in reader.said("summary runs/tasks").replace("  ", " ")


@pytest.mark.parametrize("needs", [pytest.param("training", marks=TRAINING)])
def test_its_training_makes_an_adapter(needs: str, folder: Path) -> None:
    (folder / "configs").symlink_to(ROOT / "configs")
    base = str(tiny_model(folder / "base"))
    lock = smoke_lock(folder, "sft", base_model=base, tokenizer=base, total_steps=2, batch_size=2)
    rehearsal = [block for block in PAGE if block.title.startswith("mine/") or "rehearsal:agent --out" in block.text]
    reader = Reader(
        folder,
        {"configs/locks/sft-smoke.yaml": lock, "--out runs/rehearsal": "-c learning.worlds=2 --out runs/rehearsal"},
    )
    follow(reader, rehearsal)
    training, evaluation = [block for block in PAGE if block.needs == needs]
    reader.follow(training._replace(needs=""))
    assert "parcels-v1" in reader.said("adapters show parcels")
    reader.follow(evaluation)
