"""Checks that the sandbox runs commands and isolates them, before it is used."""

import socket

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import SandboxError
from hermes_lab.protocols import Sandbox
from hermes_lab.sandbox.backends import open_sandbox, unkept
from hermes_lab.types import Root


async def probe(config: SandboxConfig | None = None, root: Root | None = None) -> None:
    """Starts a sandbox of the configured backend and tries to escape; for `local` only that commands run.

    `root`: that of a task. Raises `SandboxError` if it does not start or isolate, `ConfigError` if it is not allowed.
    """
    config = config or SandboxConfig()
    async with open_sandbox(config, root=root) as sandbox:
        ran = await sandbox.exec("true")
        if ran.exit_code != 0:
            raise SandboxError(f"sandbox: commands do not run: {ran.output.strip() or ran.exit_code}")
        if config.isolates:
            # In a container the worker's user is that of the commands, and all files are the image's.
            in_container = "verifier" in unkept(config)
            await _must_isolate(sandbox, files=not in_container)
            if root is None and not in_container:
                await _must_fail(sandbox, "touch /usr/.hermes-lab", "the system is writable")


async def _must_isolate(sandbox: Sandbox, *, files: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        await _must_fail(sandbox, f"exec 9<>/dev/tcp/127.0.0.1/{port}", "the host's network is reachable")
    if not files:
        return
    await _must_fail(sandbox, "cat /etc/shadow", "/etc/shadow is readable")
    await _must_fail(sandbox, "cat /proc/1/environ >/dev/null", "process 1 is open to commands")


async def _must_fail(sandbox: Sandbox, command: str, meaning: str) -> None:
    if (await sandbox.exec(command)).exit_code == 0:
        raise SandboxError(f"sandbox: it does not isolate: {meaning}")
