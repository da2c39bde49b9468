"""A real sandbox behind the tools."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.sandbox import open_sandbox
from hermes_lab.tools.registry import ToolContext
from hermes_lab.tools.toolbox import Toolbox
from hermes_lab.types import ToolCall

Use = Callable[..., Awaitable[dict[str, Any]]]


@pytest.fixture
async def context() -> AsyncIterator[ToolContext]:
    config = SandboxConfig(output_chars=2_000)
    async with open_sandbox(config) as sandbox:
        yield ToolContext(sandbox, None, config)


@pytest.fixture
def use(context: ToolContext, request: pytest.FixtureRequest) -> Use:
    """Calls a tool of `core` and returns its result. For other toolsets:
    `@pytest.mark.parametrize("use", [("words",)], indirect=True)`."""
    toolbox = Toolbox(getattr(request, "param", ("core",)), context)

    async def use(tool: str, /, **arguments: Any) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads((await toolbox.run(ToolCall("c1", tool, arguments))).content)
        return answer

    return use
