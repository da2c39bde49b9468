"""The executor `processes` in one event loop with its test; tests/faults has whole runs."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from fakes.openai_server import FakeOpenAIServer, Reply

from hermes_lab.config.schema import RunConfig
from hermes_lab.errors import ConfigError, WorkerError
from hermes_lab.knowledge import Knowledge
from hermes_lab.mcp.servers import Servers
from hermes_lab.rollout import RolloutContext, RolloutSpec
from hermes_lab.runners.engine.executors import open_executor
from hermes_lab.runners.engine.worker import setup_of
from hermes_lab.runners.processes.pool import process_count
from hermes_lab.sandbox import open_sandbox
from hermes_lab.tasks import load_suite
from hermes_lab.types import ModelIdentity, Task

pytestmark = pytest.mark.anyio


@dataclass
class Opened:
    """A model that the driver has opened; workers only get its identity."""

    identity: ModelIdentity

    async def generate(self, *_: object) -> Any:
        raise AssertionError("rollouts run in the workers")

    async def aclose(self) -> None: ...


@dataclass
class Unpicklable:
    """A suite that holds what no other process can have."""

    name: str = "local-only"
    judge: Any = field(default_factory=lambda: lambda answer: answer)


def config_of(folder: Path, **model: object) -> RunConfig:
    tasks = folder / "tasks.jsonl"
    tasks.write_text(json.dumps({"prompt": "Say it.", "expected_output": "Done."}) + "\n")
    return RunConfig.model_validate(
        {
            "model": {"name": "fake", **model},
            "agent": {"toolsets": ["terminal"]},
            "suite": {"path": str(tasks)},
            "run": {"executor": "processes", "processes": 1, "concurrency": 4},
        }
    )


def context_of(config: RunConfig, base_url: str) -> RolloutContext:
    model = Opened(ModelIdentity(config.model.provider, config.model.name, base_url))
    return RolloutContext(config, "", load_suite(config.suite), model, partial(open_sandbox, config.sandbox))


def spec_of(task: Task, sample: int = 0) -> RolloutSpec:
    return RolloutSpec(task, lane="main", round=0, sample=sample, experience=0, place=0, review="never")


async def test_workers_use_the_vllm_server_that_the_driver_has_started(tmp_path: Path) -> None:
    config = config_of(tmp_path, provider="vllm")
    async with FakeOpenAIServer(["Done."]) as server:
        context = context_of(config, server.base_url)
        (task,) = context.suite.load(split="train", count=1, seed=0, world=0)
        async with open_executor(config, [context], [""], print) as run_episode:
            episode = await run_episode(context, spec_of(task), Knowledge())
    assert episode.success
    assert episode.model == context.model.identity


async def test_a_cancelled_rollout_ends_and_the_worker_goes_on(tmp_path: Path) -> None:
    config = config_of(tmp_path, provider="vllm")
    others = set(psutil.Process().children())  # such as the server of a fixture
    async with FakeOpenAIServer([Reply("Done.", delay=0.5)]) as server:
        context = context_of(config, server.base_url)
        (task,) = context.suite.load(split="train", count=1, seed=0, world=0)
        async with open_executor(config, [context], [""], print) as run_episode:
            with anyio.move_on_after(0.1) as cut:
                await run_episode(context, spec_of(task), Knowledge())
            assert cut.cancelled_caught
            assert (await run_episode(context, spec_of(task, 1), Knowledge())).success
            (worker,) = set(psutil.Process().children()) - others
    assert not worker.is_running()


async def test_what_is_in_the_way_of_the_workers_is_said_in_one_line(tmp_path: Path) -> None:
    config = config_of(tmp_path, provider="vllm")
    context = context_of(config, "http://127.0.0.1:1/v1")  # no server listens there
    with pytest.raises(ExceptionGroup) as refused:
        async with open_executor(config, [context], [""], print):
            pass
    (error,) = refused.value.exceptions
    assert isinstance(error, WorkerError)
    assert "127.0.0.1:1" in str(error)
    assert len(str(error).splitlines()) == 1


async def test_a_suite_that_no_other_process_can_have_is_refused(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    model = Opened(ModelIdentity("openai", "fake"))
    context = RolloutContext(config, "", Unpicklable(), model, partial(open_sandbox, config.sandbox))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"run\.executor: the suite local-only cannot be sent to another process"):
        async with open_executor(config, [context], [""], print):
            pass


def test_a_worker_does_not_load_torch() -> None:
    program = "import sys, hermes_lab.runners.processes.worker; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_there_is_by_default_one_worker_for_each_cpu_that_may_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5})
    run = config_of(tmp_path).run
    counts = {
        (asked, at_once): process_count(
            RunConfig(run=run.model_copy(update={"processes": asked, "concurrency": at_once}))
        )
        for asked in (0, 5)
        for at_once in (1, 8)
    }
    assert counts == {(0, 1): 1, (0, 8): 2, (5, 1): 1, (5, 8): 5}


def test_workers_get_absolute_paths_since_those_of_ray_have_another_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = config_of(tmp_path)
    servers = Servers(config.mcp, Path("run/blobs"), strict=False)
    context = replace(context_of(config, ""), workspaces=Path("run/workspaces"), servers=servers)
    setup = setup_of(config, [context], [""])
    assert (setup.workspaces, setup.blobs) == (tmp_path / "run/workspaces", tmp_path / "run/blobs")
    bare = setup_of(config, [context_of(config, "")], [""])
    assert (bare.workspaces, bare.blobs) == (None, None)
