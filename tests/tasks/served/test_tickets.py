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
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError

from hermes_lab.analysis.data.load import load_episodes
from hermes_lab.config.mcp import McpConfig
from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import McpError
from hermes_lab.manifest import read_manifest
from hermes_lab.mcp.connection import Connection
from hermes_lab.mcp.programs import extras_of
from hermes_lab.mcp.servers import open_servers
from hermes_lab.records import read_episodes
from hermes_lab.rollout import setup_workspace
from hermes_lab.sandbox import open_sandboxes
from hermes_lab.suites import McpSuite, servers_of
from hermes_lab.tasks.expected import expected_success
from hermes_lab.tasks.family import Action
from hermes_lab.tasks.play import opener
from hermes_lab.tasks.served.tickets import FAMILY, load
from hermes_lab.tasks.worlds import WorldSpec
from hermes_lab.tools.registry import ToolContext
from hermes_lab.tools.toolbox import Toolbox
from hermes_lab.types import Task, ToolCall, Verdict

SUITE = load()
ROOT = Path(__file__).parents[3].resolve()
CONFIG = ROOT / "configs" / "tickets.yaml"
SERVER = ROOT / "tasks" / "served" / "_server" / "desk.py"


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


def rule_of(task: Task) -> str:
    """The kind of rule in force, "" for none."""
    kind: str = task.truth["pieces"][0].site.drawn.type if task.triggers else ""
    return kind


@pytest.mark.parametrize("split", SUITE.splits)
async def test_the_oracle_is_right_and_the_naive_solution_where_there_is_no_rule(split: str) -> None:
    drawn = SUITE.load(split=split, count=20, seed=0, world=1)
    tasks = list({rule_of(task): task for task in drawn}.values())
    assert len(tasks) >= 5
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
    server = SERVER.read_text()
    for task in SUITE.load(split="train", count=30, seed=0, world=2):
        (subtask,) = task.truth["pieces"]
        for text in (task.prompt, server, *task.files.values()):
            assert not subtask.site.drawn.stated_in(text)
    assert isinstance(SUITE, McpSuite)


async def test_the_sandbox_has_the_server_but_not_the_rules_nor_the_lab() -> None:
    assert extras_of(servers_of(McpConfig(), SUITE)).installed == (SERVER.parent,)
    async with opener(SandboxConfig(), SUITE)() as sandbox:
        text = FAMILY.rules["queue"].paraphrases[2].format(queue="").strip()
        found = await sandbox.exec(f"grep -rl '{text}' {ROOT} || echo nothing")
        assert found.output.strip() == "nothing"
        seen = await sandbox.exec(f"find {ROOT} -type f -name '*.py'")
        assert {Path(path).parent for path in seen.output.split()} == {SERVER.parent}


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_client_of_the_official_sdk_calls_it(tmp_path: Path, mode: str) -> None:
    parameters = StdioServerParameters(command="/usr/bin/python3", args=["-I", str(SERVER)], cwd=tmp_path)
    ticket = {"reference": "REF-1", "desk": "fleet", "title": "flat tyre", "details": "front left"}
    async with Client(stdio_client(parameters), mode=mode) as client:
        listed = await client.list_tools()
        assert [tool.name for tool in listed.tools] == ["file_ticket", "get_ticket", "list_tickets", "delete_ticket"]
        filed = await client.call_tool("file_ticket", ticket)
        assert not filed.is_error
        assert filed.structured_content == json.loads((tmp_path / "tickets.json").read_text())["REF-1"]
        assert (await client.call_tool("get_ticket", {"reference": "REF-2"})).is_error
        with pytest.raises(MCPError, match="unknown tool 'close_ticket'"):
            await client.call_tool("close_ticket", {})


def run(out: Path, *more: str) -> Any:
    small = ("-c", "learning.replicates=1", "-c", "learning.worlds=2", "-c", "learning.rounds=2")
    return lab("experiment", "-c", str(CONFIG), *small, *more, "--out", out, "--quiet")


async def _started(connection: Connection) -> None:
    raise McpError(f"{connection.name} was started")


def test_an_experiment_needs_nothing_but_the_name_of_the_suite_and_replays_without_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    done = run(out)
    assert done.returncode == 0, done.stderr
    served = read_manifest(out).mcp["desk"]
    assert sorted(served.tools) == ["delete_ticket", "file_ticket", "get_ticket", "list_tickets"]
    assert {episode.mcp["desk"] for episode in read_episodes(out)} == {served.digest}
    with monkeypatch.context() as wire:
        wire.setattr(Connection, "open", _started)
        done = lab("replay", out, "--episode", "3")
        assert done.returncode == 0, done.stderr
        assert "byte for byte" in done.stdout
        live = lab("replay", out, "--episode", "3", "--live")
        assert live.returncode != 0  # the wire is where servers start
    clash = run(tmp_path / "other", "-c", "mcp.servers.desk={command: python3}")
    assert clash.returncode == 2
    assert "the suite tickets has a server of that name" in clash.stderr


def test_worker_processes_have_its_server(tmp_path: Path) -> None:
    for name in ("local", "processes"):
        done = run(tmp_path / name, "-c", f"run.executor={name}")
        assert done.returncode == 0, done.stderr
    assert rows(tmp_path / "local") == rows(tmp_path / "processes")


async def test_a_killed_harness_leaves_no_server(tmp_path: Path) -> None:
    more = ["-c", "learning.rounds=200", "--out", str(tmp_path / "run"), "--quiet"]
    command = [sys.executable, "-m", "hermes_lab", "experiment", "-c", str(CONFIG), *more]
    process = await anyio.open_process(command, stdout=None, stderr=None)
    with anyio.fail_after(60):
        while not is_running("_server/desk.py"):  # noqa: ASYNC110
            await anyio.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    with anyio.fail_after(60):
        while is_running("_server/desk.py"):  # noqa: ASYNC110
            await anyio.sleep(0.01)


def rows(out: Path) -> list[tuple[object, ...]]:
    return sorted((each.key, each.score, each.skills.snapshot) for each in read_episodes(out))


async def test_a_run_killed_in_the_middle_is_resumed_to_what_it_would_have_been(tmp_path: Path) -> None:
    """With worker processes, each of which starts the server anew."""
    few = ["-c", "learning.worlds=1", "-c", "learning.replicates=1"]
    shape = [*few, "-c", "learning.rounds=6", "-c", "run.executor=processes"]
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    command = [sys.executable, "-m", "hermes_lab", "experiment", "-c", str(CONFIG), *shape, "--quiet"]
    process = await anyio.open_process([*command, "--out", str(killed)], stdout=None, stderr=None)
    with anyio.fail_after(120):
        while not any(file.stat().st_size for file in (killed / "episodes").glob("*.jsonl")):  # noqa: ASYNC110
            await anyio.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    kept = len(rows(killed))
    done = await anyio.run_process([*command, "--out", str(whole)], check=False)
    assert done.returncode == 0, done.stderr
    assert 0 < kept < len(rows(whole))
    done = await anyio.run_process([*command, "--out", str(killed), "--resume"], check=False)
    assert done.returncode == 0, done.stderr
    assert rows(killed) == rows(whole)


@pytest.mark.long
def test_the_arms_are_where_the_closed_form_says(tmp_path: Path) -> None:
    out = tmp_path / "run"
    more = ("-c", "learning.worlds=9", "-c", "learning.replicates=1", "-c", "learning.rounds=6")
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


def request(number: int, method: str, **params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def replies(folder: Path, *lines: str) -> list[Any]:
    command = ["/usr/bin/python3", "-I", str(SERVER)]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, cwd=folder, check=True)
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_server_keeps_to_the_protocol(tmp_path: Path) -> None:
    answers = replies(
        tmp_path,
        "no json",
        "[1]",
        json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        request(1, "nosuch"),
        request(2, "tools/call", name="nosuch"),
        json.dumps({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": []}),
        request(4, "initialize", protocolVersion="2024-11-05"),
        request(5, "initialize", protocolVersion="1999-01-01"),
        request(6, "ping"),
    )
    assert [each["id"] for each in answers] == [None, None, 1, 2, 3, 4, 5, 6]
    assert [each["error"]["code"] for each in answers[:5]] == [-32700, -32600, -32601, -32602, -32602]
    assert [each["result"]["protocolVersion"] for each in answers[5:7]] == ["2024-11-05", "2025-06-18"]
    assert answers[7]["result"] == {}


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, "reference is missing"),
        ({"reference": ["a"]}, "reference must be of type string"),
        ({"reference": "a", "more": 1}, "unknown argument 'more'"),
        ({"reference": "a"}, "no ticket 'a'"),
    ],
)
def test_a_call_that_cannot_be_done_tells_the_agent_why(tmp_path: Path, arguments: dict[str, Any], why: str) -> None:
    (answer,) = replies(tmp_path, request(1, "tools/call", name="get_ticket", arguments=arguments))
    assert answer["result"] == {"content": [{"type": "text", "text": why}], "isError": True}


@pytest.mark.parametrize("field", [{"priority": "top"}, {"due_days": -1}, {"due_days": True}, {"tags": [1]}])
def test_a_value_that_does_not_fit_changes_nothing(tmp_path: Path, field: dict[str, Any]) -> None:
    ticket = {"reference": "a", "desk": "b", "title": "c", "details": "d", **field}
    (answer,) = replies(tmp_path, request(1, "tools/call", name="file_ticket", arguments=ticket))
    assert answer["result"]["isError"]
    assert not (tmp_path / "tickets.json").exists()


@pytest.mark.parametrize("text", ["{", "[1]", '{"a": 1}'])
def test_a_damaged_file_is_an_error_of_the_call_and_the_server_goes_on(tmp_path: Path, text: str) -> None:
    (tmp_path / "tickets.json").write_text(text)
    listed, alive = replies(tmp_path, request(1, "tools/call", name="list_tickets", arguments={}), request(2, "ping"))
    assert listed["result"]["content"][0]["text"].startswith("tickets.json is damaged: ")
    assert alive["result"] == {}
