"""`/reload-mcp`."""

from hermes_lab.commands.command import Command, CommandContext, Reply
from hermes_lab.errors import ConfigError


async def _run(context: CommandContext, arguments: str) -> Reply:
    if arguments:
        raise ConfigError("/reload-mcp takes no arguments")
    changed = await context.chat.reload_servers()
    served = context.chat.servers.served
    if not served and not changed:
        return Reply("no MCP server is connected; name servers in mcp.servers of config.yaml (docs/mcp.md)")
    lines = [f"{name}: {len(each.tools) - len(each.left_out)} tools" for name, each in served.items()]
    if changed:
        lines += [*changed, "this session keeps its list of tools; new ones are listed from the next one on (/new)"]
    return Reply("\n".join(lines))


COMMAND = Command(
    "reload-mcp",
    "Connect to the MCP servers again",
    "Tools and skills",
    _run,
    details="Reads `mcp` of config.yaml and of the -c options again, and connects to the servers that it names.",
)
