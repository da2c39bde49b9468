"""A proxy that is served on this machine, with replies that the test gives."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

from hermes_lab.config.schema import AgentConfig, PriceConfig
from hermes_lab.proxy import Proxy
from hermes_lab.proxy.conversations import Sorter
from hermes_lab.proxy.exchange import Answer, Request
from hermes_lab.proxy.upstream import Upstream
from hermes_lab.sandbox.network import listen_here
from hermes_lab.types import Generation, Message, ToolCall, Usage

KEY = "proxy-key"
TASK, REVIEW = "Do the task.", "Review it."
USAGE = Usage(10, 3)


@dataclass
class Given:
    """An upstream whose replies, or errors, are given; the last one is repeated."""

    replies: Sequence[Generation | Exception]
    delay: float = 0.0
    requests: list[Request] = field(default_factory=list)

    async def answer(self, request: Request) -> Answer:
        self.requests.append(request)
        await anyio.sleep(self.delay)
        reply = self.replies[min(len(self.requests), len(self.replies)) - 1]
        if isinstance(reply, Exception):
            raise reply
        return Answer(reply)


def said(content: str = "", *calls: ToolCall, ending: str = "", usage: Usage = USAGE) -> Generation:
    finish = ending or ("tool_calls" if calls else "stop")
    return Generation(Message(role="assistant", content=content, tool_calls=calls), finish, usage)


@asynccontextmanager
async def served(
    upstream: Upstream, price: PriceConfig | None = None, review_iterations: int = 16, **config: object
) -> AsyncIterator[tuple[Proxy, str]]:
    """The proxy and its address. Requests with TASK are the work, and what follows REVIEW is a review."""
    agent = AgentConfig.model_validate(config)
    async with Proxy(
        upstream,
        agent,
        price or PriceConfig(),
        key=KEY,
        models=["m"],
        sorter=Sorter([TASK], lambda text: text == REVIEW),
        review_iterations=review_iterations,
    ) as proxy:
        listener = listen_here(0)
        await proxy.serve(listener)
        yield proxy, f"http://127.0.0.1:{listener.getsockname()[1]}"
