"""The family `tickets`: its server, its verifier, and an experiment on its known curve."""

import json
import os
import signal
import subprocess
import sys
from math import sqrt
from pathlib import Path
from typing import Any

import anyio
import pytest
from fakes.command import lab
from fakes.processes import is_running

from hermes_lab.analysis.data.load import load_episodes
from hermes_lab.config.mcp import McpConfig
from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.manifest import read_manifest
from hermes_lab.mcp.servers import open_servers
from hermes_lab.records import read_episodes
from hermes_lab.rollout import setup_workspace
from hermes_lab.sandbox import open_sandboxes
from hermes_lab.suites import ServingSuite, servers_of
from hermes_lab.tasks.expected import expected_success
from hermes_lab.tasks.family import Action
from hermes_lab.tasks.served.tickets import FAMILY, load
from hermes_lab.tasks.worlds import WorldSpec
from hermes_lab.tools.registry import ToolContext
from hermes_lab.tools.toolbox import Toolbox
from hermes_lab.types import Task, ToolCall, Verdict

SUITE = load()
CONFIG = Path(__file__).parents[3] / "configs" / "tickets.yaml"


async def scored(*plays: tuple[Task, tuple[Action, ...]]) -> list[Verdict]:
    """The verdicts on these calls, each in a sandbox of its own."""
    verdicts: list[Verdict] = []
    async with (
        open_sandboxes(SandboxConfig()) as opened,
        open_servers(servers_of(McpConfig(), SUITE), opened) as servers,
    ):
        for task, actions in plays:
            async with opened(servers.extras) as sandbox:
                await setup_workspace(task, sandbox)
                async with servers.episode(sandbox) as here:
                    toolbox = Toolbox((), ToolContext(sandbox, None, SandboxConfig()), given=here.tools)
                    for action in actions:
                        result = await toolbox.run(ToolCall("1", action.tool, dict(action.arguments)))
                        assert result.ok, result.content
                verdicts.append(await SUITE.verify(task, sandbox, None))
    return verdicts


@pytest.mark.parametrize("split", SUITE.splits)
async def test_the_oracle_is_right_and_the_naive_solution_where_there_is_no_rule(split: str) -> None:
    tasks = SUITE.load(split=split, count=20, seed=0, world=1)
    played = [(task, solve(task)) for task in tasks for solve in (SUITE.oracle, SUITE.naive, lambda task: ())]
    verdicts = await scored(*played)
    for number, task in enumerate(tasks):
        oracle, naive, nothing = verdicts[3 * number : 3 * number + 3]
        assert oracle.score == 1.0, (task.prompt, oracle.reasons)
        assert naive.score == (0.0 if task.triggers else 1.0)
        assert nothing.score == 0.0
        if task.triggers:  # the rejection states the rule
            (subtask,) = task.truth["pieces"]
            assert subtask.site.drawn.stated_in(naive.feedback)


async def test_every_rule_changes_the_ticket_and_other_tickets_must_stay() -> None:
    kinds = set()
    for world in range(8):
        for task in SUITE.load(split="heldout", count=10, seed=0, world=world):
            (subtask,) = task.truth["pieces"]
            kinds.add(subtask.site.drawn.type)
            assert FAMILY.right(subtask.instance, subtask.site.drawn) != FAMILY.right(subtask.instance, None)
    assert kinds == set(FAMILY.rules)
    task = SUITE.load(split="train", count=1, seed=0, world=0)[0]
    (other,) = task.truth["pieces"][0].instance.others
    verdict, retry = await scored(
        (task, (*SUITE.oracle(task), Action("desk__delete_ticket", {"reference": other}))),
        (task, (*SUITE.naive(task), *SUITE.oracle(task))),  # a second submission replaces the first
    )
    assert verdict.score == 0.0
    assert verdict.reasons == {"others_untouched": "other tickets were added, changed or deleted"}
    assert retry.score == 1.0


def test_the_prompt_and_the_server_know_no_rule() -> None:
    server = (Path(__file__).parents[3] / "tasks" / "served" / "desk.py").read_text()
    for task in SUITE.load(split="train", count=30, seed=0, world=2):
        (subtask,) = task.truth["pieces"]
        for text in (task.prompt, server, *task.files.values()):
            assert not subtask.site.drawn.stated_in(text)
    assert isinstance(SUITE, ServingSuite)


def run(out: Path, *more: str) -> Any:
    small = ("-c", "learning.replicates=1", "-c", "learning.worlds=2", "-c", "learning.rounds=2")
    return lab("experiment", "-c", str(CONFIG), *small, *more, "--out", out, "--quiet")


def test_an_experiment_needs_nothing_but_the_name_of_the_suite_and_replays_without_the_server(tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = run(out)
    assert done.returncode == 0, done.stderr
    served = read_manifest(out).mcp["desk"]
    assert sorted(served.tools) == ["delete_ticket", "file_ticket", "get_ticket", "list_tickets"]
    assert {episode.mcp["desk"] for episode in read_episodes(out)} == {served.digest}
    nowhere = tmp_path / "nowhere"
    nowhere.mkdir()
    done = lab("replay", out, "--episode", "3", PATH=f"{nowhere}:/usr/sbin")  # no python3 to start it with
    assert done.returncode == 0, done.stderr
    assert "byte for byte" in done.stdout
    clash = run(tmp_path / "other", "-c", "mcp.servers.desk={command: python3}")
    assert clash.returncode == 2
    assert "the suite tickets has a server of that name" in clash.stderr


def test_worker_processes_have_its_server(tmp_path: Path) -> None:
    for name in ("local", "processes"):
        done = run(tmp_path / name, "-c", f"run.executor={name}")
        assert done.returncode == 0, done.stderr
    rows = [
        sorted((e.key, e.score, e.skills.snapshot) for e in read_episodes(tmp_path / n)) for n in ("local", "processes")
    ]
    assert rows[0] == rows[1]


async def test_a_killed_harness_leaves_no_server(tmp_path: Path) -> None:
    more = ["-c", "learning.rounds=200", "--out", str(tmp_path / "run"), "--quiet"]
    command = [sys.executable, "-m", "hermes_lab", "experiment", "-c", str(CONFIG), *more]
    process = await anyio.open_process(command, stdout=None, stderr=None)
    with anyio.fail_after(60):
        while not is_running("served/desk.py"):  # noqa: ASYNC110
            await anyio.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    with anyio.fail_after(20):
        while is_running("served/desk.py"):  # noqa: ASYNC110
            await anyio.sleep(0.01)


@pytest.mark.long
def test_the_arms_are_where_the_closed_form_says(tmp_path: Path) -> None:
    out = tmp_path / "run"
    more = ("-c", "learning.worlds=6", "-c", "learning.rounds=12", "-c", "learning.replicates=2")
    done = lab("experiment", "-c", str(CONFIG), *more, "--out", out, "--quiet")
    assert done.returncode == 0, done.stderr
    frame = load_episodes(out)
    spec = WorldSpec()
    for arm, capture in (("on", 0.6), ("off", 0.0)):
        rows = frame[frame["arm"] == arm]
        third = rows["experience"].max() / 3
        for part in (rows[rows["experience"] < third], rows[rows["experience"] >= 2 * third]):
            expected = part["experience"].map(lambda n, c=capture: expected_success(n, spec, c))
            lanes = (part["success"].astype(float) - expected).groupby(part["lane"]).mean()
            assert abs(lanes.mean()) < 4 * lanes.std() / sqrt(len(lanes)), (arm, lanes.mean())
    assert frame[frame["arm"] == "oracle"]["success"].all()


def test_the_server_keeps_to_the_protocol(tmp_path: Path) -> None:
    server = Path(__file__).parents[3] / "tasks" / "served" / "desk.py"
    lines = [
        "no json",
        json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "nosuch"}),
        json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "get_ticket"}}),
        json.dumps({"jsonrpc": "2.0", "id": 3, "method": "ping"}),
    ]
    done = subprocess.run(
        [sys.executable, str(server)], input="\n".join(lines), capture_output=True, text=True, cwd=tmp_path, check=True
    )
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert [reply["id"] for reply in replies] == [None, 1, 2, 3]
    assert replies[0]["error"]["code"] == -32700
    assert replies[1]["error"]["code"] == -32601
    assert replies[2]["result"] == {"content": [{"type": "text", "text": "reference is missing"}], "isError": True}
