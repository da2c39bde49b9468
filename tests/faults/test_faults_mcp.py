"""Runs with an MCP server in every sandbox, killed again and again."""

import json
import os
import signal
from pathlib import Path

import pytest
from lab_process import count, ended_in, finish, options, start, wait_until, write_tasks

from hermes_lab.records import read_attempts, read_episodes
from hermes_lab.types import Episode

pytestmark = pytest.mark.timeout(600)
FAKE = Path(__file__).parents[1] / "fakes" / "mcp_server.py"
TASKS, KILLS = 12, 2
NOTE = {
    "name": "note",
    "description": "Writes a number to a file.",
    "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    "does": [{"append": ["noted.txt", "{arguments}\n"]}, {"text": "noted {arguments}"}],
}


def test_kill_9_with_a_server_in_every_sandbox_doubles_no_row_and_leaves_no_process(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    tmp_path.chmod(0o755)
    spec, run = tmp_path / "spec.json", tmp_path / "run"
    spec.write_text(json.dumps({"name": "fake", "version": "1", "tools": [NOTE]}))
    tasks = [
        {
            "prompt": f'CALL s__note {{"n": {n}}}\nNote {n}.',
            "verify": f"grep -c . noted.txt | grep -qx 1 && grep -q {n} noted.txt",
        }
        for n in range(TASKS)
    ]
    server = {"command": "/usr/bin/python3", "args": [str(FAKE), str(spec)], "scope": "episode"}
    server["installed"] = [str(spec), str(FAKE)]
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps({"mcp": {"servers": {"s": server}}}))
    chosen = options(
        model__provider="scripted",
        model__name="fakes.tool_caller:tool_caller",
        agent__toolsets="[terminal]",
        suite__path=write_tasks(tmp_path, tasks),
        run__concurrency=6,
    )
    args = ["run", "-c", str(config), *chosen, "--out", str(run), "--quiet"]
    for kill in range(KILLS):
        process = start(*args, *(["--resume"] if kill else []))
        wanted = (kill + 1) * TASKS // (KILLS + 2)
        wait_until(lambda: (run / "run.json").exists() and count(run) >= wanted, process)  # noqa: B023
        os.kill(process.pid, signal.SIGKILL)
        finish(process)
        assert ended_in(scratch)
    code, said = finish(start(*args, "--resume"))
    assert code == 0, said
    assert len(list(read_attempts(run, Episode))) == TASKS
    episodes = list(read_episodes(run))
    assert len({episode.task_id for episode in episodes}) == TASKS
    assert all(episode.success for episode in episodes)
