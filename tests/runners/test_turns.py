"""A rollout server and a training that share a GPU in turns, at doubles of vLLM's endpoints and of its command."""

import json
import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

import pytest
from fakes.adapters import write_base, write_lora
from fakes.openai_server import FakeOpenAIServer, Reply, reserved_port, running
from test_collect import batch, locked, run_config

from hermes_lab.errors import ConfigError
from hermes_lab.models import server as server_module
from hermes_lab.models import weights
from hermes_lab.models.adapters import adapter_digest
from hermes_lab.models.sleeping import sleep
from hermes_lab.runners.engine.execute import Listener
from hermes_lab.runners.environments import collect
from hermes_lab.runners.environments.collect import BatchSampler, open_sampler
from hermes_lab.training.grpo_config import Sharing
from hermes_lab.training.lock import HardwareLock

STAND_IN = Path(__file__).parents[1] / "fakes" / "vllm_package"


def test_a_server_sleeps_during_the_steps_and_wakes_for_the_next_rollouts(tmp_path: Path) -> None:
    first, second = write_lora(tmp_path / "grpo-v1", "one"), write_lora(tmp_path / "grpo-v2", "two")
    with running(FakeOpenAIServer(["I do not know."], models=["packaged"], sleep_mode=True)) as server:
        sampler = BatchSampler(
            locked(server.base_url), tmp_path / "server.log", print, Listener(), Sharing(turns="sleep")
        )
        served = {"model.base_url": server.base_url, "model.max_retries": 0}
        sampler.collect(batch(tmp_path / "1", run_config(**served, **{"model.adapter": first}), tasks=1))
        assert server.turns == []
        sampler.rest()
        assert server.asleep
        sampler.retire(first)  # an HTTP request now would reach a server that sleeps
        sampler.collect(batch(tmp_path / "2", run_config(**served, **{"model.adapter": second}), tasks=1))
        assert server.turns == ["sleep 1 wait", "wake"]
        assert list(server.adapters.values()) == [str(second)]
        sampler.close()
    for run in ("1", "2"):
        assert json.loads((tmp_path / run / "summary.json").read_text())["finished"] == 2


def test_a_training_resumed_in_its_steps_needs_no_server_and_starts_none(tmp_path: Path) -> None:
    with reserved_port() as port:
        sampler = BatchSampler(
            locked(f"http://127.0.0.1:{port}/v1"), tmp_path / "server.log", print, Listener(), Sharing(turns="sleep")
        )
        sampler.rest()
        sampler.close()
    assert not (tmp_path / "server.log").exists()


def test_merged_weights_are_not_served_beside_somebody_elses_server(tmp_path: Path) -> None:
    """The run would use what is served there, or its own server could not start."""
    with running(FakeOpenAIServer(["I do not know."], models=["packaged"])) as server:
        sampler = BatchSampler(
            locked(server.base_url), tmp_path / "server.log", print, Listener(), Sharing(turns="merge")
        )
        with pytest.raises(ConfigError, match=r"turns: a server runs at http.*, where the training starts its own"):
            sampler.collect(batch(tmp_path / "1", run_config(**{"model.base_url": server.base_url}), tasks=1))
        sampler.rest()
        sampler.close()
        assert not (tmp_path / "1").exists()


def test_the_merged_weights_of_a_superseded_version_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are as large as the model, and every round makes others."""
    monkeypatch.setenv("HERMES_LAB_CACHE", str(tmp_path / "cache"))
    base, version = tmp_path / "base", Path(write_lora(tmp_path / "grpo-v1", "one"))
    base.mkdir()
    (base / "config.json").write_text("{}")
    write_base(base)
    merged, other = (weights.merged_folder(base, of) for of in (adapter_digest(version), "0" * 64))
    for folder in (merged, other):
        folder.mkdir(parents=True)
    lock = locked("http://127.0.0.1:9/v1").model_copy(update={"base_model": str(base)})
    BatchSampler(lock, tmp_path / "server.log", print, Listener(), Sharing(turns="merge")).retire(version)
    assert not merged.exists()
    assert other.exists()


def test_a_training_resumed_in_its_steps_puts_a_running_server_to_sleep(tmp_path: Path) -> None:
    with running(FakeOpenAIServer(["I do not know."], models=["packaged"], sleep_mode=True)) as server:
        sharing = Sharing(turns="sleep")
        sampler = BatchSampler(locked(server.base_url), tmp_path / "server.log", print, Listener(), sharing)
        sampler.rest()
        assert server.turns == ["sleep 1 wait"]
        sampler.collect(batch(tmp_path / "run", run_config(**{"model.base_url": server.base_url}), tasks=1))
        assert server.turns == ["sleep 1 wait", "wake"]
        sampler.close()
        assert server.turns == ["sleep 1 wait", "wake"]


def test_of_several_servers_those_that_answer_sleep_and_wake(tmp_path: Path) -> None:
    script = FakeOpenAIServer(["I do not know."], models=["packaged"], sleep_mode=True)
    with running(script) as server, reserved_port() as port:
        both = f"http://127.0.0.1:{port}/v1,{server.base_url}"
        served = {"model.base_url": both, "model.max_retries": 0}
        sampler = BatchSampler(locked(both), tmp_path / "server.log", print, Listener(), Sharing(turns="sleep"))
        sampler.collect(batch(tmp_path / "run", run_config(**served), tasks=1))
        sampler.rest()
        assert server.asleep
        sampler.close()
        assert server.turns == ["sleep 1 wait", "wake"]


@pytest.mark.parametrize("ends", [KeyboardInterrupt, MemoryError, None])
def test_a_server_of_someone_else_is_awake_after_the_training(tmp_path: Path, ends: type[BaseException] | None) -> None:
    class Model:
        """Something large on the GPU, which a failed step still refers to."""

    def steps() -> None:
        model = Model()
        alive.append(weakref.ref(model))
        if ends:
            raise ends

    alive: list[weakref.ref[Model]] = []
    with running(FakeOpenAIServer(["I do not know."], models=["packaged"], sleep_mode=True)) as server:
        sharing, seen = Sharing(turns="sleep"), []
        with (
            suppress(KeyboardInterrupt, MemoryError),
            open_sampler(locked(server.base_url), tmp_path / "server.log", print, Listener(), sharing) as sampler,
        ):
            sampler.rest()
            closes = sampler.close
            sampler.close = lambda: (seen.append(alive[0]()), closes())  # type: ignore[method-assign]
            steps()
        assert not server.asleep
    assert seen == [None]


def test_a_server_is_woken_if_the_training_is_interrupted_while_it_falls_asleep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(url: str) -> None:
        await sleep(url)
        raise KeyboardInterrupt

    monkeypatch.setattr(collect, "sleep", interrupted)
    with running(FakeOpenAIServer(["I do not know."], models=["packaged"], sleep_mode=True)) as server:
        sharing = Sharing(turns="sleep")
        with (
            suppress(KeyboardInterrupt),
            open_sampler(locked(server.base_url), tmp_path / "server.log", print, Listener(), sharing) as sampler,
        ):
            sampler.rest()
        assert server.turns == ["sleep 1 wait", "wake"]


def test_a_server_that_cannot_sleep_is_not_called_asleep(tmp_path: Path) -> None:
    said: list[str] = []
    with running(FakeOpenAIServer(["I do not know."], models=["packaged"])) as server:
        sharing = Sharing(turns="sleep")
        sampler = BatchSampler(locked(server.base_url), tmp_path / "server.log", said.append, Listener(), sharing)
        with pytest.raises(ConfigError, match="the server cannot sleep"):
            sampler.rest()
        sampler.close()
    assert said == []


def test_a_server_that_does_not_wake_is_named(tmp_path: Path) -> None:
    said: list[str] = []
    with running(FakeOpenAIServer(["I do not know."], models=["packaged"], sleep_mode=True)) as server:
        sharing = Sharing(turns="sleep")
        sampler = BatchSampler(locked(server.base_url), tmp_path / "server.log", said.append, Listener(), sharing)
        sampler.rest()
        server.stuck = True
        sampler.close()
    assert said[-1].startswith(f"warning: the server at {server.base_url} is still asleep, POST /wake_up wakes it: ")


def test_a_server_that_an_ended_training_left_asleep_is_woken(tmp_path: Path) -> None:
    with running(FakeOpenAIServer(["I do not know."], models=["packaged"], sleep_mode=True)) as server:
        server.asleep = True
        sampler = BatchSampler(
            locked(server.base_url), tmp_path / "server.log", print, Listener(), Sharing(turns="sleep")
        )
        sampler.collect(batch(tmp_path / "run", run_config(**{"model.base_url": server.base_url}), tasks=1))
        assert server.turns == ["wake"]
        sampler.close()


def test_a_server_without_sleep_mode_is_refused_before_the_first_rollout(tmp_path: Path) -> None:
    with running(FakeOpenAIServer(["I do not know."], models=["packaged"])) as server:
        sampler = BatchSampler(
            locked(server.base_url), tmp_path / "server.log", print, Listener(), Sharing(turns="sleep")
        )
        with pytest.raises(
            ConfigError, match=r"the server cannot sleep.*VLLM_SERVER_DEV_MODE=1 and --enable-sleep-mode"
        ):
            sampler.collect(batch(tmp_path / "run", run_config(**{"model.base_url": server.base_url}), tasks=1))
        assert server.requests == []


def test_a_server_of_someone_else_is_not_stopped(tmp_path: Path) -> None:
    with running(FakeOpenAIServer([Reply("no")], models=["packaged"])) as server:
        sampler = BatchSampler(
            locked(server.base_url), tmp_path / "server.log", print, Listener(), Sharing(turns="stop")
        )
        with pytest.raises(ConfigError, match="was not started by this training, which cannot stop it"):
            sampler.collect(batch(tmp_path / "run", run_config(**{"model.base_url": server.base_url}), tasks=1))


@pytest.fixture
def own_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., BatchSampler]:
    """A sampler that starts the stand-in for vLLM, on a free port."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(STAND_IN), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("FAKE_VLLM_PIDS", str(tmp_path / "pids"))
    monkeypatch.setattr(server_module, "is_cpu_build", lambda: False)
    monkeypatch.setattr(collect, "is_cpu_build", lambda: False)
    monkeypatch.setattr(server_module, "_STOP_SECONDS", 1.0)
    monkeypatch.setattr(collect.weights, "resolve", lambda *_: tmp_path)

    def make(port: int, sharing: Sharing) -> BatchSampler:
        return BatchSampler(locked(f"http://127.0.0.1:{port}/v1"), tmp_path / "server.log", print, Listener(), sharing)

    return make


def started(tmp_path: Path) -> dict[str, object]:
    """The command line and the environment of the server that was started last."""
    found: dict[str, object] = json.loads((tmp_path / "pids.command").read_text())
    return found


def test_our_own_server_is_stopped_for_the_steps_and_started_again(
    own_server: Callable[..., BatchSampler], tmp_path: Path
) -> None:
    with reserved_port() as port:
        sampler = own_server(port, Sharing(turns="stop", server_gpu=1))
    config = run_config(**{"model.base_url": f"http://127.0.0.1:{port}/v1", "model.max_retries": 0})
    pids = []
    for run in ("1", "2"):
        sampler.collect(batch(tmp_path / run, config, tasks=1))
        (pid, _) = json.loads((tmp_path / "pids").read_text())
        os.kill(pid, 0)
        pids.append(pid)
        assert started(tmp_path)["gpu"] == "1"
        sampler.rest()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert pids[0] != pids[1]
    sampler.close()


HARDWARE = HardwareLock(
    gpu_memory=24, precision="bfloat16", quantization="none", gradient_checkpointing=True, packing=True, micro_tokens=64
)


@pytest.mark.parametrize("turns", ["none", "stop"])
def test_with_a_lock_for_a_gpu_no_server_starts_on_the_gpu_of_the_steps(
    own_server: Callable[..., BatchSampler], tmp_path: Path, turns: Literal["none", "stop"]
) -> None:
    with reserved_port() as port:
        sampler = own_server(port, Sharing(turns=turns))
    sampler._locked = sampler._locked.model_copy(update={"hardware": HARDWARE})
    config = run_config(**{"model.base_url": f"http://127.0.0.1:{port}/v1", "model.max_retries": 0})
    if turns == "none":
        with pytest.raises(ConfigError, match=r"turns: none, but server and steps would share a GPU.*turns=sleep"):
            sampler.collect(batch(tmp_path / "run", config, tasks=1))
        assert not (tmp_path / "pids.command").exists()
        sampler._sharing = Sharing(server_gpu=1)
    sampler.collect(batch(tmp_path / "run", config, tasks=1))
    sampler.close()
    assert started(tmp_path)["command"]


@pytest.mark.parametrize(("given", "length"), [(4096, 8192), (16384, 16384)])
def test_our_own_server_has_the_context_of_the_longest_locked_rollout(
    own_server: Callable[..., BatchSampler], tmp_path: Path, given: int, length: int
) -> None:
    with reserved_port() as port:
        sampler = own_server(port, Sharing())
    sampler._locked = sampler._locked.model_copy(update={"max_token_length": 8192})
    run = run_config(**{"model.base_url": f"http://127.0.0.1:{port}/v1"})
    server = run.model.server.model_copy(update={"max_model_len": given})
    run = run.model_copy(update={"model": run.model.model_copy(update={"server": server})})
    sampler.collect(batch(tmp_path / "run", run, tasks=1))
    sampler.close()
    assert f"--max-model-len', '{length}'" in str(started(tmp_path)["command"])


def test_our_own_server_is_started_with_sleep_mode(own_server: Callable[..., BatchSampler], tmp_path: Path) -> None:
    with reserved_port() as port:
        sampler = own_server(port, Sharing(turns="sleep"))
    config = run_config(**{"model.base_url": f"http://127.0.0.1:{port}/v1", "model.max_retries": 0})
    with pytest.raises(ConfigError, match="the server cannot sleep"):  # the stand-in has no such endpoint
        sampler.collect(batch(tmp_path / "run", config, tasks=1))
    assert "--enable-sleep-mode" in str(started(tmp_path)["command"])
    assert started(tmp_path)["dev"] == "1"
    sampler.close()


def test_a_build_for_cpus_is_not_put_to_sleep(
    own_server: Callable[..., BatchSampler], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "is_cpu_build", lambda: True)
    with reserved_port() as port:
        sampler = own_server(port, Sharing(turns="sleep"))
    with pytest.raises(ConfigError, match="vLLM's build for CPUs frees nothing when it sleeps; give turns=stop"):
        sampler.collect(batch(tmp_path / "run", run_config(), tasks=1))
