"""Runs whose tools come from MCP servers: what is recorded, refused and repeated."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from fakes.command import lab
from fakes.openai_server import FakeOpenAIServer, running

from hermes_lab.manifest import read_manifest
from hermes_lab.records import read_episodes

FAKE = Path(__file__).parents[1] / "fakes" / "mcp_server.py"
SAVE = {
    "name": "save",
    "description": "Saves a number.",
    "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    "does": [{"append": ["saved.txt", "{arguments}\n"]}, {"text": "saved {arguments}"}],
}
ECHO = {"name": "echo", "description": "Says it again.", "inputSchema": {"type": "object", "properties": {}}}


class Lab:
    """A folder with tasks, a configuration, and the spec of a server `s`."""

    def __init__(self, folder: Path, scope: str, tools: list[dict[str, Any]]) -> None:
        self.folder, self.scope = folder, scope
        self.spec, self.log, self.run = folder / "spec.json", folder / "calls.log", folder / "run"
        self.offer(tools)
        folder.chmod(0o755)
        server: dict[str, Any] = {"command": sys.executable, "args": [str(FAKE), str(self.spec)], "scope": scope}
        if scope == "episode":
            server |= {"command": "/usr/bin/python3", "installed": [str(folder / "spec.json"), str(FAKE)]}
        else:
            server["args"].append(str(self.log))
        self.config = folder / "config.yaml"
        content: dict[str, Any] = {
            "model": {"provider": "scripted", "name": "fakes.tool_caller:tool_caller"},
            "agent": {"toolsets": ["terminal"]},
            "suite": {"path": str(folder / "tasks.jsonl")},
            "mcp": {"servers": {"s": server}},
        }
        self.config.write_text(json.dumps(content))

    def offer(self, tools: list[dict[str, Any]], **fields: Any) -> None:
        self.spec.write_text(json.dumps({"name": "fake", "version": "1", **fields, "tools": tools}))
        self.spec.chmod(0o644)

    def tasks(self, *rows: dict[str, Any]) -> "Lab":
        (self.folder / "tasks.jsonl").write_text("\n".join(map(json.dumps, rows)))
        return self

    def start(self, *args: str) -> Any:
        return lab("run", "-c", self.config, "--out", self.run, "--quiet", *args)


def saves(count: int) -> list[dict[str, Any]]:
    prompt = 'CALL s__save {{"n": {0}}}\nSave the number {0} and say so.'
    return [{"prompt": prompt.format(n), "verify": f"grep -q {n} saved.txt"} for n in range(count)]


@pytest.fixture
def saving(tmp_path: Path) -> Lab:
    return Lab(tmp_path, "episode", [SAVE, ECHO]).tasks(*saves(4))


def test_what_a_server_did_to_the_workspace_is_judged_and_its_tools_are_recorded(saving: Lab) -> None:
    done = saving.start()
    assert done.returncode == 0, done.stderr
    episodes = read_episodes(saving.run)
    assert [episode.score for episode in episodes] == [1.0] * 4
    manifest = read_manifest(saving.run)
    served = manifest.mcp["s"]
    assert (served.server, served.version, sorted(served.tools)) == ("fake", "1", ["echo", "save"])
    for episode in episodes:
        assert episode.mcp == {"s": served.digest}
        assert episode.config_digest == manifest.config_digest
        assert episode.trajectory is not None
        assert [each["function"]["name"] for each in episode.trajectory.tools] == ["terminal", "s__echo", "s__save"]


def test_a_replay_needs_no_server_and_calls_none(saving: Lab) -> None:
    assert saving.start().returncode == 0
    saving.spec.unlink()
    done = lab("replay", saving.run, "--episode", "0")
    assert done.returncode == 0, done.stderr
    assert "all 5 messages are the same, byte for byte" in done.stdout
    assert done.stderr == ""


def test_a_replay_repeats_no_effect_outside(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    effect = {**SAVE, "does": [{"append": [str(outside), "x"]}, {"error": "full"}]}
    given = Lab(tmp_path, "run", [effect]).tasks({"prompt": 'CALL s__save {"n": 1}\nSave it.', "verify": "false"})
    assert given.start().returncode == 0
    assert outside.read_text() == "x"
    done = lab("replay", given.run, "--episode", "0", "--json")
    assert json.loads(done.stdout)["same"]
    assert outside.read_text() == "x"
    assert len(given.log.read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("tools", "fields", "why"),
    [
        ([{**SAVE, "description": "Saves it."}, ECHO], {}, "mcp.servers.s: the tool save has changed"),
        ([SAVE], {}, "mcp.servers.s: the tool echo is gone"),
        ([SAVE, ECHO, {**ECHO, "name": "new"}], {}, "mcp.servers.s: the tool new is new"),
        ([SAVE, ECHO], {"version": "2"}, "mcp.servers.s: was fake 1, now fake 2"),
    ],
)
def test_a_server_that_changed_is_refused_at_resume(
    saving: Lab, tools: list[dict[str, Any]], fields: dict[str, Any], why: str
) -> None:
    assert saving.start().returncode == 0
    before = sorted((path, path.read_bytes()) for path in saving.run.rglob("*.jsonl"))
    saving.offer(tools, **fields)
    done = saving.start("--resume")
    assert done.returncode == 2
    assert (
        done.stderr
        == f"hermes-lab: error: {saving.run}: {why} since the run started; restore it, or choose another --out\n"
    )
    assert sorted((path, path.read_bytes()) for path in saving.run.rglob("*.jsonl")) == before
    saving.offer([SAVE, ECHO])
    assert saving.start("--resume").returncode == 0


def test_a_server_that_changes_between_its_list_and_the_first_episode_stops_the_run(tmp_path: Path) -> None:
    given = Lab(tmp_path, "run", [SAVE, ECHO]).tasks(*saves(1))
    given.offer([SAVE, ECHO], later=[{**SAVE, "description": "Saves it."}, ECHO])
    done = given.start()
    assert done.returncode == 3
    assert "mcp.servers.s: the tool save has changed since the run started" in done.stderr
    assert not given.log.exists()
    assert not list(read_episodes(given.run))


def test_a_server_that_does_not_start_ends_the_run_before_anything_is_written(saving: Lab) -> None:
    saving.spec.write_text("no spec")
    done = saving.start()
    assert done.returncode == 3
    assert "mcp.servers.s: " in done.stderr
    assert "JSONDecodeError" in done.stderr
    assert not list(saving.run.glob("*.json*"))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            "mcp.servers.s.command=nosuch-program",
            "mcp.servers.s.command: 'nosuch-program' is not installed",
        ),
        ("mcp.servers.s.tools=[nosuch]", "mcp.servers.s.tools: the server has no tool 'nosuch'; it has: echo, save"),
        ("agent.disabled_tools=[mcp:t]", "agent.disabled_tools: mcp:t: mcp.servers has no server 't'; there are: s"),
        ("mcp.servers.s.url=http://h/", "give either `command` or `url`"),
        ("mcp.servers.s.env={K: '${V}'}", "`env.K`: the agent's commands could read it in the sandbox"),
        ("mcp.servers.s.args=['--key', '${K}']", "`args`: ${K} is replaced only in `env`; set it there"),
        ("mcp.servers={t: {command: 'x ${K}'}}", "`command`: ${K} is replaced only in `env`; set it there"),
        ("mcp.servers.t={url: 'http://h/?key=${NOSUCH_KEY}'}", "mcp.servers.t.url: set NOSUCH_KEY in the environment"),
        ("mcp.servers={a b: {command: x}}", "'a b' cannot name a server"),
        (
            "mcp.servers.t={command: python3, scope: run, env: {K: '${NOSUCH_KEY}'}}",
            "mcp.servers.t.env.K: set NOSUCH_KEY in the environment",
        ),
        ("model={provider: replay, name: x}", "model.provider: replay cannot repeat the calls of MCP servers"),
        ("agent.program=hermes", "mcp.servers: only the lab's own loop offers them; leave out agent.program=hermes"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_written(saving: Lab, change: str, why: str) -> None:
    done = saving.start("-c", change)
    assert done.returncode == 2, done.stderr
    assert why in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(saving.run.glob("*.json*"))


def test_worker_processes_have_the_same_tools(saving: Lab) -> None:
    done = saving.start("-c", "run.executor=processes", "-c", "run.processes=2")
    assert done.returncode == 0, done.stderr
    assert [episode.score for episode in read_episodes(saving.run)] == [1.0] * 4


def test_images_are_kept_in_the_run(tmp_path: Path) -> None:
    image = {"block": {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}}
    given = Lab(tmp_path, "episode", [{**ECHO, "does": [image]}])
    assert given.tasks({"prompt": "CALL s__echo {}\nLook at it.", "verify": "true"}).start().returncode == 0
    (kept,) = (given.run / "blobs").iterdir()
    assert kept.read_bytes() == b"hello"
    (episode,) = read_episodes(given.run)
    assert episode.trajectory is not None
    assert kept.name in episode.trajectory.messages[-1].content


def test_child_agents_have_the_tools(tmp_path: Path) -> None:
    given = Lab(tmp_path, "episode", [SAVE, ECHO])
    goal = json.dumps({"goal": 'CALL s__save {"n": 7}\nSave it.', "context": "", "toolsets": ["mcp:s"]})
    given.tasks({"prompt": f"CALL delegate_task {goal}\nHave it saved.", "verify": "grep -q 7 saved.txt"})
    done = given.start("-c", "agent.toolsets=[delegate_task,terminal]")
    assert done.returncode == 0, done.stderr
    (episode,) = read_episodes(given.run)
    assert episode.score == 1.0
    (child,) = episode.children
    assert child.trajectory is not None
    assert [each["function"]["name"] for each in child.trajectory.tools] == ["s__echo", "s__save"]
    assert lab("replay", given.run, "--episode", "0").returncode == 0


def test_a_chat_calls_them_and_a_resumed_one_keeps_its_list(tmp_path: Path) -> None:
    save = {**SAVE, "does": [{"text": "saved {arguments}"}]}
    given = Lab(tmp_path, "run", [save, ECHO]).tasks()
    home = {"HERMES_HOME": str(tmp_path / "home")}
    chat = ("chat", "-c", str(given.config), "-c", "agent.toolsets=[terminal]", "--session", "one")
    prompt = 'CALL s__save {"n": 3}\nSave it.'
    done = lab(*chat, prompt, **home)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"content": 'saved {"n": 3}'}
    given.offer([save, {**ECHO, "name": "late"}])
    done = lab(*chat, "CALL s__late {}\nCALL s__echo {}\nTry both.", **home)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)[0] for line in given.log.read_text().splitlines()] == ["save", "late"]
    assert "unknown tool" in done.stdout or "is no longer available" in done.stdout
    done = lab("mcp", "list", "-c", given.config, "--json")
    assert sorted(json.loads(done.stdout)["s"]["tools"]) == ["s__late", "s__save"]


def test_the_model_sees_the_tools_in_its_requests(saving: Lab) -> None:
    with running(FakeOpenAIServer(["hello"])) as server:
        saving.tasks({"prompt": "Say hello to the server.", "verify": "true"})
        done = saving.start(
            *(
                "-c",
                f"model={{provider: openai, base_url: '{server.base_url}', name: fake}}",
                "-c",
                "agent.toolsets=[mcp:s]",
            )
        )
        assert done.returncode == 0, done.stderr
        sent = server.requests[0]["tools"]
    assert [each["function"]["name"] for each in sent] == ["s__echo", "s__save"]
    assert sent[1]["function"]["parameters"]["required"] == ["n"]
