"""What the harness provides: commands can read and run it, on no isolating backend change it."""

from pathlib import Path
from typing import Any

import pytest

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import ToolError
from hermes_lab.sandbox import open_sandbox
from hermes_lab.sandbox.bubblewrap import BubblewrapSandbox

pytestmark = pytest.mark.anyio
SCRIPT = b"#!/bin/sh\necho from the skill\n"
ATTEMPTS = {
    "overwrite": "echo mine >$0/house/scripts/say.sh",
    "append": "echo mine >>$0/house/scripts/say.sh",
    "remove": "rm -f $0/house/scripts/say.sh",
    "rename": "mv $0/house $0/other",
    "chmod": "chmod 777 $0/house/scripts/say.sh",
    "make a file": "touch $0/new",
    "remount": "mount -o remount,rw $0",
    "write through process 1": "echo mine >/proc/1/root$0/house/scripts/say.sh",
    "link and write": "ln -s $0/house/scripts/say.sh soft && echo mine >soft",
    "hard link out": "ln $0/house/scripts/say.sh hard",
}


async def test_a_provided_file_is_read_and_run_by_commands_on_every_backend(backend: Any) -> None:
    async with backend.open() as sandbox:
        await sandbox.provide("house/scripts/say.sh", SCRIPT)
        await sandbox.provide("house/references/long.txt", b"x" * (1 << 19))
        found = await sandbox.exec(f"cd {sandbox.skills_path}/house && scripts/say.sh && wc -c <references/long.txt")
        assert found.output.split() == ["from", "the", "skill", str(1 << 19)]
        await sandbox.provide("house/scripts/say.sh", SCRIPT.replace(b"skill", b"patched skill"))
        assert (await sandbox.exec(f"{sandbox.skills_path}/house/scripts/say.sh")).output == "from the patched skill\n"


@pytest.mark.parametrize("name", ATTEMPTS)
async def test_a_command_cannot_change_what_was_provided_and_without_isolation_it_can(name: str, backend: Any) -> None:
    async with backend.open() as sandbox:
        await sandbox.provide("house/scripts/say.sh", SCRIPT)
        command = f"bash -c '{ATTEMPTS[name]}' {sandbox.skills_path}"
        result = await sandbox.exec(command)
        if backend.name != "local":
            assert result.exit_code != 0
        elif name not in ("remount", "write through process 1", "hard link out"):
            assert result.exit_code == 0  # the control: the attempt is one
        if backend.name not in ("local", "ssh"):
            script = Path(sandbox.folders.skills) / "house/scripts/say.sh"
            assert script.read_bytes() == SCRIPT
            assert script.stat().st_mode & 0o777 == 0o755
            assert {path.name for path in sandbox.folders.skills.iterdir()} == {"house"}


@pytest.mark.parametrize("path", ["../out", "/etc/passwd", "/app/data/x", "a/../../b", "", "a\0b"])
async def test_nothing_is_provided_outside_its_folder(sandbox: BubblewrapSandbox, path: str) -> None:
    with pytest.raises(ToolError):
        await sandbox.provide(path, b"x")
    assert (await sandbox.exec("ls -A /app/skills /app/data")).output == "/app/data:\n\n/app/skills:\n"


async def test_the_folder_serves_again_and_holds_nothing_of_the_episode_before() -> None:
    async with open_sandbox(SandboxConfig()) as first:
        await first.provide("house/SKILL.md", b"secret")
    async with open_sandbox(SandboxConfig()) as second:
        assert second.folders.skills == first.folders.skills  # type: ignore[attr-defined]
        assert (await second.exec("ls -A /app/skills")).output == ""


async def test_what_is_provided_is_not_counted_as_the_agents_files() -> None:
    async with open_sandbox(SandboxConfig(disk_mb=1)) as sandbox:
        await sandbox.provide("large/assets/a.bin", bytes(2 << 20))
        assert not (await sandbox.exec("sleep 0.6; echo ok > file; cat file")).output.startswith("[killed")
        await sandbox.write("more", b"x")


async def test_a_sibling_sees_what_was_provided_to_either(sandbox: BubblewrapSandbox) -> None:
    await sandbox.provide("a/one", b"1")
    async with sandbox.fork() as sibling:
        await sibling.provide("a/two", b"2")
        assert (await sibling.exec("cat /app/skills/a/*")).output == "12"
    assert (await sandbox.exec("cat /app/skills/a/*")).output == "12"
