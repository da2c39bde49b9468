"""`atropos-sft-gen`, a trainer of atroposlib's own, reads our groups."""

import json
import subprocess
from pathlib import Path

import anyio
import pytest
from fakes.ledger_sampler import SOLVED, LedgerSampler
from feeding import feeding
from trajectory_server import RUN_API, RunApi

SFT_GEN = RUN_API.parent / "atropos-sft-gen"

pytestmark = pytest.mark.long  # it imports transformers, and loads a tokenizer


async def test_it_saves_the_solved_rollouts_of_each_group(api: RunApi, tmp_path: Path) -> None:
    from hermes_lab.models.weights import resolve

    tokenizer = await anyio.to_thread.run_sync(lambda: resolve("packaged", print))
    out = tmp_path / "sft.jsonl"
    command = [
        *(str(SFT_GEN), str(out), "--api-url", api.url, "--tokenizer", str(tokenizer)),
        *("--group-size", "4", "--tasks-per-step", "2", "--num-seqs-to-save", "8", "--max-token-len", "100000"),
        "--save-messages",
    ]

    def generate() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, timeout=600)

    # It begins with a reset, which a server that never had data answers with a 500 and survives.
    async with feeding(api.url, LedgerSampler(6), tmp_path, "env.trainer_seconds=600") as fed, fed.running():
        done = await anyio.to_thread.run_sync(generate)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) >= 8
    assert {row["score"] for row in rows} == {1.0}
    for row in rows:
        assert [turn["role"] for turn in row["messages"]][:2] == ["system", "user"]
        assert row["messages"][-1] == {"role": "assistant", "content": SOLVED}
