"""Summaries of what a search from the command line found."""

import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from hermes_lab.agent.compress import summary_in
from hermes_lab.config.schema import RunConfig
from hermes_lab.errors import ModelError
from hermes_lab.models import open_auxiliary, open_model
from hermes_lab.protocols import ModelClient
from hermes_lab.runners import output
from hermes_lab.sessions import Hit, SessionStore
from hermes_lab.sessions.summary import Summary, summarise
from hermes_lab.types import Message


async def summarise_hits(config: RunConfig, store: SessionStore, query: str, hits: Sequence[Hit]) -> Summary:
    """Summarises the hits with `auxiliary`, or else with `model`. A model that cannot be reached is part of the result.

    Raises `ConfigError` for one that is not configured correctly.
    """
    try:
        async with AsyncExitStack() as opened:
            model = await _open(config, opened)

            async def ask(request: Sequence[Message]) -> str:
                return summary_in(await model.generate(request, ()))

            return await summarise(ask, store, query, hits)
    except ModelError as error:
        return Summary(failure=" ".join(str(error).split()))


async def _open(config: RunConfig, opened: AsyncExitStack) -> ModelClient:
    if auxiliary := await opened.enter_async_context(open_auxiliary(config, say=output.say)):
        return auxiliary
    log = Path(os.devnull)
    model = open_model(config.model, tool_format="native", log=log, concurrency=1, say=output.say)
    return await opened.enter_async_context(model)
