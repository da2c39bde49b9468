"""Opens everything besides the models that rollouts need: the one place where a `RolloutContext` of a run is made."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from hermes_lab.activity import Activities
from hermes_lab.config.digest import config_digest
from hermes_lab.config.schema import RunConfig
from hermes_lab.harness.installed import Installed
from hermes_lab.harness.state import States
from hermes_lab.mcp.servers import open_servers
from hermes_lab.mcp.snapshot import tools_digest
from hermes_lab.models import open_auxiliary
from hermes_lab.models.weights import Say
from hermes_lab.protocols import ModelClient, Suite
from hermes_lab.rollout import RolloutContext
from hermes_lab.sandbox import open_sandboxes
from hermes_lab.suites import servers_of
from hermes_lab.verification import open_judge
from hermes_lab.web import open_web


@asynccontextmanager
async def open_contexts(
    config: RunConfig,
    suite: Suite,
    models: Sequence[ModelClient],
    *,
    say: Say,
    warn: Say,
    workspaces: Path | None = None,
    program: Installed | None = None,
    states: States | None = None,
    blobs: Path | None = None,
    activities: Activities | None = None,
) -> AsyncIterator[list[RolloutContext]]:
    """One context per model; they share the sandboxes, the web, the MCP servers, the auxiliary model and the judge.

    `say` reports what is being opened, `warn` the tools of servers that are left out. Files that MCP tools return are
    kept in `blobs`. Raises `ConfigError`, `ModelError`, `SandboxError` and `McpError` if one of them cannot be opened.
    """
    async with (
        open_auxiliary(config, say=say) as auxiliary,
        open_judge(config, say=say) as judge,
        open_sandboxes(config.sandbox) as open_sandbox,
        open_servers(servers_of(config.mcp, suite), open_sandbox, blobs) as servers,
    ):
        for warning in servers.warnings():
            warn(warning)
        digest, web = tools_digest(config_digest(config), servers.served), open_web(config.web)
        activities = activities or Activities()
        yield [
            RolloutContext(
                config,
                digest,
                suite,
                model,
                open_sandbox,
                web=web,
                auxiliary=auxiliary,
                judge=judge,
                workspaces=workspaces,
                program=program,
                states=states,
                servers=servers if servers.config.servers else None,
                activities=activities,
            )
            for model in models
        ]
