"""The bubblewrap backend: namespaces, a read-only system, one writable workspace, no network."""

import os
import signal
from collections.abc import Sequence
from contextlib import suppress

from hermes_lab.errors import SandboxError
from hermes_lab.sandbox import launch
from hermes_lab.sandbox.descendants import children, descendants
from hermes_lab.sandbox.folders import EpisodeFolders, open_root
from hermes_lab.sandbox.piped import PipedSandbox, gone
from hermes_lab.sandbox.spawn import Piped

_SCRATCH: tuple[str, ...] = ("tmp", "dev/shm")


class BubblewrapSandbox(PipedSandbox):
    """One bwrap for a whole episode; a warm shell in it is process 1 of its own pid namespace."""

    def process_1(self) -> int | None:
        """The only child of bwrap."""
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
                if self.root is not None and self.root.workdir == f"/{name}":
                    continue  # it is the workspace, on a disk
                with suppress(OSError):
                    status = os.statvfs(f"/proc/{pid}/root/{name}")
                    total += (status.f_blocks - status.f_bfree) * status.f_frsize
        return total

    def _launch(self) -> Piped:
        return launch.start(self.folders, self.config, self.extras, self.root)

    def _network_of(self) -> int:
        if (pid := self.process_1()) is None:
            raise SandboxError("sandbox: it was killed")
        return pid

    def _open_folders(self) -> EpisodeFolders:
        folders = super()._open_folders()
        return folders if self.root is None else folders._replace(root=open_root(self.owner))

    async def _kill(self, started: Piped) -> None:
        """Kills process 1, and thereby every process of its namespace; bwrap exits afterwards."""
        await self._signal(signal.SIGKILL)
        if not self._said:  # bwrap may not have started process 1 yet
            os.kill(started.pid, signal.SIGKILL)
        await gone(started.pid)
