"""Requests one completion of the served model."""

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from hermes_lab.tools.registry import ToolContext, tool

_SECONDS = 60.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@tool(toolset="rl")
async def rl_test_inference(
    ctx: ToolContext,
    prompt: Annotated[str, Field(min_length=1, max_length=8_000)],
    adapter: str = "",
    max_tokens: Annotated[int, Field(ge=1, le=512)] = 128,
) -> dict[str, Any]:
    """Request one completion from the model served at the locked address, to check that it answers.

    Args:
        prompt: What to ask.
        adapter: Name of an adapter that is loaded there; if empty, the base model answers.
        max_tokens: Maximum tokens of the reply.
    """
    import anyio.to_thread

    from hermes_lab.config.schema import ModelConfig, SamplingConfig
    from hermes_lab.errors import ModelError, ToolError
    from hermes_lab.models.build import open_model
    from hermes_lab.models.weights import silent
    from hermes_lab.training.choices import Choice
    from hermes_lab.training.tools.answers import told
    from hermes_lab.types import Message

    with told():
        _, locked = await anyio.to_thread.run_sync(ctx.state(Choice).locked)
        served = await anyio.to_thread.run_sync(_served_name, adapter) if adapter else ""
        config = ModelConfig(
            provider="openai",
            name=locked.base_model,
            base_url=locked.rollout_server_url,
            adapter=served,
            max_retries=0,
            timeout=_SECONDS,
            sampling=SamplingConfig(max_tokens=max_tokens),
        )
        opening = open_model(config, tool_format="hermes", log=Path("unused"), concurrency=1, say=silent)
        try:
            async with opening as model:
                reply = await model.generate([Message(role="user", content=prompt)], ())
        except ModelError as error:
            raise ToolError(f"{error}; a person serves the model there with `hermes-lab serve`") from None
        return {
            "server": locked.rollout_server_url,
            "model": locked.base_model,
            "adapter": served,
            "adapter_digest": model.identity.adapter_digest,
            "reply": reply.message.content,
            "finish_reason": reply.finish_reason,
            "prompt_tokens": reply.usage.prompt_tokens,
            "completion_tokens": reply.usage.completion_tokens,
        }


def _served_name(adapter: str) -> str:
    """The served name of an adapter. Raises `ConfigError` for a folder, which only a person may load."""
    from hermes_lab.errors import ConfigError
    from hermes_lab.models.adapters import PACKAGED, identify, packaged_folder
    from hermes_lab.models.cards import has_card
    from hermes_lab.training.choices import RUNS
    from hermes_lab.training.status import list_trainings

    if not _NAME.fullmatch(adapter) or Path(adapter).is_dir():
        raise ConfigError(
            f"adapter: {adapter[:80]!r} is not a name; a person can load a folder: `hermes-lab adapters load`"
        )
    if adapter == PACKAGED:
        return identify(packaged_folder())[1].name
    folder = next((path for path in reversed(list_trainings(RUNS)) if path.name == adapter and has_card(path)), None)
    return identify(folder)[1].name if folder else adapter
