"""Opening a model: its identity is checked and told truthfully, or the mistake is named."""

import shutil
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from aiohttp import web
from fakes.adapters import write_lora
from fakes.openai_server import FakeOpenAIServer
from fakes.training import bare_adapter

from hermes_lab.config.schema import ModelConfig
from hermes_lab.errors import ConfigError, ModelError
from hermes_lab.models import adapters, open_model, remote
from hermes_lab.models.adapters import adapter_digest, load_adapter, served_models, unload_adapter
from hermes_lab.models.endpoint import Endpoint
from hermes_lab.types import Message, ModelIdentity


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    return bare_adapter(tmp_path)


async def identity_of(server: FakeOpenAIServer, **config: Any) -> ModelIdentity:
    made = ModelConfig(**{"name": "fake", "base_url": server.base_url, "max_retries": 0} | config)
    async with open_model(
        made, tool_format="hermes", log=Path("unused"), concurrency=2, say=lambda line: None
    ) as model:
        await model.generate([Message("user", "hi")], ())
        return model.identity


@pytest.mark.anyio
async def test_identity_is_that_of_the_served_model() -> None:
    async with FakeOpenAIServer(["x"]) as server:
        assert await identity_of(server) == ModelIdentity("openai", "fake", server.base_url)


@pytest.mark.anyio
async def test_a_model_that_is_not_served_is_refused_by_name() -> None:
    async with FakeOpenAIServer(["x"], models=["one", "two"]) as server:
        with pytest.raises(ConfigError, match=r"model.name: .* serves one, two, not 'fake'"):
            await identity_of(server)


@pytest.mark.anyio
async def test_a_server_that_lists_no_models_is_believed() -> None:
    async with FakeOpenAIServer(["x"], lists_models=False) as server:
        assert (await identity_of(server)).name == "fake"


def listed(owner: str, context: int) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": "fake", "owned_by": owner, "max_model_len": context}]}


@pytest.mark.anyio
async def test_a_reply_that_takes_the_whole_context_of_a_vllm_is_refused_before_any_request() -> None:
    async with FakeOpenAIServer(["x"], list_body=listed("vllm", 4096)) as server:
        with pytest.raises(ConfigError) as refused:
            await identity_of(server, sampling={"max_tokens": 4096})
        assert server.requests == []
        assert str(refused.value) == (
            f"model.sampling.max_tokens: 4096 leaves no room for a prompt in the context of 4096 tokens that "
            f"{server.base_url} serves fake with; set a lower one, or start the server with a larger context "
            "(model.server.max_model_len for `hermes-lab serve`)"
        )
        await identity_of(server, sampling={"max_tokens": 4095})
        await identity_of(server, sampling={"max_tokens": None})
        assert len(server.requests) == 2


@pytest.mark.anyio
@pytest.mark.parametrize(("owner", "context"), [("sglang", 4096), ("vllm", "4096"), ("vllm", None)])
async def test_a_context_that_may_not_be_a_limit_refuses_nothing(owner: str, context: Any) -> None:
    """SGLang can be told to shorten replies instead."""
    async with FakeOpenAIServer(["x"], list_body=listed(owner, context)) as server:
        await identity_of(server, sampling={"max_tokens": 4096})
        assert len(server.requests) == 1


@pytest.mark.anyio
async def test_an_adapter_folder_is_loaded_and_answers(adapter: Path) -> None:
    digest = adapter_digest(adapter)
    async with FakeOpenAIServer(["x"]) as server:
        for _ in range(2):  # the second time it is there already
            identity = await identity_of(server, adapter=str(adapter))
            assert (identity.adapter, identity.adapter_digest) == (f"tuned-{digest[:12]}", digest)
        assert server.adapters == {identity.adapter: str(adapter)}
        assert server.requests[-1]["model"] == identity.adapter


@pytest.mark.anyio
async def test_a_changed_adapter_is_loaded_under_a_new_name(adapter: Path) -> None:
    async with FakeOpenAIServer(["x"]) as server, Endpoint(server.base_url) as endpoint:
        first = await load_adapter(endpoint, adapter)
        write_lora(adapter, "others")
        second = await load_adapter(endpoint, adapter)
        assert first.name != second.name
        await unload_adapter(endpoint, first.name)
        assert set(await served_models(endpoint)) == {"fake", second.name}


@pytest.mark.anyio
async def test_two_runs_may_load_an_adapter_at_the_same_moment(adapter: Path) -> None:
    class Slow(FakeOpenAIServer):
        async def _load(self, request: web.Request) -> web.Response:
            await anyio.sleep(0.2)  # until both have asked which adapters there are
            return await super()._load(request)

    async with Slow(["x"]) as server, Endpoint(server.base_url) as endpoint:
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(load_adapter, endpoint, adapter)
        assert len(server.adapters) == 1


@pytest.mark.anyio
async def test_a_served_adapter_has_its_digest_while_its_folder_is_unchanged(adapter: Path) -> None:
    async with FakeOpenAIServer(["x"]) as server:
        loaded = await identity_of(server, adapter=str(adapter))
        assert await identity_of(server, adapter=loaded.adapter) == loaded
        write_lora(adapter, "others")
        assert (await identity_of(server, adapter=loaded.adapter)).adapter_digest == ""


@pytest.mark.anyio
async def test_adapter_mistakes_are_named(adapter: Path, tmp_path: Path) -> None:
    async with FakeOpenAIServer(["x"]) as server:
        with pytest.raises(ConfigError, match=r"'nope' is neither a folder nor served: .* serves fake"):
            await identity_of(server, adapter="nope")
        with pytest.raises(ConfigError, match=r"adapter_config\.json is missing"):
            await identity_of(server, adapter=str(tmp_path))
        server.refuse_adapters = 404
        with pytest.raises(ConfigError, match=r"no adapters; it must run with VLLM_ALLOW_RUNTIME_LORA_UPDATING"):
            await identity_of(server, adapter=str(adapter))


@pytest.mark.anyio
async def test_a_name_that_is_served_from_another_folder_is_refused(adapter: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere" / "tuned"
    shutil.copytree(adapter, copy)
    async with FakeOpenAIServer(["x"]) as server:
        served = await identity_of(server, adapter=str(adapter))
        with pytest.raises(
            ConfigError, match=rf"serves {served.adapter} from {adapter}, not from {copy}; unload it first: `.* unload"
        ):
            await identity_of(server, adapter=str(copy))


@pytest.mark.anyio
async def test_the_packaged_adapter_is_loaded_by_its_name(adapter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapters, "_PACKAGED_FOLDER", adapter)
    async with FakeOpenAIServer(["x"]) as server:
        assert (await identity_of(server, adapter="packaged")).adapter_digest == adapter_digest(adapter)
        monkeypatch.setattr(adapters, "_PACKAGED_FOLDER", adapter / "absent")
        with pytest.raises(ConfigError, match=r"model.adapter: this installation has no bundled `packaged` adapter"):
            await identity_of(server, adapter="packaged")


async def answers(server: FakeOpenAIServer, adapter: Path, change: Callable[[str], Awaitable[None]]) -> None:
    """Opens a model, has an answer, and another one after `change` was done with the adapter's name."""
    config = ModelConfig(name="fake", base_url=server.base_url, max_retries=0, adapter=str(adapter))
    opened = open_model(config, tool_format="hermes", log=Path("unused"), concurrency=2, say=lambda line: None)
    async with opened as model:
        await model.generate([Message("user", "hi")], ())
        await change(model.identity.adapter)
        await model.generate([Message("user", "hi")], ())


@pytest.mark.anyio
async def test_an_adapter_that_is_unloaded_under_way_is_an_error(adapter: Path) -> None:
    async with FakeOpenAIServer(["x"]) as server, Endpoint(server.base_url) as endpoint:
        with pytest.raises(ModelError, match="does not exist"):
            await answers(server, adapter, lambda name: unload_adapter(endpoint, name))


@pytest.mark.anyio
async def test_another_adapter_under_the_same_name_is_an_error(
    adapter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = partial(adapters.StillServed, every=0.0)
    monkeypatch.setattr(remote, "StillServed", looks)
    async with FakeOpenAIServer(["x"]) as server:

        async def reload(name: str) -> None:
            server.adapters[name] = str(tmp_path / "other")

        with pytest.raises(ModelError, match=rf"from {adapter} is now served from .*/other; load it again"):
            await answers(server, adapter, reload)


@pytest.mark.anyio
async def test_an_adapter_that_is_nowhere_is_told_before_a_server_is_started(tmp_path: Path) -> None:
    config = ModelConfig(provider="vllm", name=str(tmp_path / "no-weights"), adapter="nope")
    with pytest.raises(ConfigError, match=r"model.adapter: 'nope' is neither a folder nor `packaged`"):
        async with open_model(config, tool_format="hermes", log=Path("unused"), concurrency=1, say=lambda line: None):
            pass


@pytest.mark.anyio
async def test_an_adapter_whose_files_are_written_under_way_is_an_error(
    adapter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "StillServed", partial(adapters.StillServed, every=0.0))
    async with FakeOpenAIServer(["x"]) as server:

        async def write(_name: str) -> None:
            write_lora(adapter, "of another training")

        with pytest.raises(ModelError, match=rf"model.adapter: {adapter} was changed after tuned-\w+ was loaded"):
            await answers(server, adapter, write)


@pytest.mark.anyio
async def test_an_answer_of_the_base_model_is_never_taken_for_the_adapters(adapter: Path) -> None:
    async with FakeOpenAIServer(["x"]) as server:

        async def fall_back(name: str) -> None:
            server.answers_as = "fake"

        with pytest.raises(ModelError, match=r"the request was for adapter tuned-\w+, but fake answered"):
            await answers(server, adapter, fall_back)


@pytest.mark.anyio
async def test_a_base_model_may_answer_under_another_name() -> None:
    async with FakeOpenAIServer(["x"]) as server:
        server.answers_as = "fake-2026-01-01"
        assert (await identity_of(server)).adapter == ""


@pytest.mark.anyio
@pytest.mark.parametrize("url", ["ftp://x/v1", "localhost:8000/v1", "http://user:pw@127.0.0.1/v1"])
async def test_a_base_url_that_cannot_be_used_is_refused(url: str) -> None:
    async with FakeOpenAIServer(["x"]) as server:
        with pytest.raises(ConfigError, match=r"model\.base_url") as raised:
            await identity_of(server, base_url=url)
    assert "pw" not in str(raised.value)


@pytest.mark.anyio
async def test_an_endpoint_that_is_down_is_a_model_error() -> None:
    async with FakeOpenAIServer(["x"]) as server:
        pass
    with pytest.raises(ModelError, match=r"cannot connect: .*; start the server, or correct model\.base_url"):
        await identity_of(server)


def wordy(word: str) -> Any:
    return lambda messages: Message("assistant", word)


@pytest.mark.anyio
async def test_a_scripted_model_is_opened_by_its_factory() -> None:
    config = ModelConfig(provider="scripted", name=f"{__name__}:wordy", options={"word": "hm"})
    with anyio.fail_after(60):
        async with open_model(
            config, tool_format="native", log=Path("unused"), concurrency=1, say=lambda line: None
        ) as model:
            assert (await model.generate([], ())).message.content == "hm"
            assert model.identity == ModelIdentity("scripted", config.name)
