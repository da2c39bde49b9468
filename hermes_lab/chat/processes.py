"""The processes of a chat's sandbox, which outlive a turn unless the turn is stopped."""

import os
import signal
from collections.abc import Collection
from contextlib import suppress

import anyio

from hermes_lab.errors import SandboxError
from hermes_lab.protocols import Sandbox
from hermes_lab.sandbox.local import LocalSandbox

_PASSES = 200
_PROCESSES = "echo /proc/[0-9]*"
_END_OTHERS = """\
for entry in /proc/[0-9]*; do
  case " {known} /proc/1 /proc/$BASHPID " in *" $entry "*) ;; *) kill -KILL "${{entry#/proc/}}" 2>/dev/null ;; esac
done
true"""


async def processes_in(sandbox: Sandbox) -> frozenset[str]:
    """The sandbox's running processes."""
    if isinstance(sandbox, LocalSandbox):
        return frozenset(map(str, sandbox.processes()))
    return frozenset((await sandbox.exec(_PROCESSES, fresh=True)).output.split())


async def end_others(sandbox: Sandbox, before: Collection[str]) -> None:
    """Kills all processes but those of `before`; cancellation has already killed foreground commands."""
    if isinstance(sandbox, LocalSandbox):  # not isolated: /proc lists all processes of the machine
        for _ in range(_PASSES):  # repeated, since they may fork meanwhile
            if not (new := [pid for pid in sandbox.processes() if str(pid) not in before]):
                return
            for pid in new:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            await anyio.sleep(0.002)
        return
    with suppress(SandboxError):  # the sandbox died, and its processes with it
        await sandbox.exec(_END_OTHERS.format(known=" ".join(before)), fresh=True)
