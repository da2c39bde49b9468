"""docs/quickstart.md, done as it says, with an endpoint on loopback."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from code_blocks import Reader, blocks
from fakes.openai_server import FakeOpenAIServer
from fakes.primes import primes_endpoint


@pytest.fixture
def endpoint() -> Iterator[FakeOpenAIServer]:
    with primes_endpoint() as server:
        yield server


def test_the_quickstart_does_what_it_says(
    endpoint: FakeOpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    smaller = "-c learning.worlds=2 -c learning.rounds=2 -c learning.heldout.every=2 -c learning.heldout.tasks=1"
    smaller += " -c budget.tasks=0"
    reader = Reader(
        tmp_path,
        {
            "http://127.0.0.1:8000/v1": endpoint.base_url,
            '"worlds": 20, "rounds": 10': '"worlds": 2, "rounds": 2',
            "learning.worlds=20 -c learning.rounds=10": "learning.worlds=2 -c learning.rounds=2",
            "configs/experiment.yaml --out": f"configs/experiment.yaml {smaller} --out",
        },
    )
    for block in blocks("quickstart.md"):
        reader.follow(block)
    assert "1 solved" in reader.said("summary runs/mine")
    assert "on never learned" in reader.said("compare runs/learning").replace("`", "")
    assert "not identified" in reader.said("fit runs/learning")
