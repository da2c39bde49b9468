"""Two real vLLM servers as one model: both are asked, both have the adapter, and one goes and comes back."""

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import pytest
from lora import random_adapter

from hermes_lab.config.schema import ModelConfig, SamplingConfig, ServerConfig
from hermes_lab.models import fleet
from hermes_lab.models.adapters import served_models
from hermes_lab.models.endpoint import Endpoint
from hermes_lab.models.remote import open_endpoints
from hermes_lab.models.server import VllmServer
from hermes_lab.models.weights import PACKAGED
from hermes_lab.protocols import ModelClient, TaskAwareModel
from hermes_lab.types import Message, Task

pytestmark = [pytest.mark.real, pytest.mark.anyio]

ASK = [Message("system", "You are brief."), Message("user", "Name a colour.")]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def another(weights: Path, log: Path, port: int | None = 0) -> AsyncIterator[str]:
    async with VllmServer(weights, ServerConfig(port=port or 0), name=PACKAGED, log=log) as server:
        yield server.base_url


async def answered(base_url: str) -> int:
    """How many requests a server has answered since it started."""
    async with Endpoint(base_url.removesuffix("/v1")) as endpoint:
        content, _ = await endpoint.get("/metrics")
    return int(sum(map(float, re.findall(r"^vllm:request_success_total\{.*\} (\S+)$", content.decode(), re.MULTILINE))))


async def ask(model: ModelClient, rollouts: int) -> list[str]:
    """What that many rollouts at once are told."""
    replies: list[str] = []

    async def rollout(number: int) -> None:
        assert isinstance(model, TaskAwareModel)
        met = model.for_task(Task(id=f"t{number}", suite="colours", prompt="Go."))
        replies.append((await met.generate(ASK, ())).message.content)

    async with anyio.create_task_group() as group:
        for number in range(rollouts):
            group.start_soon(rollout, number)
    return replies


async def test_rollouts_go_to_both_servers_and_a_lost_one_comes_back_with_its_adapter(
    vllm_url: str, packaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("peft")
    monkeypatch.setattr(fleet, "LOOK_SECONDS", 0.2)
    adapter = random_adapter(packaged, tmp_path / "tuned", seed=4)
    said: list[str] = []
    back = anyio.Event()

    def say(line: str) -> None:
        said.append(line)
        if line.endswith(" is back"):
            back.set()

    async with AsyncExitStack() as first:
        url = await first.enter_async_context(another(packaged, tmp_path / "first.log"))
        config = ModelConfig(base_url=f"{vllm_url},{url}", sampling=SamplingConfig(max_tokens=24))
        models = open_endpoints(config, ["", str(adapter)], tool_format="hermes", concurrency=8, say=say)
        async with models as (bare, tuned):
            before = [await answered(each) for each in (vllm_url, url)]
            (plain,) = await ask(bare, 1)
            assert plain not in await ask(tuned, 8)
            after = [await answered(each) for each in (vllm_url, url)]
            assert all(now >= then + 4 for then, now in zip(before, after, strict=True))

            await first.aclose()
            assert plain not in await ask(tuned, 4)
            assert [line for line in said if line.startswith(f"{url} is taken out")]

            async with another(packaged, tmp_path / "second.log", urlsplit(url).port) as again:
                with anyio.fail_after(30):
                    await back.wait()
                async with Endpoint(again) as endpoint:
                    assert tuned.identity.adapter in await served_models(endpoint)
                assert plain not in await ask(tuned, 8)
                assert await answered(again) >= 4
