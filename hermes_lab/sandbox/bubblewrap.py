"""A sandbox on bubblewrap: namespaces, a read-only system, one writable workspace, no network."""

import os
import signal
from collections.abc import Sequence
from contextlib import suppress

from hermes_lab.sandbox import launch
from hermes_lab.sandbox.descendants import children, descendants
from hermes_lab.sandbox.piped import PipedSandbox, gone
from hermes_lab.sandbox.spawn import Piped

_SCRATCH: tuple[str, ...] = ("tmp", "dev/shm")


class BubblewrapSandbox(PipedSandbox):
    """One bwrap for a whole episode; a warm shell in it is process 1 of a namespace of its own."""

    def process_1(self) -> int | None:
        """bwrap has no other child."""
        found = children(self._piped.pid) if self._piped else []
        return found[0] if found else None

    def processes(self) -> Sequence[int]:
        """See `WarmSandbox.processes`."""
        pid = self.process_1()
        return descendants(pid) if pid else ()

    def scratch_bytes(self) -> int:
        """See `WarmSandbox.scratch_bytes`."""
        total = 0
        if (pid := self.process_1()) is not None:
            for name in _SCRATCH:
                with suppress(OSError):
                    status = os.statvfs(f"/proc/{pid}/root/{name}")
                    total += (status.f_blocks - status.f_bfree) * status.f_frsize
        return total

    def _launch(self) -> Piped:
        return launch.start(self.folders, self.config)

    async def _kill(self, started: Piped) -> None:
        """With process 1 the kernel kills every process of its namespace, and only then bwrap sees it end."""
        await self._signal(signal.SIGKILL)
        if not self._said:  # bwrap may not have come as far as process 1
            os.kill(started.pid, signal.SIGKILL)
        await gone(started.pid)
