"""vLLM at two addresses as one model: both are asked, and one goes and comes back as a new server without the adapter.

Until it goes, the second address is a relay to the first.
"""

import re
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import pytest
from lora import random_adapter
from test_sampled_tokens import Reply, relay

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

    relayed: list[Reply] = []
    async with AsyncExitStack() as first:
        url = await first.enter_async_context(relay(vllm_url, relayed))
        sampling = SamplingConfig(max_tokens=24)
        config = ModelConfig(base_url=f"{vllm_url},{url}", token_ids=True, sampling=sampling)
        models = open_endpoints(config, ["", str(adapter)], tool_format="hermes", concurrency=8, say=say)
        async with models as (bare, tuned):
            (plain,) = await ask(bare, 1)
            before, relayed_before = await answered(vllm_url), len(relayed)
            assert plain not in await ask(tuned, 8)
            there = len(relayed) - relayed_before
            assert there >= 4
            assert await answered(vllm_url) - before - there >= 4

            await first.aclose()
            assert plain not in await ask(tuned, 4)
            assert [line for line in said if line.startswith(f"{url} is taken out")]

            at = ServerConfig(port=urlsplit(url).port or 0)
            async with VllmServer(packaged, at, name=PACKAGED, log=tmp_path / "server.log") as again:
                with anyio.fail_after(60):
                    await back.wait()
                async with Endpoint(again.base_url) as endpoint:
                    assert tuned.identity.adapter in await served_models(endpoint)
                assert plain not in await ask(tuned, 8)
                assert await answered(again.base_url) >= 4
