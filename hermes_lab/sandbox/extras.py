"""What a sandbox can have beyond a workspace, for programs that work in it."""

from pathlib import Path, PurePosixPath
from typing import NamedTuple

HOME = PurePosixPath("/app/home")
"""The path of the writable home, where there is one."""
ROOTED_HOME = PurePosixPath("/opt/hermes-lab/home")
"""The same for a task with a system of its own, whose working directory may be /app."""


class Extras(NamedTuple):
    """What a sandbox has beyond its workspace.

    `installed` are folders and files of this machine that commands see read-only at the same path. `home`: whether
    there is a writable home, which is removed with the sandbox. `address_space`: whether `memory_mb` limits the address
    space of each started process, too. Programs in JavaScript reserve far more than they use; for them the meter alone
    limits the memory that all processes hold together. `workspace` is a folder of this machine to work in, which stays;
    None: a new one, which is removed with the sandbox.
    """

    installed: tuple[Path, ...] = ()
    home: bool = False
    address_space: bool = True
    workspace: Path | None = None

    def joined(self, other: "Extras") -> "Extras":
        """What serves both. A folder inside another one is not listed again."""
        paths = dict.fromkeys((*self.installed, *other.installed))
        outermost = (path for path in paths if not any(path.is_relative_to(each) for each in paths if each != path))
        return Extras(
            installed=tuple(outermost),
            home=self.home or other.home,
            address_space=self.address_space and other.address_space,
            workspace=self.workspace or other.workspace,
        )


NOTHING_MORE = Extras()
