"""The daytona backend, with a test double of the service: what sandboxes do, what is asked of the service, failures."""

import os
import re
import signal
import sys
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from backend_fixture import Backend
from fakes import processes
from fakes.daytona import FakeDaytona
from test_beside import (  # noqa: F401
    test_a_workspace_that_one_filled_is_full_for_the_other,
    test_files_are_shared_and_directory_and_variables_are_not,
    test_what_the_first_was_provided_with_is_there_too,
)
from test_process import (  # noqa: F401
    test_a_command_that_does_not_exist_says_so,
    test_environment_and_folder_are_those_that_it_was_given,
    test_many_starts_leave_nothing,
    test_much_data_both_ways,
    test_the_end_of_the_sandbox_ends_them,
    test_the_three_streams_and_the_exit_status,
    test_what_nobody_receives_makes_the_program_wait_and_is_kept,
)
from test_provide import test_a_provided_file_is_read_and_run_by_commands_on_every_backend  # noqa: F401

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import ConfigError, SandboxError
from hermes_lab.sandbox import daytona as backend_module
from hermes_lab.sandbox import daytona_pty, missing_guarantees, open_sandbox, open_sandboxes, probe
from hermes_lab.sandbox.backends import unkept


@pytest.fixture
def backend(daytona: FakeDaytona) -> Backend:
    """For the tests that every backend shares."""
    return Backend("daytona", daytona.config())


async def test_a_sandbox_runs_commands_and_ends_at_the_service(daytona: FakeDaytona) -> None:
    await probe(daytona.config())
    async with open_sandbox(daytona.config()) as sandbox:
        assert sandbox.workspace_path == "/app/data"
        await sandbox.write("in/a.txt", b"hello")
        assert (await sandbox.exec("pwd; cat in/a.txt; cd in; export X=1")).output == "/app/data\nhello"
        assert (await sandbox.exec("pwd; echo $X")).output == "/app/data/in\n1\n"
        assert (await sandbox.exec("sleep 30", timeout=0.3)).timed_out
        assert "RELAY" not in (await sandbox.exec("env")).output
        packed = await sandbox.pack(1_000_000)
        assert len(daytona.alive()) == 1
    assert not daytona.alive()
    async with open_sandbox(daytona.config()) as other:
        assert (await other.exec("ls -A")).output == ""
        await other.unpack(packed)
        assert await other.read("in/a.txt") == b"hello"


async def test_every_byte_passes_both_ways(daytona: FakeDaytona) -> None:
    data = bytes(range(256)) * 1000 + os.urandom(100_000)
    async with open_sandbox(daytona.config()) as sandbox:
        await sandbox.write("all", data)
        assert await sandbox.read("all") == data
        assert (await sandbox.exec("wc -c <all")).output == f"{len(data)}\n"


async def test_a_slow_connection_is_not_cut_off_as_a_slow_consumer(
    daytona: FakeDaytona, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service drops a client for which 256 messages wait; the relay keeps fewer on the way."""
    daytona.message_seconds = 0.001
    data = os.urandom(1_500_000)
    async with open_sandbox(daytona.config()) as sandbox:
        await sandbox.write("big", data)
        assert await sandbox.read("big") == data
    daytona.message_seconds = 0.05
    source = daytona_pty._relay().replace("WINDOW = 64", "WINDOW = 100_000")
    monkeypatch.setattr(daytona_pty, "_relay", lambda: source)
    async with open_sandbox(daytona.config()) as sandbox:
        await sandbox.write("big", data)
        with pytest.raises(SandboxError, match="slow consumer"):  # the control
            await sandbox.read("big")


async def test_there_is_no_network_and_without_the_services_word_no_sandbox(daytona: FakeDaytona) -> None:
    async with open_sandbox(daytona.config()) as sandbox:
        assert (await sandbox.exec("cat /proc/net/dev | grep -c ':' ")).output == "1\n"  # lo alone
    daytona.ignores_network = True
    with pytest.raises(SandboxError, match="did not block the network"):
        async with open_sandbox(daytona.config()):
            pass
    assert not daytona.alive()


async def test_what_the_service_is_asked_for(daytona: FakeDaytona) -> None:
    folder = daytona.add_volume("corpora")
    (folder / "a").write_text("x")
    config = daytona.config(
        volumes=["corpora:/mnt/corpora"],
        gpu="H100,RTX-PRO-6000",
        memory_mb=1500,
        disk_mb=2048,
        daytona={"target": "eu", "max_seconds": 601},
    )
    async with open_sandbox(config) as sandbox:
        assert (await sandbox.exec("cat /mnt/corpora/a; echo y >/mnt/corpora/b")).output == "x"
    assert (folder / "b").read_text() == "y\n"
    (asked,) = daytona.created
    name, labels = asked.pop("name"), asked.pop("labels")
    assert re.fullmatch(r"hermes-lab-[0-9a-f]{32}", name)
    assert labels["hermes-lab"] == "sandbox"
    assert re.fullmatch(r"[0-9a-f]{32}", labels["hermes-lab-lease"])
    assert asked == {
        "env": {},
        "public": False,
        "networkBlockAll": True,
        "autoStopInterval": 11,
        "autoDeleteInterval": 0,
        "ttlMinutes": 11,
        "volumes": [{"volumeId": daytona.volumes["corpora"]["id"], "mountPath": "/mnt/corpora"}],
        "buildInfo": {"dockerfileContent": "FROM python:3.11-slim\n"},
        "memory": 2,
        "disk": 3,
        "gpu": 1,
        "gpuType": ["H100", "RTX-PRO-6000"],
        "target": "eu",
    }


async def test_a_snapshot_brings_its_own_resources(daytona: FakeDaytona) -> None:
    async with open_sandbox(daytona.config(daytona={"snapshot": "python-lab"})):
        pass
    (asked,) = daytona.created
    assert asked["snapshot"] == "python-lab"
    assert not {"buildInfo", "memory", "disk", "cpu", "gpu"} & set(asked)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"image": "python.sif:/x y"}, r"sandbox\.image: python\.sif:/x y: with daytona give an image of a registry"),
        ({"image": "~/images/python"}, r"such as python:3\.11-slim, or set sandbox\.daytona\.snapshot"),
        ({"gpu": "T4"}, r"sandbox\.gpu: 'T4': with daytona give any, or of these: H100, H200"),
        ({"gpu": "H100", "daytona": {"snapshot": "s"}}, r"the snapshot s decides on GPUs; remove sandbox\.gpu"),
        (
            {"volumes": ["/tmp:/mnt/x"]},
            r"/tmp:/mnt/x: /tmp must be the name of a volume at daytona, not a folder",
        ),
        ({"volumes": ["data:/mnt/x:ro"]}, r"Daytona has no read-only volumes; remove :ro"),
        ({"volumes": ["data:/etc/x"]}, r"Daytona mounts nothing there"),
        ({"volumes": ["data:/app/data"]}, r"/app/data is the sandbox's own"),
        ({"require": ["no_orphans"]}, r"sandbox\.backend=daytona does not keep no_orphans"),
        ({"daytona": {"api_url": "app.daytona.io"}}, r"daytona\.api_url: 'app\.daytona\.io' is not an address"),
        ({"daytona": {"api_key_env": "NO_SUCH"}}, r"\$NO_SUCH is not set; make a key at https://app\.daytona\.io/"),
    ],
)
def test_what_cannot_work_is_refused_before_a_run(daytona: FakeDaytona, fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        open_sandbox(daytona.config(**fields))
    assert not daytona.created


async def test_a_volume_that_the_account_lacks_is_named(daytona: FakeDaytona) -> None:
    with pytest.raises(ConfigError, match=r"sandbox\.volumes: corpora: your account at Daytona has no such volume"):
        async with open_sandbox(daytona.config(volumes=["corpora:/mnt/x"])):
            pass
    daytona.add_volume("corpora")
    daytona.volumes["corpora"]["state"] = "error"
    with pytest.raises(ConfigError, match="the volume is not ready at Daytona: error"):
        async with open_sandbox(daytona.config(volumes=["corpora:/mnt/x"])):
            pass
    assert not daytona.created


async def _refused(config: SandboxConfig, why: str) -> None:
    with pytest.raises(SandboxError, match=why):
        async with open_sandbox(config):
            pass


async def test_a_key_that_is_refused_is_named_and_revoked_later_it_strikes_an_episode(
    daytona: FakeDaytona, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_sandboxes(daytona.config()) as opened:
        async with opened():
            daytona.key = "dtn_other"
        assert "deleting a sandbox: Invalid credentials (401); the next run deletes it" in caplog.text
        with pytest.raises(SandboxError, match=r"creating a sandbox: Invalid credentials \(401\)"):
            async with opened():
                pass
    with pytest.raises(ConfigError, match=r"api_key_env: Daytona refuses the key in \$DAYTONA_API_KEY; make one at"):
        async with open_sandbox(daytona.config()):
            pass
    daytona.key = os.environ["DAYTONA_API_KEY"]
    assert len(daytona.alive()) == 1
    async with open_sandbox(daytona.config()):
        assert len(daytona.alive()) == 1  # that of before is swept, since its harness has ended without deleting it


async def test_what_the_service_refuses_is_told(daytona: FakeDaytona) -> None:
    config = daytona.config()
    await _refused(daytona.config(daytona={"snapshot": "gone"}), "creating a sandbox: Snapshot gone not found")
    await _refused(daytona.config(daytona={"target": "mars"}), r"Region not found \(404\)")
    daytona.gpu_quota = 0
    await _refused(daytona.config(gpu="any"), r"Total GPU limit exceeded\. Maximum allowed: 0")
    daytona.most_sandboxes = 0
    await _refused(config, r"sandbox: daytona: creating a sandbox: Total CPU limit exceeded.* \(400\)")
    daytona.most_sandboxes = 9
    daytona.fails_to_start = "manifest for\nnosuch:1 not found"
    await _refused(config, "a sandbox did not start: build_failed: manifest for nosuch:1 not found")
    daytona.fails_to_start = ""
    daytona.fail("GET /sandbox/.*", 503, "Service Unavailable")
    await _refused(config, r"awaiting a sandbox: Service Unavailable \(503\)")
    assert not daytona.alive()
    nobody = daytona.config(daytona={"api_url": "http://127.0.0.1:9/api"})
    await _refused(nobody, "sandbox: daytona: asking the service: Cannot connect to host 127.0.0.1:9")


async def test_a_request_that_was_not_done_is_made_again(daytona: FakeDaytona) -> None:
    daytona.fail("POST /sandbox", 429, "ThrottlerException: Too Many Requests", {"Retry-After": "0"})
    daytona.fail("DELETE /sandbox/.*", 409, "Sandbox state change in progress", {"Retry-After": "0"})
    async with open_sandbox(daytona.config()) as sandbox:
        assert (await sandbox.exec("echo up")).output == "up\n"
    assert not daytona.alive()


async def test_any_shell_of_an_image_will_do(daytona: FakeDaytona) -> None:
    daytona.shell = ("/bin/sh",)
    async with open_sandbox(daytona.config()) as sandbox:
        assert (await sandbox.exec("echo up")).output == "up\n"
    (asked,) = daytona.terminals
    # In a terminal of 72 by 15 or more, zsh asks a user without a .zshrc for settings, and takes what is typed.
    assert (asked["cols"], asked["rows"]) < (72, 15)


async def test_an_image_without_python_says_so(daytona: FakeDaytona) -> None:
    daytona.hides = "python3"
    await _refused(daytona.config(), "daytona: python3 did not start; it said: .*python3: Permission denied")
    assert not daytona.alive()


async def test_a_start_that_takes_too_long_or_is_cancelled_leaves_nothing(
    daytona: FakeDaytona, monkeypatch: pytest.MonkeyPatch
) -> None:

    async def opened() -> None:
        async with open_sandbox(daytona.config()):
            pytest.fail("it cannot have started")

    daytona.start_seconds = 4
    await processes.cancelled_once(lambda: len(daytona.created) == 1, opened)
    assert not daytona.alive()
    monkeypatch.setattr(backend_module, "_START_SECONDS", 0.2)
    await _refused(daytona.config(), r"did not start within 0\.2 seconds: creating")
    assert not daytona.alive()


@pytest.mark.parametrize("how", ["end_all", "cut"])
async def test_a_lost_sandbox_strikes_its_command_and_is_never_connected_to_again(
    daytona: FakeDaytona, how: str
) -> None:
    async with open_sandboxes(daytona.config()) as opened:
        async with opened() as sandbox, anyio.create_task_group() as group:

            async def lose() -> None:
                await anyio.sleep(0.2)
                await anyio.to_thread.run_sync(getattr(daytona, how))

            group.start_soon(lose)
            with pytest.raises(SandboxError, match="sandbox: daytona: the connection was lost"):
                await sandbox.exec("sleep 20")
            with pytest.raises(SandboxError, match="sandbox: daytona: the connection was lost"):
                await sandbox.exec("true")
        assert daytona.connections == 1
        assert not daytona.alive()
        async with opened() as sandbox:
            assert (await sandbox.exec("echo anew")).output == "anew\n"


async def test_sandboxes_of_a_run_are_many_at_once_and_each_its_own(daytona: FakeDaytona) -> None:
    async with open_sandboxes(daytona.config()) as opened:

        async def one(number: int) -> None:
            async with opened() as sandbox:
                await sandbox.exec(f"echo {number} >mine")
                assert (await sandbox.exec("cat *")).output == f"{number}\n"

        async with anyio.create_task_group() as group:
            for number in range(4):
                group.start_soon(one, number)
    assert len(daytona.created) == 4
    assert len({each["labels"]["hermes-lab-lease"] for each in daytona.created}) == 1
    assert not daytona.alive()


async def test_the_worker_ends_when_the_harness_dies_and_the_next_run_deletes_the_sandbox(
    daytona: FakeDaytona, marker: str, is_running: Callable[[str], bool]
) -> None:
    """What a living harness has, here or elsewhere, stays."""
    code = (
        "import sys, anyio\n"
        "from hermes_lab.sandbox import open_sandbox\n"
        "from hermes_lab.config.sandboxes import SandboxConfig\n"
        "async def main():\n"
        f"    config = SandboxConfig(backend='daytona', daytona={{'api_url': {daytona.url!r}}})\n"
        "    async with open_sandbox(config) as sandbox:\n"
        f"        await sandbox.exec('sleep {marker} &')\n"
        "        print('up', flush=True); await anyio.sleep(60)\n"
        "anyio.run(main)\n"
    )
    process = await anyio.open_process([sys.executable, "-c", code])
    assert process.stdout is not None
    assert (await process.stdout.receive()).startswith(b"up")
    (killed,) = daytona.alive()
    foreign = dict(killed, id="elsewhere", name="elsewhere", labels=killed["labels"] | {"hermes-lab-lease": "f" * 32})
    daytona.sandboxes["elsewhere"] = foreign
    async with open_sandbox(daytona.config()) as sandbox:
        assert len(daytona.alive()) == 3
        assert is_running(marker)
        process.send_signal(signal.SIGKILL)
        await process.wait()
        await process.aclose()
        async with open_sandbox(daytona.config()):
            assert killed["state"] == "destroyed"
            await processes.eventually(lambda: not is_running(marker))
            assert (await sandbox.exec("echo lives")).output == "lives\n"
    assert daytona.alive() == [foreign]


def test_its_warning_says_what_may_happen(daytona: FakeDaytona) -> None:
    assert set(unkept(daytona.config())) == {"verifier", "memory", "disk", "processes", "no_orphans"}
    assert len(missing_guarantees(daytona.config())) == 4
