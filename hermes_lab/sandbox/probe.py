"""Shows that this machine's sandbox isolates, before anything runs in it."""

import socket

from hermes_lab.config import SandboxConfig
from hermes_lab.errors import SandboxError
from hermes_lab.protocols import Sandbox
from hermes_lab.sandbox.bubblewrap import BubblewrapSandbox


async def probe(config: SandboxConfig | None = None) -> None:
    """Starts a sandbox and tries to get out of it; `SandboxError` where it cannot start, or does not hold."""
    async with BubblewrapSandbox(config or SandboxConfig()) as sandbox:
        ran = await sandbox.exec("true")
        if ran.exit_code != 0:
            raise SandboxError(f"sandbox: commands do not run: {ran.output.strip() or ran.exit_code}")
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            await _must_fail(sandbox, f"exec 9<>/dev/tcp/127.0.0.1/{port}", "the host's network is reachable")
        await _must_fail(sandbox, "cat /etc/shadow", "/etc/shadow is readable")
        await _must_fail(sandbox, "touch /usr/.hermes-lab", "the system is writable")


async def _must_fail(sandbox: Sandbox, command: str, meaning: str) -> None:
    if (await sandbox.exec(command)).exit_code == 0:
        raise SandboxError(f"sandbox: it does not isolate: {meaning}")
