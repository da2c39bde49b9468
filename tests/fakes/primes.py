"""An endpoint whose model can write primes, and nothing else: what the README and the quickstart ask for."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fakes.openai_server import FakeOpenAIServer, Reply, function_call, running

_PRIMES = "printf '%s\\n' 2 3 5 7 11 13 17 19 23 29 > primes.txt"


@contextmanager
def primes_endpoint() -> Iterator[FakeOpenAIServer]:
    """Serves `my-model`."""
    with running(FakeOpenAIServer(_reply, models=["my-model"])) as server:
        yield server


def _reply(body: dict[str, Any]) -> str | Reply:
    last = body["messages"][-1]
    if last["role"] == "user" and "ten primes" in last["content"]:
        return Reply(tool_calls=[function_call("c", "terminal", {"command": _PRIMES})])
    return "Done."
