"""What the conformance suite of the protocol runs as a client: `conformance_client.py URL`, with the scenario in
$MCP_CONFORMANCE_SCENARIO. It lists the tools of the server and calls each once, as an agent would."""

import os
import sys
from typing import Any

import anyio

from hermes_lab.config.mcp import McpConfig
from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.mcp.servers import open_servers
from hermes_lab.tools.registry import ToolContext
from hermes_lab.tools.toolbox import Toolbox
from hermes_lab.types import ToolCall

ARGUMENTS: dict[str, dict[str, Any]] = {"tested__add_numbers": {"a": 5, "b": 3}}


async def main(url: str) -> None:
    config = McpConfig.model_validate({"servers": {"tested": {"url": url}}})
    sandbox: Any = None
    async with open_servers(config, lambda extras: sandbox) as servers, servers.episode(sandbox) as here:
        toolbox = Toolbox((), ToolContext(sandbox, None, SandboxConfig()), given=here.tools)
        for schema in toolbox.schemas:
            name = schema["function"]["name"]
            result = await toolbox.run(ToolCall("1", name, ARGUMENTS.get(name, {})))
            print(os.environ.get("MCP_CONFORMANCE_SCENARIO"), name, result.content, file=sys.stderr)


anyio.run(main, sys.argv[-1])
