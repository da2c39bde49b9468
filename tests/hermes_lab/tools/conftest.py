"""A real sandbox behind the tools."""

from collections.abc import AsyncIterator

import pytest

from hermes_lab.config import SandboxConfig
from hermes_lab.sandbox import open_sandbox
from hermes_lab.tools.registry import ToolContext


@pytest.fixture
async def context() -> AsyncIterator[ToolContext]:
    config = SandboxConfig(output_chars=2_000)
    async with open_sandbox(config) as sandbox:
        yield ToolContext(sandbox, None, config)
