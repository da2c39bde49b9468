"""What a sandbox has beyond a workspace: a home, installations, a socket, and limits of programs, on every backend."""

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import SandboxError, ToolError
from hermes_lab.protocols import Process, Sandbox
from hermes_lab.sandbox import launch, open_sandbox, workspace
from hermes_lab.sandbox.extras import Extras

pytestmark = pytest.mark.anyio
IsRunning = Callable[[str], bool]
Eventually = Callable[[Callable[[], bool]], Awaitable[None]]
PATH = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
HOME = Extras(home=True)
SECRET = "hunter2-of-the-host"


async def _output(process: Process) -> str:
    found = bytearray()
    with anyio.fail_after(60):
        while data := await process.receive():
            found += data
        await process.wait()
    return found.decode()


async def _python(sandbox: Sandbox, script: str) -> Process:
    return await sandbox.start(["python3", "-c", textwrap.dedent(script)], PATH | {"HOME": sandbox.home_path})


# The home


async def test_the_home_is_shared_with_the_harness_and_ends_with_the_sandbox(backend_here: Any) -> None:
    async with backend_here.open(HOME) as sandbox:
        sandbox.home.write("config/a.txt", b"mine\n")
        sandbox.home.write("run", b"#!/bin/sh\necho ran\n")
        process = await sandbox.start(
            ["bash", "-c", "cat ~/config/a.txt; ~/run; mkdir -p ~/notes/b; echo new | tee ~/notes/b/c ~/config/a.txt"],
            PATH | {"HOME": sandbox.home_path},
        )
        assert await _output(process) == "mine\nran\nnew\n"
        assert sandbox.home.files() == ["config/a.txt", "notes/b/c", "run"]
        assert sandbox.home.files("notes") == ["b/c"]
        assert sandbox.home.files("nowhere") == []
        assert sandbox.home.read("notes/b/c", 10) == b"new\n"
        assert sandbox.home.read(f"{sandbox.home_path}/config/a.txt", 10) == b"new\n" or backend_here.name == "local"
        assert (await sandbox.exec(f"cat {sandbox.home_path}/notes/b/c")).output == "new\n"
        folder = sandbox.folders.home
    assert not folder.exists()


async def test_there_is_none_unless_asked_for(backend_here: Any) -> None:
    async with backend_here.open() as sandbox:
        assert (await sandbox.exec("ls /app 2>/dev/null; true")).output.split() in (["data", "skills"], [])
        assert sandbox.folders.home is None


async def test_homes_of_others_are_out_of_sight(backend_here: Any, marker: str) -> None:
    async with backend_here.open(HOME) as other, backend_here.open(HOME) as sandbox:
        other.home.write(marker, b"x")
        places = [str(other.folders.home.parent), *(["/app", "/tmp"] if backend_here.name != "local" else [])]
        found = await _output(await sandbox.start(["find", *places, "-name", marker], PATH))
        assert (marker in found) == (backend_here.name == "local")
        assert sandbox.home.files() == []


@pytest.fixture
def secret() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)
        (Path(name) / "secret").write_text(SECRET)
        yield Path(name) / "secret"


async def test_links_pipes_and_sockets_in_the_home_are_neither_followed_nor_waited_for(
    backend_here: Any, secret: Path
) -> None:
    script = f"""
        import os, socket
        os.chdir(os.environ["HOME"])
        os.symlink({str(secret)!r}, "file")
        os.symlink({str(secret.parent)!r}, "folder")
        os.symlink("loop", "loop")
        os.mkdir("real")
        os.symlink("..", "real/up")
        os.mkfifo("fifo")
        socket.socket(socket.AF_UNIX).bind("socket")
        open("real/odd \\udcff\\n name", "w").write("odd")
        try: os.link({str(secret)!r}, "hard")
        except OSError: pass
        for n in range(40): os.makedirs(f"many/{{n}}", exist_ok=True)
    """
    async with backend_here.open(HOME) as sandbox:
        process = await _python(sandbox, script)
        await _output(process)
        assert process.errors() == ""
        files = set(sandbox.home.files()) - {"hard"}
        assert files == {"real/odd \udcff\n name"}
        assert sandbox.home.read(*files, 10) == b"odd"
        for path in (
            "file",
            "folder/secret",
            "loop",
            "fifo",
            "socket",
            "real",
            "real/up/file",
            "../x",
            "/etc/passwd",
        ):
            with pytest.raises(ToolError):
                sandbox.home.read(path, 100)
        for path in ("file", "folder/new", "loop", "fifo", "socket", "real", "folder/secret", "real/up/x"):
            with pytest.raises(ToolError):
                sandbox.home.write(path, b"overwritten")
        for path in ("folder", "file", "fifo", "real/up", "loop"):
            with pytest.raises(ToolError):
                sandbox.home.files(path)
        assert secret.read_text() == SECRET  # noqa: ASYNC240
        assert [path.name for path in secret.parent.iterdir()] == ["secret"]


async def test_deep_and_huge_trees_in_the_home_are_refused(backend_here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "_MOST_FILES", 100)
    async with backend_here.open(HOME) as sandbox:
        await _output(await _python(sandbox, "import os\nos.chdir(os.environ['HOME'])\nos.makedirs('d/' * 60)"))
        with pytest.raises(ToolError, match="nested deeper than"):
            sandbox.home.files()
        assert sandbox.home.files("e") == []
        script = """
            import os
            os.chdir(os.environ["HOME"])
            os.mkdir("huge")
            for n in range(101): open(f"huge/{n}", "w")
        """
        await _output(await _python(sandbox, script))
        with pytest.raises(ToolError, match="more than 100 files"):
            sandbox.home.files("huge")
        nest = """
            import os
            os.chdir(os.environ["HOME"])
            for _ in range(600): os.mkdir("n"); os.chdir("n")
            os.chmod(".", 0)
        """
        await _output(await _python(sandbox, nest))
        with pytest.raises(ToolError, match="nested deeper than"):
            sandbox.home.files("n")
        folder = sandbox.folders.home
    assert not folder.exists()


async def test_a_home_that_changes_while_it_is_read_leads_nowhere_else(backend_here: Any, secret: Path) -> None:
    script = f"""
        import os
        os.chdir(os.environ["HOME"])
        os.mkdir("a")
        open("a/secret", "w").write("own")
        os.symlink({str(secret.parent)!r}, "b")
        print(flush=True)
        while True:
            os.rename("a", "c"); os.rename("b", "a"); os.rename("a", "b"); os.rename("c", "a")
    """
    async with backend_here.open(HOME) as sandbox:
        process = await _python(sandbox, script)
        await process.receive()
        seen, rounds = set(), 0
        while rounds < 300 or (not seen and rounds < 100_000):
            rounds += 1
            try:
                sandbox.home.files()
                seen.add(sandbox.home.read("a/secret", 100))
                sandbox.home.write("a/secret", b"own")
            except ToolError:
                continue
        assert seen == {b"own"}
        assert secret.read_text() == SECRET  # noqa: ASYNC240
        await process.kill()


# Installations


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    """An installed program, below a folder that is open to its owner alone, as /root is."""
    assert tmp_path.stat().st_mode & 0o077 == 0
    tool = tmp_path / "in stalled"
    (tool / "bin").mkdir(parents=True)
    (tool / "bin/tool").write_text("#!/bin/sh\necho run at $0\n")
    for path in (tool, *tool.rglob("*")):
        path.chmod(0o755)
        if (uid := launch.owner()) is not None:  # so that only the mount keeps it from being changed
            os.chown(path, uid, uid)
    return tool


async def test_an_installation_is_at_its_own_path_and_cannot_be_changed(backend_here: Any, tool: Path) -> None:
    change = """
        import os
        tool = os.environ["TOOL"]
        def attempt(what, *of):
            try: what(*of)
            except OSError: return
            print("changed by", what.__name__)
        attempt(os.chmod, f"{tool}/bin/tool", 0o777)
        attempt(os.utime, f"{tool}/bin/tool")
        attempt(os.mkdir, f"{tool}/new")
        attempt(open, f"{tool}/bin/tool", "a")
        attempt(os.link, f"{tool}/bin/tool", f"{tool}/bin/other")
        attempt(os.unlink, f"{tool}/bin/tool")
    """
    async with backend_here.open(Extras((tool,), home=True)) as sandbox:
        assert not _is_mounted(tool)
        process = await sandbox.start([f"{tool}/bin/tool"], PATH)
        assert await _output(process) == f"run at {tool}/bin/tool\n", process.errors()
        assert (await sandbox.exec(f"'{tool}/bin/tool'")).output == f"run at {tool}/bin/tool\n"
        change = textwrap.dedent(change)
        said = await _output(await sandbox.start(["python3", "-c", change], PATH | {"TOOL": str(tool)}))
        assert bool(said) == (backend_here.name == "local"), said
        if backend_here.name != "local":
            assert (await sandbox.exec(f"ls -A '{tool.parent}'")).output == "in stalled\n"
            assert sorted(path.name for path in tool.rglob("*")) == ["bin", "tool"]  # noqa: ASYNC240
    assert not _is_mounted(tool)


def _is_mounted(path: Path) -> bool:
    """Whether the harness sees a mount of it."""
    return str(path).replace(" ", r"\040") in Path("/proc/self/mountinfo").read_text()


async def test_a_file_and_several_installations_and_one_below_temporary_folders(
    backend_here: Any, tool: Path, secret: Path
) -> None:
    file = tool.with_name("single")
    file.write_text("#!/bin/sh\necho single\n")
    file.chmod(0o755)
    link = tool.with_name("link")
    link.symlink_to(tool)
    async with backend_here.open(Extras((tool, file, secret.parent, link))) as sandbox:
        for command, said in {
            file: "single\n",
            f"{tool}/bin/tool": f"run at {tool}/bin/tool\n",
            f"{link}/bin/tool": f"run at {link}/bin/tool\n",
        }.items():
            assert await _output(await sandbox.start([str(command)], PATH)) == said
        assert (await sandbox.exec(f"cat {secret}")).output == SECRET
        for path in (file, secret):
            assert ((await sandbox.exec(f"echo x >>'{path}'")).exit_code == 0) == (backend_here.name == "local")


async def test_other_installations_in_one_harness_are_other_roots(tool: Path, tmp_path: Path) -> None:
    """A file where the sandbox before had a folder, at the same place in the list."""
    file = tmp_path / "x" / tool.name
    file.parent.mkdir()
    file.write_text("#!/bin/sh\necho file\n")
    file.chmod(0o755)
    for installed, command in ((tool, f"{tool}/bin/tool"), (file, str(file)), (tool, f"{tool}/bin/tool")):
        async with open_sandbox(SandboxConfig(), Extras((installed,))) as sandbox:
            process = await sandbox.start([command], PATH)
            await _output(process)
            assert await process.wait() == 0, process.errors()


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's sandbox may read what the user may")
async def test_an_installation_that_nobody_else_may_read_is_told_in_one_line(tool: Path) -> None:
    tool.chmod(0o700)  # noqa: ASYNC240
    with pytest.raises(SandboxError, match=r"closed to the sandbox's user: open it with chmod") as caught:
        await open_sandbox(SandboxConfig(), Extras((tool,))).__aenter__()
    assert "\n" not in str(caught.value)
    with pytest.raises(SandboxError, match="no such file or folder"):
        await open_sandbox(SandboxConfig(), Extras((tool / "nowhere",))).__aenter__()


# The socket

_ASK = """
    import os, socket
    connection = socket.create_connection(("127.0.0.1", int(os.environ["PORT"])))
    connection.sendall(b"asked")
    print(connection.recv(100).decode())
"""


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"answer to " + await reader.read(100))
    await writer.drain()
    writer.close()


async def test_a_socket_inside_is_served_outside(backend_here: Any) -> None:
    async with backend_here.open() as sandbox:
        listener = await sandbox.listen(8000)
        port = listener.getsockname()[1]
        assert port == 8000 or backend_here.name == "local"
        async with await asyncio.start_server(_answer, sock=listener):
            environment = PATH | {"PORT": str(port)}
            for _ in range(3):
                process = await sandbox.start(["python3", "-c", textwrap.dedent(_ASK)], environment)
                assert await _output(process) == "answer to asked\n", process.errors()
            asked = await sandbox.exec(f"exec 3<>/dev/tcp/127.0.0.1/{port}; echo me >&3; cat <&3", fresh=True)
            assert asked.output == "answer to me\n"
        if backend_here.name != "local":
            with pytest.raises(OSError, match="refused"):
                socket.create_connection(("127.0.0.1", port)).close()  # outside there is none
            assert (await sandbox.exec(f"exec 3<>/dev/tcp/127.0.0.1/{port}")).exit_code != 0  # closed


async def test_each_sandbox_has_its_own_port_and_a_taken_one_is_told(backend_here: Any) -> None:
    async with backend_here.open() as sandbox, backend_here.open() as other:
        with await sandbox.listen(8000), await other.listen(8000):
            if backend_here.name != "local":
                with pytest.raises(SandboxError, match="no socket at port 8000 of its network: Address already in use"):
                    await sandbox.listen(8000)


async def test_nothing_but_the_port_can_be_reached(backend_here: Any, marker: str) -> None:
    script = f"""
        import os, socket, threading
        def attempt(family, kind, address, data=b""):
            try:
                with socket.socket(family, kind) as s:
                    s.settimeout(2)
                    s.connect(address)
                    data and s.send(data)
                    print("reached", address)
            except OSError: pass
        attempt(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", int(os.environ["HOST_PORT"])))
        attempt(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.2", int(os.environ["HOST_PORT"])))
        attempt(socket.AF_INET6, socket.SOCK_STREAM, ("::1", int(os.environ["HOST_PORT"])))
        attempt(socket.AF_UNIX, socket.SOCK_STREAM, "\\0{marker}")
        try: print("reached", socket.getaddrinfo("localhost.localdomain.invalid", 80))
        except OSError: pass
        try: print("reached", [name for _, name in socket.if_nameindex() if name != "lo"] or 1 / 0)
        except ZeroDivisionError: pass
    """
    with (
        socket.create_server(("127.0.0.1", 0)) as host,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        abstract.bind(f"\0{marker}")
        abstract.listen()
        async with backend_here.open() as sandbox:
            with await sandbox.listen(8000):
                environment = PATH | {"HOST_PORT": str(host.getsockname()[1])}
                process = await sandbox.start(["python3", "-c", textwrap.dedent(script)], environment)
                assert ("reached" in await _output(process)) == (backend_here.name == "local")
                assert process.errors() == ""


AS_AN_ORDINARY_USER = """
import os, sys, anyio, anyio._backends._asyncio, asyncio
from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import SandboxError
from hermes_lab.sandbox import bubblewrap, open_sandbox, shell
from hermes_lab.sandbox.extras import Extras
shell._functions()  # read while we may: a checkout need not be open to others
sys.executable = "/usr/bin/python3"  # this one's may be root's own
os.setgroups([]); os.setgid(4242); os.setuid(4242)

async def answer(reader, writer):
    writer.write(b"answer to " + await reader.read(100))
    writer.close()

async def main():
    async with open_sandbox(SandboxConfig(), Extras(home=True)) as sandbox:
        listener = await sandbox.listen(8000)
        async with await asyncio.start_server(answer, sock=listener):
            ask = "exec 3<>/dev/tcp/127.0.0.1/8000; echo me >&3; cat <&3; id -u >~/a"
            process = await sandbox.start(["bash", "-c", ask], {"PATH": "/usr/bin", "HOME": sandbox.home_path})
            while data := await process.receive():
                print(data.decode(), end="")
            print(await process.wait(), process.errors(), sandbox.home.files(), flush=True)
        try:
            with await sandbox.listen(8000), await sandbox.listen(8000):
                pass
        except SandboxError as error:
            print(error)

anyio.run(main)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="already an ordinary user")
async def test_an_ordinary_user_has_programs_and_a_socket_too() -> None:
    command = [sys.executable, "-c", AS_AN_ORDINARY_USER]
    ran = subprocess.run(  # noqa: ASYNC221
        command, check=False, capture_output=True, text=True, cwd="/", env=os.environ | {"TMPDIR": "/tmp"}
    )
    assert ran.stdout.splitlines()[:2] == ["answer to me", "0  ['a']"], ran.stderr
    assert "no socket at port 8000 of its network: " in ran.stdout
    assert "Address already in use" in ran.stdout


# Limits


def _hold(megabytes: int, marker: str) -> list[str]:
    return ["python3", "-c", f"import os, time; data = os.urandom(1) * ({megabytes} << 20); time.sleep({marker})"]


async def test_memory_of_all_programs_together_is_limited(
    backend_here: Any, marker: str, is_running: IsRunning, eventually: Eventually
) -> None:
    async with backend_here.open(Extras(address_space=False), memory_mb=200) as sandbox:
        programs = [await sandbox.start(_hold(90, marker), PATH) for _ in range(3)]
        with anyio.fail_after(60):
            if backend_here.name == "docker":  # the kernel kills one
                await eventually(lambda: any(program.ended for program in programs))
                return
            for program in programs:
                assert await program.wait() == 137
                assert program.errors() == "[killed: its processes and /tmp take more than 200 MB of memory]\n"
        await eventually(lambda: not is_running(marker))


@pytest.mark.parametrize("limited", [True, False])
async def test_address_space_is_limited_only_where_that_is_wanted(backend_here: Any, limited: bool) -> None:
    reserve = "import mmap; mmap.mmap(-1, 2 << 30); print('reserved')"
    async with backend_here.open(Extras(address_space=limited), memory_mb=500) as sandbox:
        process = await sandbox.start(["python3", "-c", reserve], PATH)
        refused = limited and backend_here.name != "docker"  # it counts what is used
        assert (await _output(process) == "") == refused
        assert ("MemoryError" in process.errors() or "Cannot allocate" in process.errors()) == refused
        command = await sandbox.exec(f'python3 -c "{reserve}"')  # a command's own limit stays
        assert (command.exit_code != 0) == (backend_here.name != "docker")


async def test_files_and_processes_are_limited(backend_here: Any) -> None:
    forks = """
        import os, time
        made = 0
        for _ in range(60):
            try:
                if os.fork() == 0:
                    time.sleep(2)
                    os._exit(0)
                made += 1
            except OSError: break
        print(made)
    """
    async with backend_here.open(Extras(home=True, address_space=False), file_mb=1, processes=40) as sandbox:
        process = await sandbox.start(
            ["bash", "-c", "head -c 5000000 /dev/zero >~/big"], PATH | {"HOME": sandbox.home_path}
        )
        assert await process.wait() in (1, 153), process.errors()
        assert len(sandbox.home.read("big", 10_000_000)) == 1 << 20
        made = int(await _output(await _python(sandbox, forks)))
        assert made == 60 if backend_here.name == "local" else made < 41


async def test_a_home_counts_to_the_disk_and_the_message_says_so(backend_here: Any, marker: str) -> None:
    async with backend_here.open(HOME, disk_mb=8) as sandbox:
        fill = f"for n in {{1..6}}; do head -c 1000000 /dev/zero | tee ~/$n >$n; done; sleep {marker}"
        process = await sandbox.start(["bash", "-c", fill], PATH | {"HOME": sandbox.home_path})
        with anyio.fail_after(60):
            assert await process.wait() == 137
        full = "the workspace and the home are larger than 8 MB"
        assert process.errors() == f"[killed: {full}]\n"
        with pytest.raises(ToolError, match=full):
            await sandbox.write("more", b"x")
        await sandbox.exec(f"rm {sandbox.home_path}/*")
        await sandbox.write("more", b"x")


# The end


async def test_a_killed_harness_leaves_no_program(marker: str, is_running: IsRunning, eventually: Eventually) -> None:
    script = f"""
        import anyio
        from hermes_lab.config.sandboxes import SandboxConfig
        from hermes_lab.sandbox import open_sandbox
        from hermes_lab.sandbox.extras import Extras
        async def main():
            async with open_sandbox(SandboxConfig(), Extras(home=True)) as sandbox:
                await sandbox.listen(8000)
                await sandbox.start(["bash", "-c", "setsid sleep {marker} & sleep {marker}"], {{"PATH": "/usr/bin"}})
                await anyio.sleep(1000)
        anyio.run(main)
    """
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)  # noqa: ASYNC240
        harness = subprocess.Popen(  # noqa: ASYNC220
            [sys.executable, "-c", textwrap.dedent(script)], env=os.environ | {"TMPDIR": name}
        )
        try:
            await eventually(lambda: is_running(f"sleep\0{marker}"))
        finally:
            harness.kill()
            harness.wait()
        await eventually(lambda: not is_running(marker))
