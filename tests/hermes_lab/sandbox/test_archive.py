"""A workspace as an archive: the same files again, no link followed, and nothing outside read or written."""

import gzip
import io
import os
import tarfile
from pathlib import Path

import pytest

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import SandboxError
from hermes_lab.sandbox import open_sandbox
from hermes_lab.sandbox.archive import TooLarge, pack, unpack
from hermes_lab.types import KeptWorkspace
from hermes_lab.verification.workspaces import keep_workspace

LISTING = (
    "find . -mindepth 1 ! -type l -printf '%P %y %m %s %TY-%Tm-%Td\\n' | sort; "
    "find . -type l -printf '%P %l\\n' | sort; cat a/b.txt"
)
WORK = (
    "mkdir -p a/empty locked; printf 'b\\n' > a/b.txt; printf '#!/bin/sh\\n' > run.sh; chmod 750 run.sh; "
    "ln -s /etc/passwd leak; ln -s a/b.txt near; touch -d 2001-02-03 a/b.txt; echo x > locked/x; chmod 555 locked"
)


@pytest.mark.anyio
async def test_a_workspace_comes_back_as_it_was() -> None:
    async with open_sandbox(SandboxConfig()) as first:
        await first.exec(WORK)
        before = await first.exec(LISTING, fresh=True)
        data = await first.pack(1_000_000)
        assert await first.pack(1_000_000) == data
    async with open_sandbox(SandboxConfig()) as second:
        await second.unpack(data)
        after = await second.exec(LISTING, fresh=True)
        assert after.output == before.output
        assert "a/b.txt f 644 2 2001-02-03" in after.output
        assert "leak /etc/passwd" in after.output
        written = await second.exec("echo more >> a/b.txt && touch a/new && ls -ld locked | cut -c1-10", fresh=True)
        assert written.output == "dr-xr-xr-x\n"


def test_links_are_kept_as_links_and_never_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    root = tmp_path / "work"
    root.mkdir()
    (root / "file").symlink_to(tmp_path / "secret")
    (root / "folder").symlink_to(tmp_path)
    os.mkfifo(root / "pipe")
    with tarfile.open(fileobj=io.BytesIO(pack(root, 5000))) as archive:
        assert [(each.name, each.issym()) for each in archive] == [("file", True), ("folder", True)]
    assert b"secret" not in gzip.decompress(pack(root, 5000)).replace(b"/secret", b"")


def test_more_than_the_limit_is_not_packed(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"x" * 60)
    with pytest.raises(TooLarge):
        pack(tmp_path, 2 * 512 + 119)
    assert pack(tmp_path, 2 * 512 + 120)
    for number in range(30):
        (tmp_path / f"empty-{number}").touch()
    with pytest.raises(TooLarge):
        pack(tmp_path, 2 * 512 + 120)


@pytest.mark.anyio
async def test_folders_nested_too_deeply_are_not_kept_and_end_nothing(tmp_path: Path) -> None:
    async with open_sandbox(SandboxConfig()) as sandbox:
        await sandbox.exec("for n in {1..1500}; do mkdir d && cd d; done")
        assert await keep_workspace(sandbox, tmp_path, 64) == KeptWorkspace(problem="nested too deeply")


@pytest.mark.parametrize("names", [["../out"], ["/out"], ["link", "link/out"]])
def test_an_archive_that_leads_out_of_the_workspace_is_refused(names: list[str], tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name in names:
            info = tarfile.TarInfo(name)
            if name == "link":
                info.type, info.linkname = tarfile.SYMTYPE, str(tmp_path)
            archive.addfile(info)
    with pytest.raises(SandboxError, match="leads out of its folder"):
        unpack(packed.getvalue(), root, None)
    assert not (tmp_path / "out").exists()
