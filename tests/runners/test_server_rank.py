"""vLLM is started for the rank of what it has to serve, which may be above its own default of 16."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from fakes.adapters import CONFIG, safetensors, write_base

from hermes_lab.config.schema import ModelConfig, ServerConfig
from hermes_lab.errors import ConfigError, ModelError
from hermes_lab.models import remote, weights
from hermes_lab.models import server as server_module
from hermes_lab.models.server import VllmServer
from hermes_lab.runners.cli import app
from hermes_lab.runners.engine.execute import Listener
from hermes_lab.runners.environments import collect
from hermes_lab.training.lock import load_lock, write_lock

LOCK = Path("configs/locks/sft-cpu.yaml")


class StartedError(Exception):
    """The command that would have started vLLM."""


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A base model, and a vLLM that only tells its command."""

    def start(command: list[str], *_: object) -> None:
        raise StartedError(*command)

    monkeypatch.setattr(server_module, "_start_watched", start)
    monkeypatch.setattr(server_module, "is_cpu_build", lambda: True)
    monkeypatch.setenv("HERMES_LAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(weights, "_read_here", {})
    folder = tmp_path / "base"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    write_base(folder)
    return folder


def adapter(folder: Path, rank: int) -> str:
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps(CONFIG | {"r": rank}))
    (folder / "adapter_model.safetensors").write_bytes(safetensors({}, rank=rank))
    return str(folder)


def rank_of(command: tuple[str, ...]) -> str:
    """The last --max-lora-rank, which is the one that counts."""
    return command[len(command) - 1 - command[::-1].index("--max-lora-rank") + 1]


@pytest.mark.parametrize(("ranks", "most"), [((), "16"), ((8,), "16"), ((24,), "32"), ((8, 64), "64")])
def test_a_run_starts_it_for_its_adapters(tmp_path: Path, base: Path, ranks: tuple[int, ...], most: str) -> None:
    adapters = [adapter(tmp_path / f"r{rank}", rank) for rank in ranks] or [""]
    config = ModelConfig(provider="vllm", name=str(base))

    async def start() -> None:
        opened = remote.open_vllm(
            config, adapters, tool_format="native", log=tmp_path / "log", concurrency=1, say=lambda _: None
        )
        async with opened:
            pass

    with pytest.raises(StartedError) as started:
        anyio.run(start)
    assert rank_of(started.value.args) == most


def test_serve_starts_it_for_its_adapter_or_as_a_person_says(tmp_path: Path, base: Path) -> None:
    tuned = adapter(tmp_path / "tuned", 100)
    args = ["serve", "-c", f"model.name={base}", "--log", str(tmp_path / "log")]
    for more, most in (
        (["-c", f"model.adapter={tuned}"], "128"),
        (["-c", "model.server.args=[--max-lora-rank, '256']"], "256"),
    ):
        with pytest.raises(StartedError) as started:
            app([*args, *more], standalone_mode=False)
        assert rank_of(started.value.args) == most


def test_a_training_starts_it_for_the_locked_rank(tmp_path: Path, base: Path) -> None:
    locked = load_lock(LOCK).model_copy(
        update={"base_model": str(base), "lora_rank": 40, "rollout_server_url": "http://127.0.0.1:9/v1"}
    )
    sampler = collect.BatchSampler(locked, tmp_path / "log", print, Listener())
    with pytest.raises(StartedError) as started:
        sampler._find_server(ModelConfig(name=str(base)))
    assert rank_of(started.value.args) == "64"


def test_a_rank_that_no_server_takes_is_refused_when_the_lock_is_made(tmp_path: Path) -> None:
    source = tmp_path / "source.yaml"
    source.write_text(LOCK.read_text().replace("lora_rank: 8", "lora_rank: 513"))
    with pytest.raises(ConfigError, match=r"source.yaml:\d+: lora_rank: Input should be less than or equal to 512"):
        write_lock(source, tmp_path / "lock.yaml")


def test_a_server_of_another_rank_is_told_how_to_start(tmp_path: Path, base: Path) -> None:
    from fakes.openai_server import FakeOpenAIServer

    from hermes_lab.models.adapters import load_adapter
    from hermes_lab.models.endpoint import Endpoint

    folder = Path(adapter(tmp_path / "tuned", 32))

    async def load() -> Any:
        async with FakeOpenAIServer(["x"]) as server, Endpoint(server.base_url) as endpoint:
            server.refuse_adapters, server.why = 400, "LoRA rank 32 is greater than max_lora_rank 16"
            return await load_adapter(endpoint, folder)

    with pytest.raises((ConfigError, ModelError), match=r"max_lora_rank 16.*; start it with --max-lora-rank 32"):
        anyio.run(load)


def test_the_command_has_the_rank_before_the_arguments_of_a_person(tmp_path: Path) -> None:
    server = VllmServer(tmp_path, ServerConfig(args=("--x",)), name="m", log=tmp_path / "log", rank=20)
    assert server._command(cpu=True)[-1] == "--x"
