"""vLLM's sleep mode: a server gives the GPU's memory to a training, and takes it back.

The endpoints exist on a server that runs with `--enable-sleep-mode` and `VLLM_SERVER_DEV_MODE=1`. Asleep, the weights
are in the machine's memory and the key-value cache is gone; a request would fail.
"""

import json

from hermes_lab.errors import ConfigError, ModelError
from hermes_lab.models.endpoint import Endpoint
from hermes_lab.models.refusals import Refused

SLEEP_OPTIONS = ("--enable-sleep-mode",)
SLEEP_ENVIRONMENT = {"VLLM_SERVER_DEV_MODE": "1"}

_SECONDS = 300.0
"""Moving the weights of a large model takes a while."""


async def sleep(base_url: str) -> None:
    """Puts the server at `base_url` (`.../v1`) to sleep, after its running requests.

    Raises `ConfigError` if it has no sleep mode, and `ModelError` if it does not fall asleep.
    """
    await _turn(base_url, "/sleep?level=1&mode=wait", asleep=True)


async def wake(base_url: str) -> None:
    """Wakes the server at `base_url`; nothing if it is awake. Raises as `sleep` does."""
    async with _root(base_url) as endpoint:
        if not await _is_asleep(endpoint):
            return
    await _turn(base_url, "/wake_up", asleep=False)


async def _turn(base_url: str, path: str, *, asleep: bool) -> None:
    async with _root(base_url) as endpoint:
        try:
            await endpoint.post(path, {})
        except Refused as error:
            raise _no_sleep_mode(endpoint, error) from None
        if await _is_asleep(endpoint) == asleep:
            return
    raise ModelError(f"{base_url}: after {path.partition('?')[0]} the server is {'awake' if asleep else 'asleep'}")


async def _is_asleep(endpoint: Endpoint) -> bool:
    try:
        content, _ = await endpoint.get("/is_sleeping")
    except Refused as error:
        raise _no_sleep_mode(endpoint, error) from None
    try:
        return bool(json.loads(content)["is_sleeping"])
    except (ValueError, KeyError, TypeError):
        raise ModelError(f"{endpoint.base_url}/is_sleeping: not an answer of vLLM: {content[:80]!r}") from None


def _root(base_url: str) -> Endpoint:
    return Endpoint(base_url.rstrip("/").removesuffix("/v1"), timeout=_SECONDS)


def _no_sleep_mode(endpoint: Endpoint, error: Refused) -> ConfigError:
    return ConfigError(
        f"{endpoint.base_url}: the server cannot sleep ({error}); start vLLM with VLLM_SERVER_DEV_MODE=1 and "
        "--enable-sleep-mode, or let the training start it"
    )
