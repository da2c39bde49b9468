"""Models behind HTTP: an existing endpoint, or a vLLM server started for the duration of a run."""

import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import anyio.to_thread

from hermes_lab.config.schema import ModelConfig
from hermes_lab.errors import ConfigError, ModelError
from hermes_lab.models.adapters import (
    Adapter,
    StillServed,
    adapter_digest,
    adapter_folder,
    check_folders,
    identify,
    list_models,
    load_adapter,
    served_models,
)
from hermes_lab.models.advice import version_of
from hermes_lab.models.cards import check_card
from hermes_lab.models.client import EndpointClient, open_endpoint, read_keys
from hermes_lab.models.endpoint import Endpoint
from hermes_lab.models.fleet import Server, open_fleet
from hermes_lab.models.lora_files import check_lora, max_rank
from hermes_lab.models.model_list import ModelList, NoModelList, read_model_list, shown
from hermes_lab.models.refusals import Refused, Unreachable
from hermes_lab.models.server import VllmServer
from hermes_lab.models.weights import Say, merged, resolve, silent
from hermes_lab.protocols import ModelClient
from hermes_lab.types import Message, ModelIdentity
from hermes_lab.types.trajectory import ToolFormat

_SECRET = re.compile(r"(?:.*[_-])?(?:key|apikey|token|sig|signature|secret|password)", re.IGNORECASE)
_TRIED_TOKENS = 16
_NO_SUCH_MODEL = re.compile(
    r"(?:invalid|unknown|unsupported|no such|not a valid|access to).{0,20}(?<!this )\b(?:model|deployment)\b(?!\.)"
    r"|(?<!this )\b(?:model|deployment)\b(?!\.).{0,80}(?:\bnot\b|n't|invalid|unknown|access)",
    re.IGNORECASE,
)
"""Matches refusals of a model name whose status is not 404."""
_WHOLE_PATH = re.compile(r"/(?:chat/completions|completions|messages|responses|models)/?$")


@asynccontextmanager
async def open_endpoints(
    config: ModelConfig,
    adapters: Sequence[str],
    *,
    tool_format: ToolFormat,
    concurrency: int,
    say: Say = silent,
    known: Sequence[ModelIdentity] = (),
) -> AsyncIterator[Sequence[ModelClient]]:
    """Opens one model per adapter at an endpoint run by somebody else, or at several with the same weights.

    `known` are the identities from a process that already opened them: if an adapter's folder is not on this machine,
    the adapter is looked up by the name in its identity.
    """
    for url in (urls := config.servers):
        _check_url(url)
    if len(set(urls)) < len(urls):
        raise ConfigError("model.base_url: the same server is listed twice")
    keys = read_keys(config)
    if len(urls) == 1:
        endpoint = open_endpoint(config, urls[0], connections=concurrency, key=keys[0])
        async with _clients(config, adapters, endpoint, tool_format, known, say) as clients:
            yield clients
        return
    # One try each: on failure, the next server is a better choice than a retry.
    each = config.model_copy(update={"max_retries": 0})
    async with AsyncExitStack() as stack:
        servers = []
        for url, key in zip(urls, keys, strict=True):
            endpoint = open_endpoint(each, url, connections=concurrency, key=key)
            await stack.enter_async_context(endpoint)
            find = partial(_find, each, adapters, endpoint, tool_format, known, say)
            servers.append(Server(endpoint.base_url, find))
        yield await stack.enter_async_context(open_fleet(servers, config.max_retries, say))


@asynccontextmanager
async def open_vllm(
    config: ModelConfig, adapters: Sequence[str], *, tool_format: ToolFormat, log: Path, concurrency: int, say: Say
) -> AsyncIterator[Sequence[EndpointClient]]:
    """Starts a vLLM server and yields a client per adapter; weights are downloaded if needed.

    Adapters are merged into the weights only if there is exactly one: the server holds a single set of weights.
    """
    check_folders(config, adapters)
    weights = await anyio.to_thread.run_sync(resolve, config.name, say)
    merge = config.merge and any(adapters)
    adapter, name = Adapter("", ""), config.name
    if merge:
        (only,) = adapters
        folder, adapter = await anyio.to_thread.run_sync(_identify_folder, only, weights)
        weights, name = await anyio.to_thread.run_sync(merged, weights, folder, adapter.digest, say), adapter.name
    rank = 1 if merge else await anyio.to_thread.run_sync(_largest_rank, adapters)
    starting = VllmServer(weights, config.server, name=name, log=log, say=say, rank=rank)
    async with starting as server, server.watched():
        endpoint = open_endpoint(config, server.base_url, connections=concurrency)
        if merge:  # the merged weights are served under the adapter's name
            identity = ModelIdentity(config.provider, config.name, endpoint.base_url, *adapter)
            async with endpoint:
                yield [EndpointClient(config, endpoint=endpoint, identity=identity, tool_format=tool_format)]
            return
        async with _clients(config, adapters, endpoint, tool_format) as clients:
            yield clients


@asynccontextmanager
async def open_served(
    config: ModelConfig, identities: Sequence[ModelIdentity], *, tool_format: ToolFormat, concurrency: int
) -> AsyncIterator[Sequence[EndpointClient]]:
    """Connects to the weights served by a vLLM of another process on this machine."""
    endpoint = open_endpoint(config, identities[0].base_url, connections=concurrency)
    async with endpoint:
        served = await served_models(endpoint)
        checks = [StillServed(endpoint, each.adapter, served.get(each.adapter, "")) for each in identities]
        yield [
            EndpointClient(
                config,
                endpoint=endpoint,
                identity=identity,
                tool_format=tool_format,
                still_served=check if identity.adapter else None,
            )
            for identity, check in zip(identities, checks, strict=True)
        ]


@asynccontextmanager
async def _clients(
    config: ModelConfig,
    adapters: Sequence[str],
    endpoint: Endpoint,
    tool_format: ToolFormat,
    known: Sequence[ModelIdentity] = (),
    say: Say = silent,
) -> AsyncIterator[Sequence[EndpointClient]]:
    async with endpoint:
        yield await _find(config, adapters, endpoint, tool_format, known, say)


async def _find(
    config: ModelConfig,
    adapters: Sequence[str],
    endpoint: Endpoint,
    tool_format: ToolFormat,
    known: Sequence[ModelIdentity],
    say: Say,
) -> Sequence[EndpointClient]:
    """Checks that the model is served, as far as the endpoint reports it, and loads or finds the adapters."""
    listed = await _listed(config, endpoint, say)
    served = listed.models if listed else None
    if listed and not listed.may_serve(config.name):
        await _try_name(config, endpoint, listed)
    if listed:
        _check_context(config, endpoint, listed)
    if listed and config.name not in listed.models:
        say(f"{endpoint.base_url} lists {shown(listed.models)}, but not {config.name!r}; using it anyway")
    found = [
        await _adapter(name, endpoint, served, known[n] if known else None) if name else Adapter("", "")
        for n, name in enumerate(adapters)
    ]
    served = await served_models(endpoint) if any(adapters) else {}
    checks = [StillServed(endpoint, adapter.name, served.get(adapter.name, "")) for adapter in found]
    return [
        EndpointClient(
            config,
            endpoint=endpoint,
            identity=ModelIdentity(config.provider, config.name, endpoint.base_url, *adapter),
            tool_format=tool_format,
            still_served=check if adapter.name else None,
        )
        for adapter, check in zip(found, checks, strict=True)
    ]


async def _listed(config: ModelConfig, endpoint: Endpoint, say: Say) -> ModelList | None:
    """The endpoint's model list; None if it has none. Raises `ConfigError` if the address is wrong."""
    try:
        return await list_models(endpoint)
    except Refused as error:
        if error.status == 401:
            unset = [name for name in config.key_variable.split(",") if not os.environ.get(name.strip())]
            what = f"{' and '.join(unset)} is not set" if unset else f"the key in {config.key_variable!r} is refused"
            raise ConfigError(f"model.api_key_env: {what}: {error}") from None
        unclear: ModelError = error
    except NoModelList as error:
        unclear = error
    except Unreachable as error:
        raise Unreachable(f"{error}; start the server, or correct model.base_url") from None
    if not version_of(endpoint.base_url) and await _answers_below(endpoint, "/v1"):
        raise ConfigError(
            f"model.base_url: {endpoint.base_url} is not an API, but {endpoint.base_url}/v1 is: "
            f"set model.base_url={endpoint.base_url}/v1"
        )
    say(f"continuing without a list of models: {unclear}")
    return None


def _check_context(config: ModelConfig, endpoint: Endpoint, listed: ModelList) -> None:
    """Raises `ConfigError` if the server would refuse every prompt, as the reply's limit takes the whole context."""
    limit, context = config.sampling.max_tokens, listed.contexts.get(config.name)
    if limit is not None and context is not None and limit >= context:
        raise ConfigError(
            f"model.sampling.max_tokens: {limit} leaves no room for a prompt in the context of {context} tokens that "
            f"{endpoint.base_url} serves {config.name} with; set a lower one, or start the server with a larger "
            "context (model.server.max_model_len for `hermes-lab serve`)"
        )


async def _try_name(config: ModelConfig, endpoint: Endpoint, listed: ModelList) -> None:
    """Sends a tiny request to a model that is not listed. Raises `ConfigError` if the endpoint refuses the name.

    Lists lack deployments (Azure), aliases (Anthropic) and routes (LiteLLM).
    """
    short = config.model_copy(update={"sampling": config.sampling.model_copy(update={"max_tokens": _TRIED_TOKENS})})
    identity = ModelIdentity(config.provider, config.name, endpoint.base_url, "", "")
    client = EndpointClient(short, endpoint=endpoint, identity=identity, tool_format="native")
    try:
        await client.generate([Message(role="user", content="Say hello.")], ())
    except ModelError as error:
        if isinstance(error, Refused) and (error.status == 404 or _NO_SUCH_MODEL.search(str(error))):
            raise ConfigError(
                f"model.name: {endpoint.base_url} serves {shown(listed.models)}, not {config.name!r}: {error}"
            ) from None


async def _answers_below(endpoint: Endpoint, path: str) -> bool:
    """Whether a path of the endpoint has a model list, even one that requires a key."""
    try:
        read_model_list((await endpoint.get(f"{path}/models")).content)
    except Refused as error:
        return error.status in (401, 403)
    except ModelError:
        return False
    return True


async def _adapter(
    name: str, endpoint: Endpoint, served: Mapping[str, str] | None, known: ModelIdentity | None
) -> Adapter:
    if folder := await anyio.to_thread.run_sync(adapter_folder, name):
        return await load_adapter(endpoint, folder)
    name = known.adapter if known else name
    if served is None or name not in served:
        listed = f"{endpoint.base_url} serves {shown(served or ())}"
        raise ConfigError(f"model.adapter: {name!r} is neither a folder nor served: {listed}")
    if known:
        return Adapter(name, known.adapter_digest)
    return Adapter(name, await anyio.to_thread.run_sync(_known_digest, name, Path(served[name])))


def _check_url(base_url: str) -> None:
    try:
        parts = urlsplit(base_url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        (parts.hostname or "").encode("idna")
    except ValueError:  # invalid brackets, port or host
        sound = False
    if not sound:
        raise ConfigError(
            f"model.base_url: {base_url!r} is not an http:// or https:// URL such as http://127.0.0.1:8000/v1"
        )
    if "@" in parts.netloc:
        raise ConfigError("model.base_url: it must not contain a user or password; use model.api_key_env instead")
    if secret := next((name for name, _ in parse_qsl(parts.query) if _SECRET.fullmatch(name)), ""):
        raise ConfigError(
            f"model.base_url: its query contains {secret!r}; use model.api_key_env or model.headers instead"
        )
    if found := _WHOLE_PATH.search(parts.path):
        raise ConfigError(f"model.base_url: remove {found.group()!r}, which is added automatically")


def _identify_folder(name: str, base: Path) -> tuple[Path, Adapter]:
    return identify(adapter_folder(name) or Path(name), base)


def _largest_rank(adapters: Sequence[str]) -> int:
    """The largest rank among the adapters in folders. Raises `ConfigError` if one of these is no adapter."""
    folders = [folder for name in adapters if name and (folder := adapter_folder(name))]
    return max((max_rank(identify(folder)[0]) for folder in folders), default=1)


def _known_digest(name: str, folder: Path) -> str:
    """The digest of a served adapter, if the folder it came from still matches its name.

    Raises `ConfigError` if the adapter does not match its card.
    """
    try:
        digest = adapter_digest(folder)
    except ConfigError:
        return ""
    if not name.endswith(f"-{digest[:12]}"):
        return ""
    check_card(folder, digest)
    check_lora(folder)
    return digest
