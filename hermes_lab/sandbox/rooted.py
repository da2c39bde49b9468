"""A writable, throwaway root for tasks with a system of their own: overlays of this machine's / and /usr.

Commands are uid 0 inside and an ordinary user outside. The kernel maps only that uid, so nothing can be given to
another user, and files of /usr can be replaced but not changed in place.
"""

from __future__ import annotations

import functools
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_lab.sandbox import etc
from hermes_lab.sandbox.folders import EpisodeFolders
from hermes_lab.sandbox.workspace import ROOTED_SKILLS

if TYPE_CHECKING:
    from hermes_lab.types import Root

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
HOME = "/root"
_FOLDERS = (
    "boot data home media mnt opt root run srv var var/cache var/lib var/lib/dpkg var/log var/opt var/spool var/tmp "
    f"etc/cron.d etc/default etc/init.d etc/profile.d etc/ssl {str(ROOTED_SKILLS)[1:]}"
).split()
_USR = [
    "bin",
    "games",
    "include",
    "lib",
    "libexec",
    "local",
    "local/bin",
    "local/etc",
    "local/include",
    "local/lib",
    "local/sbin",
    "local/share",
    "local/src",
    "sbin",
    "share",
    "share/doc",
    "src",
]
"""Folders of /usr that tasks write to. The layer above it owns them, else the kernel could not copy them up."""


def arguments(harness: Path, owner: int | None, lower: Path, folders: EpisodeFolders) -> list[str]:
    """The bwrap options of the root; `lower` is the read-only root of other sandboxes."""
    assert folders.root is not None
    root, usr = _layers(harness, owner, lower)
    above = [str(folders.root / name) for name in ("upper", "work", "usr", "usr-work")]
    system = ["--overlay-src", str(root), "--overlay", *above[:2], "/"]
    return [*system, "--overlay-src", "/usr", "--overlay-src", str(usr), "--overlay", *above[2:], "/usr"]


def environment(root: Root) -> dict[str, str]:
    """The variables that every command starts with."""
    return {"PATH": PATH, "HOME": HOME, "LANG": "C.UTF-8", "USER": "root", **root.environment}


@functools.cache
def _layers(harness: Path, owner: int | None, lower: Path) -> tuple[Path, Path]:
    """Prepares, once per harness, what lies under the root and over /usr of all its rooted sandboxes."""
    root, usr = (harness / f"{lower.parent.name}-{name}" for name in ("rooted", "rooted-usr"))
    shutil.copytree(lower, root, symlinks=True)
    shutil.rmtree(root / "app")  # the place of other sandboxes' workspaces
    (root / "etc/passwd").write_text(f"root:x:0:0:root:{HOME}:/bin/bash\nnobody:x:65534:65534::/:/bin/false\n")
    (root / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n")
    (root / "etc/hosts").write_text(etc.FILES["hosts"])
    for folder in (*(root / name for name in _FOLDERS), usr, *(usr / name for name in _USR)):
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    for path in (root, usr, *root.rglob("*"), *usr.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)
        if owner is not None:
            os.chown(path, owner, owner, follow_symlinks=False)
    (root / "var/tmp").chmod(0o1777)
    return root, usr
