"""What a call of an MCP tool costs, beside the bare SDK in the same run: `python tests/benchmarks/bench_mcp.py`.

One stdio server answers CALLS calls, in turn by the SDK's session alone and through the toolbox: schema, time limit,
result, JSON. Milliseconds a call; the best round of each counts. The goal is 2 ms more than the SDK.
"""

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio
import mcp_types

sys.path.insert(0, str(Path(__file__).parents[1]))

from hermes_lab.config.mcp import McpConfig
from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.mcp.servers import open_servers
from hermes_lab.tools.registry import ToolContext
from hermes_lab.tools.toolbox import Toolbox
from hermes_lab.types import ToolCall

CALLS, ROUNDS = 300, 5
FAKE = Path(__file__).parents[1] / "fakes" / "mcp_server.py"
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def main(folder: Path) -> None:
    spec = folder / "spec.json"
    tool = {"name": "echo", "description": "Says it again.", "inputSchema": SCHEMA}
    spec.write_text(json.dumps({"name": "fake", "version": "1", "tools": [tool]}))
    server = {"command": sys.executable, "args": [str(FAKE), str(spec)], "scope": "run"}
    sandbox: Any = None
    best = {"sdk": 1e9, "toolbox": 1e9}
    async with (
        open_servers(McpConfig.model_validate({"servers": {"s": server}}), lambda extras: sandbox) as servers,
        servers.episode(sandbox) as here,
    ):
        toolbox = Toolbox((), ToolContext(sandbox, None, SandboxConfig()), given=here.tools)
        session = (await servers.connected("s"))._client.session
        for _ in range(ROUNDS):
            started = time.perf_counter()
            for n in range(CALLS):
                params = mcp_types.CallToolRequestParams(name="echo", arguments={"n": n})
                await session.send_request(mcp_types.CallToolRequest(params=params), mcp_types.CallToolResult)
            best["sdk"] = min(best["sdk"], time.perf_counter() - started)
            started = time.perf_counter()
            for n in range(CALLS):
                result = await toolbox.run(ToolCall("1", "s__echo", {"n": n}))
                assert result.ok
            best["toolbox"] = min(best["toolbox"], time.perf_counter() - started)
    sdk, ours = (1000 * best[name] / CALLS for name in ("sdk", "toolbox"))
    print(f"SDK {sdk:.2f} ms a call, through the toolbox {ours:.2f} ms: {ours - sdk:+.2f} ms, {ours / sdk:.2f} times")


with tempfile.TemporaryDirectory() as made:
    anyio.run(main, Path(made))
