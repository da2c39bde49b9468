"""Requests as endpoints want them: fields, headers, keys, addresses, proxies."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from fakes.openai_server import FakeOpenAIServer, Reply

from hermes_lab.config.digest import config_digest
from hermes_lab.config.schema import ModelConfig, RunConfig
from hermes_lab.config.sources import load_config
from hermes_lab.errors import ConfigError, ModelError
from hermes_lab.models import endpoint
from hermes_lab.models.client import EndpointClient, read_keys
from hermes_lab.models.endpoint import proxy_for
from hermes_lab.models.remote import open_endpoints
from hermes_lab.types import Message

ASK = [Message("user", "Go.")]


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_FIRST_WAIT", 0.001)


@asynccontextmanager
async def client_of(base_url: str, **config: Any) -> AsyncIterator[EndpointClient]:
    made = ModelConfig.model_validate({"name": "fake", "base_url": base_url, **config})
    async with open_endpoints(made, [""], tool_format="native", concurrency=4) as (client,):
        assert isinstance(client, EndpointClient)
        yield client


async def sent_with(**config: Any) -> dict[str, Any]:
    async with FakeOpenAIServer(["x"]) as server, client_of(server.base_url, **config) as client:
        await client.generate(ASK, ())
    return server.requests[0]


@pytest.mark.anyio
async def test_a_sampling_field_that_is_null_is_not_sent() -> None:
    sent = await sent_with(sampling={"temperature": None, "top_p": None, "max_tokens": None})
    assert sent.keys() == {"model", "messages"}


@pytest.mark.anyio
async def test_every_sampling_field_and_any_other_reaches_the_endpoint() -> None:
    sampling = {
        **{"temperature": 0.5, "top_p": 0.9, "max_tokens": 7, "top_k": 20, "min_p": 0.1, "seed": 3},
        **{"stop": ["END"], "presence_penalty": 1.5, "frequency_penalty": -1.0},
    }
    extra = {"chat_template_kwargs": {"enable_thinking": False}, "model": "never"}
    sent = await sent_with(sampling=sampling, extra_body=extra)
    assert sent == sampling | {
        "model": "fake",
        "messages": sent["messages"],
        "chat_template_kwargs": {"enable_thinking": False},
    }


def test_what_reaches_the_endpoint_counts_for_the_digest_and_nothing_else_does() -> None:
    plain = config_digest(RunConfig())
    for decisive in (
        "sampling.top_k=5",
        "sampling.stop=[x]",
        "extra_body={a: 1}",
        "headers={x-b: c}",
        "sampling.seed=1",
    ):
        assert config_digest(load_config([f"model.{decisive}"])) != plain, decisive
    for other in ("stream=true", "limit_field=max_completion_tokens", "base_url=http://h/v1", "api_key_env=X"):
        assert config_digest(load_config([f"model.{other}"])) == plain, other
    assert config_digest(load_config(["auxiliary.name=cheap"])) != plain


def test_digests_of_runs_that_exist_stay_what_they_were() -> None:
    assert config_digest(RunConfig()) == "938601642581f1a75cc84fed46f786a0a76b023988c186e7458d8cff4da52aaf"
    heldout = config_digest(load_config(["configs/heldout.yaml", "model.adapter=packaged"]))
    assert heldout == "933ab90f5eca56917b079d8d3277938bf4cf40beadb975e94a95e7e3b90823b6"


@pytest.mark.anyio
async def test_headers_are_sent_and_a_value_of_the_environment_is_never_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_KEY", "s3cret")
    headers = {"api-key": "${AZURE_KEY}", "X-Title": "lab"}
    answers = [Reply(status=400, body={"error": {"message": "s3cret is no key"}})]
    async with (
        FakeOpenAIServer(answers) as server,
        client_of(server.base_url, headers=headers, api_key_env="") as client,
    ):
        with pytest.raises(ModelError, match=r"HTTP 400: \*\*\* is no key") as raised:
            await client.generate(ASK, ())
    sent = server.headers[-1]
    assert (sent["api-key"], sent["X-Title"], "Authorization" in sent) == ("s3cret", "lab", False)
    assert "s3cret" not in str(raised.value)


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["authorization", "AUTHORIZATION", "Authorization"])
async def test_a_configured_header_takes_the_place_of_the_own_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "s3cret")
    async with (
        FakeOpenAIServer(["x"]) as server,
        client_of(server.base_url, headers={name: "Basic x"}, api_key_env="SOME_KEY") as client,
    ):
        await client.generate(ASK, ())
    sent = [value for sent, value in server.headers[-1].items() if sent.lower() == "authorization"]
    assert sent == ["Basic x"]


@pytest.mark.anyio
async def test_a_header_of_an_unset_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH", raising=False)
    with pytest.raises(ConfigError, match=r"model\.headers: set NO_SUCH"):
        async with client_of("http://127.0.0.1:9/v1", headers={"x": "${NO_SUCH}"}):
            pass


def test_each_server_of_a_list_may_have_a_key_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_A", "a")
    monkeypatch.setenv("KEY_B", "b")
    two = "http://a/v1,http://b/v1"
    assert read_keys(ModelConfig(base_url=two, api_key_env="KEY_A, KEY_B")) == ["a", "b"]
    assert read_keys(ModelConfig(base_url=two, api_key_env="KEY_A")) == ["a", "a"]
    with pytest.raises(ConfigError, match="3 variables for 2 servers"):
        read_keys(ModelConfig(base_url=two, api_key_env="A,B,C"))


def test_a_providers_own_key_is_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "o")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a")
    assert read_keys(ModelConfig()) == ["o"]
    assert read_keys(ModelConfig(provider="anthropic")) == ["a"]
    assert read_keys(ModelConfig(api_key_env="")) == [""]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://host/v1/chat/completions", "remove '/chat/completions'"),
        ("http://host/v1?api_key=secret", "its query contains 'api_key'"),
        ("http://me:pw@host/v1", "must not contain a user or password"),
    ],
)
async def test_an_address_that_cannot_be_meant_is_told(url: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        async with client_of(url):
            pass


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("https://api.example.com/v1", "http://proxy:3128"),
        ("http://api.example.com/v1", "http://plain:3128"),
        ("https://inside.corp/v1", None),
        ("http://127.0.0.1:8000/v1", None),
        ("http://localhost:8000/v1", None),
        ("http://[::1]:8000/v1", None),
        ("http://0.0.0.0:8000/v1", None),
        ("http://gpu.example:8000/v1", None),
        ("http://gpu.example:8001/v1", "http://plain:3128"),
        ("http://10.1.2.3:8000/v1", None),
        ("http://11.1.2.3:8000/v1", "http://plain:3128"),
    ],
)
def test_proxies_are_those_of_the_environment(monkeypatch: pytest.MonkeyPatch, url: str, proxy: str | None) -> None:
    proxies = {"HTTPS_PROXY": "http://proxy:3128", "HTTP_PROXY": "plain:3128"}
    for name, value in (proxies | {"NO_PROXY": ".corp,gpu.example:8000,10.0.0.0/8"}).items():
        monkeypatch.setenv(name, value)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.delenv("REQUEST_METHOD", raising=False)
    assert proxy_for(url) == proxy


def test_a_proxy_of_another_kind_is_refused_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "socks5://me:pw@proxy:1080")
    with pytest.raises(ConfigError, match="socks5://proxy:1080") as raised:
        proxy_for("https://api.example.com/v1")
    assert "pw" not in str(raised.value)


@pytest.mark.anyio
async def test_requests_go_through_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def proxy(request: web.BaseRequest) -> web.Response:
        asked.append(str(request.url))
        if request.method == "GET":
            return web.json_response({"data": [{"id": "fake"}]})
        return web.json_response({"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]})

    runner = web.ServerRunner(web.Server(proxy))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    monkeypatch.setenv("http_proxy", f"http://{host}:{port}")
    try:
        async with client_of("http://model.invalid/v1") as client:
            await client.generate(ASK, ())
    finally:
        await runner.cleanup()
    assert asked == ["http://model.invalid/v1/models", "http://model.invalid/v1/chat/completions"]


@pytest.mark.anyio
async def test_a_missing_v1_is_recognised() -> None:
    async with FakeOpenAIServer(["x"]) as server:
        root = server.base_url.removesuffix("/v1")
        with pytest.raises(ConfigError, match=rf"set model\.base_url={server.base_url}$"):
            async with client_of(root):
                pass
