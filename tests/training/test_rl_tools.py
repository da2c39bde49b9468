"""The toolset `rl`, called as an agent calls it: through the toolbox. No sandbox is there, and no process may begin."""

import ast
import json
import os
import shutil
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from fakes.adapters import card_of, make_adapter, write_adapter
from fakes.openai_server import FakeOpenAIServer

from hermes_lab.agent.loop import Agent
from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.config.schema import AgentConfig, RunConfig
from hermes_lab.manifest import RunManifest
from hermes_lab.models.cards import read_card
from hermes_lab.models.scripted import ScriptedModel
from hermes_lab.protocols import Sandbox
from hermes_lab.records import write_json
from hermes_lab.tools.registry import ToolContext
from hermes_lab.tools.toolbox import Toolbox, check_toolsets, known_toolsets
from hermes_lab.training import tools
from hermes_lab.training.adapters import new_version, write_card
from hermes_lab.training.choices import Choice
from hermes_lab.training.config import load_train_config
from hermes_lab.training.grpo_config import load_grpo_config, training_batch
from hermes_lab.training.lock import GrpoLock, LockedConfig, load_lock, lock_digest, write_lock
from hermes_lab.training.proposals import list_proposals, proposals_folder
from hermes_lab.training.rounds import FinishedRound, Policy, Rounds
from hermes_lab.training.tools.rl_check_status import Looks
from hermes_lab.types import Message, ToolCall

pytestmark = pytest.mark.anyio
CONFIGS = Path(__file__).parents[2] / "configs"
NAMES = (
    *("rl_check_status", "rl_edit_config", "rl_get_current_config", "rl_get_results", "rl_list_environments"),
    *("rl_list_runs", "rl_select_environment", "rl_start_training", "rl_stop_training", "rl_test_inference"),
)
BY_A_PERSON = "a person makes a new lock with `hermes-lab train lock SRC -o LOCK`"
Use = Callable[..., Awaitable[dict[str, Any]]]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the templates and locks of the repository, and one run of ledger."""
    work = tmp_path / "work"
    for part in ("train", "locks"):
        shutil.copytree(CONFIGS / part, work / "configs" / part)
    shutil.copy(CONFIGS / "rollouts.yaml", work / "configs")
    run = work / "runs" / "demo"
    (run / "episodes").mkdir(parents=True)
    config = RunConfig.model_validate({"suite": {"name": "ledger"}}).model_dump(mode="json")
    manifest = RunManifest(
        command="run", config=config, config_digest="", tasks_digest="", wanted=1, created_at="now", versions={}
    )
    write_json(run / "run.json", manifest)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(work)
    return work


@pytest.fixture
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can begin a process."""

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a process was begun")

    monkeypatch.setattr(subprocess.Popen, "__init__", refuse)
    for name in dir(os):
        if name.startswith(_BEGINNINGS):
            monkeypatch.setattr(os, name, refuse)


_BEGINNINGS = ("fork", "exec", "spawn", "posix_spawn", "system", "popen")


@pytest.fixture
def context(work: Path, no_process: None) -> ToolContext:
    return ToolContext(cast(Sandbox, None), None, SandboxConfig())


@pytest.fixture
def use(context: ToolContext) -> Use:
    toolbox = Toolbox(("rl",), context)

    async def use(tool: str, /, **arguments: Any) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads((await toolbox.run(ToolCall("c", tool, arguments))).content)
        return answer

    return use


def test_the_ten_tools_are_a_toolset_that_must_be_asked_for() -> None:
    assert known_toolsets()["rl"] == NAMES
    assert not check_toolsets(("core",)) & set(NAMES)
    assert not check_toolsets(AgentConfig().toolsets) & set(NAMES)


def test_no_tool_can_begin_a_process() -> None:
    folder = Path(tools.__path__[0])
    files = [*folder.glob("*.py"), *(folder.parent / name for name in ("choices.py", "proposals.py", "status.py"))]
    assert len(files) == 15
    for path in files:
        tree = ast.parse(path.read_text())
        names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not names & {"subprocess", "multiprocessing", "pty", "asyncio", "anyio", "ctypes", "runners"}, path
        assert not [name for name in names if name.startswith(_BEGINNINGS)], path
        assert not [
            name for name in names if name.startswith(("hermes_lab.training.sft", "hermes_lab.training.preference"))
        ], path
        assert "hermes_lab.training.grpo" not in names, path


async def test_an_agent_looks_chooses_edits_and_proposes(use: Use, work: Path) -> None:
    found = await use("rl_list_environments")
    assert "ledger" in [family for families in found["environments"].values() for family in families]
    assert found["methods"]["grpo"] == "configs/train/grpo.yaml"
    chosen = await use("rl_select_environment", environment="ledger")
    assert chosen["config"]["name"] == "grpo-ledger"
    assert chosen["locked"]["grpo"]["temperature"] == 1.0
    await use("rl_edit_config", field="name", value="lessons")
    await use("rl_edit_config", field="suite.world", value=7)
    assert (await use("rl_get_current_config"))["config"]["rollouts"][-2:] == ["suite.name=ledger", "suite.world=7"]
    proposed = await use("rl_start_training", reason="Its sums are wrong.")
    path = proposals_folder() / "grpo" / "lessons.yaml"
    assert proposed["command"] == f"hermes-lab train grpo -c {path}"
    assert "Its sums are wrong." in path.read_text()
    config = load_grpo_config([str(path)])
    locked = load_lock(Path(config.lock))
    batch = training_batch(config, locked, 1, "", work / "out")
    assert (batch.config.suite.name, batch.first_world, config.out) == ("ledger", 7, str(work / "runs/lessons"))
    assert [each.rpartition("=")[2] for each in config.heldout][-1] == "ledger"


async def test_a_training_on_runs_is_proposed_with_a_parent(use: Use, work: Path) -> None:
    await use("rl_select_environment", environment="ledger", method="sft")
    assert "data: is required" in (await use("rl_start_training", reason=""))["error"]
    assert (await use("rl_edit_config", field="data", value=["demo"]))["config"]["data"] == ["runs/demo"]
    await use("rl_edit_config", field="parent", value="nobody")
    assert "no such adapter" in (await use("rl_start_training", reason=""))["error"]
    await use("rl_edit_config", field="parent", value="")
    path = (await use("rl_start_training", reason="It failed."))["file"]
    assert load_train_config([path]).data == (str(work / "runs/demo"),)


LOCKED_FIELDS = [name for name in LockedConfig.model_fields if name not in ("grpo", "preference", "hardware")]


@pytest.mark.parametrize("field", [*LOCKED_FIELDS, *(f"grpo.{name}" for name in GrpoLock.model_fields)])
async def test_every_locked_field_is_refused_in_any_spelling(use: Use, field: str) -> None:
    await use("rl_select_environment", environment="ledger")
    before = await use("rl_get_current_config")
    locked: Any = load_lock(Path("configs/locks/grpo-cpu.yaml"))
    for part in field.split("."):
        locked = getattr(locked, part)
    for spelling in (field, field.upper(), f" lock.{field} ", f"lock.LOCK.{field}", field.replace("_", "-")):
        error = (await use("rl_edit_config", field=spelling, value=1))["error"]
        assert f"{field} is locked at {locked!r} by configs/locks/grpo-cpu.yaml; {BY_A_PERSON}" in error
    assert await use("rl_get_current_config") == before


@pytest.mark.parametrize(
    ("field", "value", "names"),
    [
        ("lock", "mine.yaml", "lock is locked: this training is under configs/locks/grpo-cpu.yaml"),
        ("LOCK", "mine.yaml", "lock is locked"),
        ("lock", {"learning_rate": 1}, "learning_rate is locked at 0.0001"),
        ("lock.digest", "00", "digest is locked: this training is under"),
        ("learningRate", 1, "learning_rate is locked at 0.0001"),
        ("learning-rate", 1, "learning_rate is locked at 0.0001"),
        ("ｌｅａｒｎｉｎｇ＿ｒａｔｅ", 1, "learning_rate is locked at 0.0001"),
        ("config.learning_rate", 1, "learning_rate is locked at 0.0001"),
        ("temperature", 1, "grpo.temperature is locked at 1.0"),
        ("grpo/temperature", 1, "grpo.temperature is locked at 1.0"),
        ("grpo", {"temperature": 2}, "grpo.temperature is locked at 1.0"),
        ("model.sampling.temperature", 2, "grpo.temperature is locked at 1.0"),
        ("model.base_url", "http://evil", "rollout_server_url is locked at 'http://127.0.0.1:8000/v1'"),
        ("preference.beta", 1, "preference.beta is locked"),
        ("gate.splits", ["heldout"], "gate.splits is a person's choice, made in configs/train/grpo.yaml"),
        ("rollouts", ["sandbox.backend=local"], "rollouts is a person's choice"),
        ("heldout", [], "heldout is a person's choice"),
        ("adapters", "/tmp", "adapters is a person's choice"),
        ("out", "/tmp", "out is a person's choice"),
        ("resume", True, "resume is a person's choice"),
        ("sandbox.allow_local", True, "no field 'sandbox.allow_local'; fields that can be edited: name, parent"),
        ("suite.path", "/etc/passwd", "no field 'suite.path'"),
        ("", 1, "no field ''"),
    ],
)
async def test_what_is_not_the_agents_is_refused(use: Use, field: str, value: Any, names: str) -> None:
    await use("rl_select_environment", environment="ledger")
    before = await use("rl_get_current_config")
    assert names in (await use("rl_edit_config", field=field, value=value))["error"]
    assert await use("rl_get_current_config") == before


@pytest.mark.parametrize(
    ("method", "field", "value"),
    [
        ("grpo", "suite.world", "7 sandbox.backend=local"),
        ("grpo", "suite.world", True),
        ("grpo", "name", {"learning_rate": 1}),
        ("sft", "data", ["../../etc"]),
        ("sft", "data", ["/etc"]),
        ("sft", "data", ["runs/../../../etc"]),
        ("sft", "data", ["learning_rate=1"]),
        ("sft", "data", "demo"),
        ("sft", "data", ["link"]),
    ],
)
async def test_no_value_brings_a_field_along(use: Use, work: Path, method: str, field: str, value: Any) -> None:
    outside = work / "outside"
    shutil.copytree(work / "runs" / "demo", outside)
    (work / "runs" / "link").symlink_to(outside)
    await use("rl_select_environment", environment="ledger", method=method)
    before = await use("rl_get_current_config")
    assert (await use("rl_edit_config", field=field, value=value))["error"].startswith(f"{field}: ")
    assert await use("rl_get_current_config") == before


@pytest.mark.parametrize("name", ["../../../x", "a\nlock: mine", "x" * 65, ""])
async def test_no_name_leaves_the_folder_of_proposals(use: Use, name: str) -> None:
    await use("rl_select_environment", environment="ledger")
    await use("rl_edit_config", field="name", value=name)
    assert (await use("rl_start_training", reason="r"))["error"].startswith("name: ")
    assert list_proposals() == []


async def test_nothing_is_edited_or_proposed_before_an_environment_is_chosen(use: Use) -> None:
    for answer in (
        await use("rl_edit_config", field="name", value="x"),
        await use("rl_start_training", reason="r"),
        await use("rl_get_current_config"),
    ):
        assert answer["error"] == "no environment is chosen yet; choose one first"


async def test_an_environment_and_a_template_must_be_there(use: Use, work: Path) -> None:
    assert "no 'leger'" in (await use("rl_select_environment", environment="leger"))["error"]
    (work / "configs/train/sft.yaml").unlink()
    error = (await use("rl_select_environment", environment="ledger", method="sft"))["error"]
    assert "a person has no configs/train/sft.yaml here" in error


async def test_data_of_another_environment_is_refused(use: Use) -> None:
    await use("rl_select_environment", environment="report_generation", method="sft")
    await use("rl_edit_config", field="data", value=["demo"])
    error = (await use("rl_start_training", reason="r"))["error"]
    assert error == "data: runs/demo is of the environment 'ledger'"


async def test_a_lock_that_was_changed_by_hand_is_never_proposed(use: Use, work: Path) -> None:
    lock = work / "configs/locks/grpo-cpu.yaml"
    lock.write_text(lock.read_text().replace("learning_rate: 0.0001", "learning_rate: 1.0"))
    error = (await use("rl_select_environment", environment="ledger"))["error"]
    assert "was changed by hand" in error
    assert "was changed by hand" in (await use("rl_start_training", reason="r"))["error"]


async def test_a_proposal_is_withdrawn_only_before_it_is_started(use: Use, work: Path) -> None:
    await use("rl_select_environment", environment="ledger")
    await use("rl_start_training", reason="r")
    assert "is there already" in (await use("rl_start_training", reason="again"))["error"]
    assert await use("rl_stop_training", proposal="grpo-ledger") == {"status": "withdrawn", "proposal": "grpo-ledger"}
    await use("rl_start_training", reason="r")
    Rounds.begin(work / "runs/grpo-ledger", {}, resume=False)
    error = (await use("rl_stop_training", proposal="grpo-ledger"))["error"]
    assert "only a person can stop a training" in error
    make_adapter(work / "runs/adapters")
    assert "only a person can stop a training" in (await use("rl_stop_training", proposal="sft-v1"))["error"]
    assert "no proposal '../x'" in (await use("rl_stop_training", proposal="../x"))["error"]
    assert len(list_proposals()) == 1


async def test_a_status_is_had_once_in_thirty_minutes_for_each_training(use: Use, work: Path, context: Any) -> None:
    now = [1_000.0]
    context.state(Looks).clock = lambda: now[0]
    for name in ("a-v1", "b-v1"):
        folder = work / "runs/adapters" / name
        (folder / "checkpoints").mkdir(parents=True)
        (folder / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.5}\n{"step": 3, "lo')
    status = await use("rl_check_status", training="a-v1")
    assert (status["status"], status["last"]) == ("unfinished", {"step": 2, "loss": 1.5})
    now[0] += 29 * 60
    error = (await use("rl_check_status", training="adapters/a-v1"))["error"]
    assert "can be checked once in 30 minutes; try again in 1 minutes" in error
    assert (await use("rl_check_status", training="b"))["last"]["step"] == 2
    now[0] += 60
    assert (await use("rl_check_status", training="a"))["status"] == "unfinished"
    assert "no training 'c'" in (await use("rl_check_status", training="c"))["error"]


async def test_a_proposal_has_a_status_too(use: Use) -> None:
    await use("rl_select_environment", environment="ledger")
    await use("rl_start_training", reason="r")
    status = await use("rl_check_status", training="grpo-ledger")
    assert status["status"] == "proposed, not started"
    assert "30 minutes" in (await use("rl_check_status", training="grpo-ledger"))["error"]


async def test_results_are_the_card_and_the_last_metrics(use: Use, work: Path) -> None:
    folder = make_adapter(work / "runs/adapters")
    (folder / "metrics.jsonl").write_text("".join(f'{{"step": {step}}}\n' for step in range(100)))
    results = await use("rl_get_results", training="sft")
    assert [row["step"] for row in results["last_metrics"]] == list(range(80, 100))
    assert results["card"]["metrics"] == {"loss": 0.25}
    assert results["card"]["refused"] == {"not accepted": 3}


async def test_runs_trainings_and_proposals_are_listed(use: Use, work: Path) -> None:
    make_adapter(work / "runs/loop/adapters")
    (work / "runs/adapters/sft-v2/checkpoints").mkdir(parents=True)
    await use("rl_select_environment", environment="ledger")
    await use("rl_start_training", reason="r")
    (proposals_folder() / "sft").mkdir()
    (proposals_folder() / "sft" / "torn.yaml").write_text("lock: [")
    (proposals_folder() / "sft" / "tried.yaml").write_text("learning_rate: 1\n")
    listed = await use("rl_list_runs")
    assert listed["runs"] == ["runs/demo"]
    assert sorted(listed["trainings"], key=lambda each: each["training"]) == [
        {"training": "runs/adapters/sft-v2", "status": "unfinished"},
        {"training": "runs/loop/adapters/sft-v1", "status": "finished"},
    ]
    found = {each["proposal"]: each for each in listed["proposals"]}
    assert sorted(found) == ["grpo-ledger", "torn", "tried"]
    assert "torn.yaml" in found["torn"]["problem"]
    assert found["tried"]["problem"].endswith(f": learning_rate is locked; {BY_A_PERSON}")
    assert found["grpo-ledger"] == {"proposal": "grpo-ledger", "method": "grpo", "started": False}


def served_at(work: Path, url: str) -> None:
    """Has the template name a lock of that server."""
    lock = work / "configs/locks/served.yaml"
    source = (work / "configs/locks/grpo-cpu.yaml").read_text().replace("http://127.0.0.1:8000/v1", url)
    (work / "source.yaml").write_text(source)
    write_lock(work / "source.yaml", lock)
    template = work / "configs/train/grpo.yaml"
    template.write_text(template.read_text().replace("../locks/grpo-cpu.yaml", str(lock)))


async def test_one_completion_is_asked_for_at_the_locked_server(use: Use, work: Path) -> None:
    folder = make_adapter(work / "runs/adapters")
    async with FakeOpenAIServer(["Hello."], models=["packaged"]) as server:
        served_at(work, server.base_url)
        answer = await use("rl_test_inference", prompt="Hi", max_tokens=7)
        assert (answer["reply"], answer["adapter"]) == ("Hello.", "")
        assert server.requests[0]["messages"] == [{"role": "user", "content": "Hi"}]
        assert server.requests[0]["max_tokens"] == 7
        error = (await use("rl_test_inference", prompt="Hi", adapter="sft-v1"))["error"]
        assert "neither a folder nor served" in error
        for path in (str(folder), "runs", "~", "../work"):
            assert "is not a name" in (await use("rl_test_inference", prompt="Hi", adapter=path))["error"]
        error = (await use("rl_test_inference", prompt="Hi", adapter="packaged"))["error"]
        assert "neither a folder nor served" in error
        assert server.adapters == {}, "only a person loads one"
        from hermes_lab.models.adapters import identify

        served = identify(folder)[1]
        server.adapters[served.name] = str(folder)
        answer = await use("rl_test_inference", prompt="Hi", adapter="sft-v1")
        assert (answer["adapter"], server.requests[-1]["model"]) == (served.name, served.name)
        assert answer["adapter_digest"] == served.digest
        assert len(server.requests) == 2


async def test_where_nothing_is_served_the_answer_says_so(use: Use, work: Path) -> None:
    served_at(work, "http://127.0.0.1:9/v1")
    error = (await use("rl_test_inference", prompt="Hi"))["error"]
    assert "http://127.0.0.1:9/v1: cannot connect" in error
    assert "a person serves the model there with `hermes-lab serve`" in error


async def test_a_completion_is_bounded(use: Use) -> None:
    assert "max_tokens" in (await use("rl_test_inference", prompt="Hi", max_tokens=100_000))["error"]
    assert "prompt" in (await use("rl_test_inference", prompt="x" * 8_001))["error"]


async def test_a_choice_is_of_one_episode(use: Use, work: Path) -> None:
    await use("rl_select_environment", environment="ledger")
    other = ToolContext(cast(Sandbox, None), None, SandboxConfig())
    assert other.state(Choice).environment == ""


def turns(*calls: tuple[str, dict[str, Any]]) -> Callable[[Sequence[Message]], Message]:
    """A policy that makes these calls one after another, and then answers."""

    def policy(messages: Sequence[Message]) -> Message:
        said = sum(message.role == "assistant" for message in messages)
        if said == len(calls):
            return Message("assistant", "Proposed; a person decides.")
        name, arguments = calls[said]
        return Message("assistant", "", tool_calls=(ToolCall(f"c{said}", name, arguments),))

    return policy


@pytest.mark.parametrize("tool_format", ["native", "hermes"])
async def test_a_whole_agent_proposes_and_cannot_do_more(context: ToolContext, work: Path, tool_format: Any) -> None:
    policy = turns(
        ("rl_list_environments", {}),
        ("rl_list_runs", {}),
        ("rl_select_environment", {"environment": "ledger", "method": "grpo"}),
        ("rl_edit_config", {"field": "name", "value": "night"}),
        ("rl_edit_config", {"field": "learning_rate", "value": 1.0}),
        ("rl_edit_config", {"field": "lock", "value": "mine.yaml"}),
        ("rl_start_training", {"reason": "The agent fails sums."}),
        ("rl_check_status", {"training": "night"}),
        ("rl_check_status", {"training": "night"}),
    )
    config = AgentConfig(toolsets=("rl",), tool_format=tool_format)
    agent = Agent(
        ScriptedModel(policy, tool_format=tool_format), Toolbox(("rl",), context), config, [Message("system", "")]
    )
    assert await agent.submit("Get better at ledger.") == "answered"
    results = [r for message in agent.trajectory("answered").messages for r in message.results]
    assert [result.ok for result in results] == [True] * 4 + [False] * 2 + [True, True, False]
    assert "learning_rate is locked at 0.0001" in results[4].content
    assert "hermes-lab train lock SRC -o LOCK" in results[5].content
    (proposal,) = list_proposals()
    content = yaml.safe_load(proposal.path.read_text())
    assert (content["name"], content["lock"]) == ("night", str(work / "configs/locks/grpo-cpu.yaml"))
    assert sorted(path.name for path in (work / "runs").iterdir()) == ["demo"]


def finished_round(out: Path, number: int, version: Path) -> None:
    done = FinishedRound(
        round=number,
        policy=Policy("", "packaged"),
        version=Policy(str(version), read_card(version).digest),
        steps=number,
        used=1,
        refused={},
        left_out=0,
        reward=0.5,
        length=9.0,
        seconds=1.0,
    )
    write_json(out / f"round-{number}" / "done.json", done)


async def test_a_grpo_training_is_finished_after_its_last_round(use: Use, work: Path, context: Any) -> None:
    now = [1_000.0]
    context.state(Looks).clock = lambda: now[0]
    out, lock = work / "runs/grpo", load_lock(work / "configs/locks/grpo-cpu.yaml")
    assert lock.grpo
    wanted = lock.total_steps // lock.grpo.steps_per_round
    version = new_version(work / "runs/adapters", "grpo")
    write_adapter(version, lock, weights=b"0" * 20)
    write_card(version, card_of(version, lock, method="grpo"))
    write_json(out / "checkpoints/made_from.json", {"lock": lock_digest(lock)})
    for number in range(1, wanted):
        finished_round(out, number, version)
    status = await use("rl_check_status", training="runs/grpo")
    assert (status["status"], status["rounds"]) == ("unfinished", wanted - 1)
    finished_round(out, wanted, version)
    now[0] += 31 * 60
    status = await use("rl_check_status", training="runs/grpo")
    assert (status["status"], status["rounds"]) == ("finished", wanted)
    assert (await use("rl_get_results", training="runs/grpo"))["card"]["digest"] == read_card(version).digest


async def test_a_parent_outside_the_registry_is_never_proposed(use: Use, work: Path) -> None:
    outside = make_adapter(work / "elsewhere")
    await use("rl_select_environment", environment="ledger", method="grpo")
    await use("rl_edit_config", field="parent", value=str(outside))
    assert "is no adapter below runs/adapters/" in (await use("rl_start_training", reason="r"))["error"]
    inside = make_adapter(work / "runs/adapters")
    await use("rl_edit_config", field="parent", value=inside.name)
    assert "error" not in await use("rl_start_training", reason="r")
