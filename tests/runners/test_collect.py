"""The rollouts of a GRPO training, at a fake server, through the real agent and sandbox."""

import json
from pathlib import Path

import pytest
from fakes.adapters import write_lora
from fakes.openai_server import FakeOpenAIServer, reserved_port, running

from hermes_lab.config.schema import RunConfig
from hermes_lab.config.sources import load_config
from hermes_lab.envs.groups import build_groups
from hermes_lab.envs.knowledge import TaskKnowledge
from hermes_lab.errors import ConfigError
from hermes_lab.records import read_episodes
from hermes_lab.runners.engine.execute import Listener
from hermes_lab.runners.environments.collect import BatchSampler, batch_lanes
from hermes_lab.skills.library import Library
from hermes_lab.tasks import load_suite
from hermes_lab.training.grpo_config import Batch
from hermes_lab.training.lock import LockedConfig, load_lock


def run_config(**options: object) -> RunConfig:
    return load_config(
        [
            *("suite.name=ledger", "suite.options.ruled=2", "suite.options.plain=1", "agent.tool_format=hermes"),
            *("agent.toolsets=[terminal, skill_view]", "agent.max_iterations=2", "learning.arms=[oracle]"),
            *("model.token_ids=true", *(f"{name}={value}" for name, value in options.items())),
        ]
    )


def batch(folder: Path, config: RunConfig, *, tasks: int = 3, samples: int = 2) -> Batch:
    return Batch(config, tasks, samples, 100, folder)


def locked(url: str) -> LockedConfig:
    return load_lock(Path("configs/locks/grpo-smoke.yaml")).model_copy(update={"rollout_server_url": url})


def test_tasks_are_shared_among_worlds_that_know_their_own_rules(tmp_path: Path) -> None:
    config = run_config(**{"learning.worlds": 2})
    suite = load_suite(config.suite)
    lanes = batch_lanes(batch(tmp_path, config, tasks=5), suite, Library())
    assert [(lane.name, sum(map(len, lane.rounds)), lane.samples) for lane in lanes] == [
        ("oracle-r0-w100", 3, 2),
        ("oracle-r0-w101", 2, 2),
    ]
    known = [suite.known_skills(split="train", world=world).snapshot for world in (100, 101)]
    assert [lane.library.snapshot for lane in lanes] == known


def test_more_worlds_than_tasks_leave_no_empty_lane(tmp_path: Path) -> None:
    config = run_config(**{"learning.worlds": 5})
    lanes = batch_lanes(batch(tmp_path, config, tasks=2), load_suite(config.suite), Library())
    assert [sum(map(len, lane.rounds)) for lane in lanes] == [1, 1]


def test_with_knowledge_every_task_has_its_own_skills_in_every_world(tmp_path: Path) -> None:
    config = run_config(**{"learning.worlds": 2, "env.knowledge": "mixed", "learning.arms": "[off]"})
    suite = load_suite(config.suite)
    lanes = batch_lanes(batch(tmp_path, config, tasks=5), suite, Library())
    names = ["mixed-r0-w100", "mixed-r1-w100", "mixed-r2-w100", "mixed-r0-w101", "mixed-r1-w101"]
    assert [lane.name for lane in lanes] == names
    for lane in lanes:
        ((task,),) = lane.rounds
        known = TaskKnowledge(config, suite).of(task)
        assert (lane.library.snapshot, lane.label) == (known.library.snapshot, known.label)
    assert len({lane.library.snapshot for lane in lanes}) > 1


def test_what_a_task_knows_is_in_its_groups(tmp_path: Path) -> None:
    with running(FakeOpenAIServer(["I do not know."], models=["packaged"])) as server:
        served = {"model.base_url": server.base_url, "env.knowledge": "oracle", "learning.arms": "[off]"}
        sampler = BatchSampler(locked(server.base_url), tmp_path / "server.log", print, Listener())
        sampler.collect(batch(tmp_path / "run", run_config(**served), tasks=4))
        sampler.close()
    groups = list(build_groups(read_episodes(tmp_path / "run")))
    assert len(groups) == 4
    assert {group.knowledge for group in groups} <= {"oracle, 1 of 1 rules known", "oracle, no rule"}
    for group in groups:
        assert (tmp_path / "run" / "skills" / group.snapshot).is_dir()


def test_a_batch_is_whole_groups_with_the_tokens_of_the_served_adapter(tmp_path: Path) -> None:
    adapter = write_lora(tmp_path / "grpo-v1")
    with running(FakeOpenAIServer(["I do not know."], models=["packaged"])) as server:
        config = run_config(**{"model.base_url": server.base_url, "model.adapter": adapter})
        sampler = BatchSampler(locked(server.base_url), tmp_path / "server.log", print, Listener())
        sampler.collect(batch(tmp_path / "run", config))
        asked = len(server.requests)
        sampler.collect(batch(tmp_path / "run", config))  # nothing is owed
        assert len(server.requests) == asked
        assert list(server.adapters.values()) == [str(adapter)]
        sampler.retire(adapter)
        sampler.retire(adapter)
        assert server.adapters == {}
        sampler.close()
    groups = list(build_groups(read_episodes(tmp_path / "run")))
    assert [len(group.episodes) for group in groups] == [2, 2, 2]
    assert {group.model.adapter_digest for group in groups} == {group.policy for group in groups}
    assert not (tmp_path / "server.log").exists()


def test_what_errors_is_tried_once_more_and_then_left_out(tmp_path: Path) -> None:
    with running(FakeOpenAIServer([], models=["packaged"])) as server:

        def gone(body: dict[str, object]) -> str:
            raise RuntimeError  # a 500, every time

        server.script = gone
        config = run_config(**{"model.base_url": server.base_url, "model.max_retries": 0})
        sampler = BatchSampler(locked(server.base_url), tmp_path / "server.log", print, Listener())
        sampler.collect(batch(tmp_path / "run", config, tasks=1))
        assert len(server.requests) == 4  # two samples, twice
    assert {episode.status for episode in read_episodes(tmp_path / "run")} == {"errored"}
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["finished"] == 0


def test_of_several_servers_one_is_enough_to_begin_with(tmp_path: Path) -> None:
    with running(FakeOpenAIServer(["I do not know."], models=["packaged"])) as server, reserved_port() as port:
        both = f"http://localhost:{port}/v1,{server.base_url}"
        sampler = BatchSampler(locked(both), tmp_path / "server.log", print, Listener())
        sampler.collect(
            batch(tmp_path / "run", run_config(**{"model.base_url": both, "model.max_retries": 0}), tasks=1)
        )
        sampler.close()
    assert {episode.status for episode in read_episodes(tmp_path / "run")} == {"ok"}
    assert not (tmp_path / "server.log").exists()


def test_a_batch_that_cannot_run_is_refused_before_its_server_is_looked_for(tmp_path: Path) -> None:
    judge = {"judge.model.provider": "openai", "judge.model.name": "j", "judge.model.base_url": "http://127.0.0.1:1/v1"}
    with reserved_port() as port:
        sampler = BatchSampler(locked(f"http://localhost:{port}/elsewhere"), tmp_path / "server.log", print, Listener())
        with pytest.raises(ConfigError, match=r"^judge: no task of ledger has a rubric"):
            sampler.collect(batch(tmp_path / "run", run_config(**judge)))


def test_a_server_elsewhere_is_never_started_from_here(tmp_path: Path) -> None:
    with reserved_port() as port:
        url = f"http://localhost:{port}/elsewhere"
        sampler = BatchSampler(locked(url), tmp_path / "server.log", print, Listener())
        with pytest.raises(ConfigError, match=r"no server at .*/elsewhere"):
            sampler.collect(batch(tmp_path / "run", run_config(**{"model.max_retries": 0})))
    assert not (tmp_path / "run").exists()
