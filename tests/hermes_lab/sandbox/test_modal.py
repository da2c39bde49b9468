"""The modal backend, with a test double of the service: what it asks for, and what becomes of its containers."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from fakes import processes
from fakes.command import lab
from fakes.modal_container import STATUS, Container
from fakes.modal_service import ModalDouble
from grpclib import GRPCError, Status
from modal_fixture import double, modal, service  # noqa: F401
from modal_proto import api_pb2 as api

from hermes_lab.config.sandboxes import ModalConfig, SandboxConfig
from hermes_lab.errors import ConfigError, SandboxError
from hermes_lab.sandbox import missing_guarantees, open_sandbox, open_sandboxes, probe

RUN = ("-c", "model.provider=scripted", "-c", "model.name=hermes_lab.tasks.learner:noop", "-c", "sandbox.backend=modal")


def leases(tmp_path: Path) -> list[Path]:
    """The leases that dead or living harnesses have."""
    return list((tmp_path / "state").rglob("leases/modal/*"))


def only(double: ModalDouble) -> Container:  # noqa: F811
    (container,) = double.living()
    return container


async def test_a_container_runs_commands_over_its_own_workspace(modal: SandboxConfig) -> None:  # noqa: F811
    await probe(modal)
    async with open_sandbox(modal) as sandbox:
        assert sandbox.seen_workspace == "/app/data"
        await sandbox.write("in/a.txt", b"hello")
        assert (await sandbox.exec("pwd; cat in/a.txt; cd in; export X=1")).output == "/app/data\nhello"
        assert (await sandbox.exec("pwd; echo $X; ls /root /home")).output.startswith("/app/data/in\n1\n")
        assert (await sandbox.exec("pwd", fresh=True)).output == "/app/data\n"
        assert (await sandbox.exec("sleep 30", timeout=0.3)).timed_out
        packed = await sandbox.pack(1_000_000)
    async with open_sandbox(modal) as other:
        assert (await other.exec("ls -A")).output == ""
        await other.unpack(packed)
        assert await other.read("in/a.txt") == b"hello"


async def test_much_more_than_one_message_goes_both_ways(modal: SandboxConfig) -> None:  # noqa: F811
    data = os.urandom(20_000_000)
    async with open_sandbox(modal) as sandbox:
        await sandbox.write("big", data)
        assert await sandbox.read("big", len(data)) == data


async def test_the_service_is_asked_for_no_network_a_lifetime_memory_and_tags(
    modal: SandboxConfig,  # noqa: F811
    double: ModalDouble,  # noqa: F811
    tmp_path: Path,
) -> None:
    config = modal.model_copy(
        update={"memory_mb": 512, "modal": ModalConfig(app="mine", environment="main", max_seconds=600)}
    )
    async with open_sandbox(config):
        asked = only(double)
        assert asked.second
        assert asked.definition.network_access.network_access_type == api.NetworkAccess.NetworkAccessType.BLOCKED
        assert asked.definition.timeout_secs == 600
        assert asked.definition.resources.memory_mb == 512
        assert 512 < asked.definition.resources.memory_mb_max <= 640
        assert not asked.definition.resources.gpu_config.gpu_type
        assert asked.app == double.apps["main", "mine"]
        (lease,) = leases(tmp_path)
        assert asked.tags == {"made-by": "hermes-lab", "lease": lease.name}
        assert double.images[asked.definition.image_id] == ("python:3.11-slim", True)
    assert asked.result is not None
    assert asked.result.status == STATUS.GENERIC_STATUS_TERMINATED
    assert leases(tmp_path) == []


async def test_a_gpu_is_asked_for_by_type_and_number(
    modal: SandboxConfig,  # noqa: F811
    double: ModalDouble,  # noqa: F811
) -> None:
    async with open_sandbox(modal.model_copy(update={"gpu": "a100-80gb:2"})) as sandbox:
        asked = only(double)
        assert not asked.second  # Modal has no GPUs in the other kind
        assert asked.definition.resources.gpu_config.gpu_type == "A100-80GB"
        assert asked.definition.resources.gpu_config.count == 2
        assert asked.definition.network_access.network_access_type == api.NetworkAccess.NetworkAccessType.BLOCKED
        assert asked.tags["made-by"] == "hermes-lab"
        assert (await sandbox.exec("echo yes")).output == "yes\n"
    assert double.living() == []


async def test_volumes_are_those_of_the_service_and_read_only_ones_stay(
    modal: SandboxConfig,  # noqa: F811
    double: ModalDouble,  # noqa: F811
) -> None:
    data, out = double.make_volume("corpora"), double.make_volume("results")
    (data / "a").write_text("x")
    config = modal.model_copy(update={"volumes": ("corpora:/mnt/in:ro", "results:/mnt/out")})
    async with open_sandbox(config) as sandbox:
        assert (await sandbox.exec("cat /mnt/in/a; echo y >/mnt/in/a")).exit_code != 0
        assert (await sandbox.exec("echo z >/mnt/out/b")).exit_code == 0
    assert (data / "a").read_text() == "x"
    assert (out / "b").read_text() == "z\n"


async def test_the_sandboxes_of_a_run_share_one_app_and_one_image(
    modal: SandboxConfig,  # noqa: F811
    double: ModalDouble,  # noqa: F811
    tmp_path: Path,
) -> None:
    async def episode(number: int, opened: Callable[..., Any]) -> None:
        async with opened() as sandbox:
            assert (await sandbox.exec(f"echo {number}")).output == f"{number}\n"

    async with open_sandboxes(modal) as opened:
        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(episode, number, opened)
        assert double.living() == []
        assert len(leases(tmp_path)) == 1
    asked = [name for name, _ in double.requests]
    assert asked.count("SandboxCreateV2") == asked.count("SandboxTerminateV2") == 8
    assert asked.count("AppGetOrCreate") == asked.count("ImageGetOrCreate") == 1
    assert leases(tmp_path) == []


def test_a_run_verifies_in_the_containers_and_says_what_is_not_kept(
    double: ModalDouble,  # noqa: F811
    tmp_path: Path,
) -> None:
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text('{"prompt": "Say hello to me.", "verify": "test -d /app/data"}\n')
    done = lab("run", *RUN, "-c", f"suite.path={tasks}", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert "100% solved" in done.stderr
    assert "sandbox.backend=modal: if the harness is killed, its containers run on at Modal" in done.stderr
    assert len(double.containers) >= 2  # of the probe, and of the episode
    assert double.living() == leases(tmp_path) == []


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"image": "docker://python:3.11"}, r"sandbox\.image: 'docker://python:3\.11': give an image of a registry"),
        ({"gpu": "all of them"}, r"sandbox\.gpu: 'all of them': with modal give a type such as T4"),
        ({"volumes": ("/data:/mnt/x",)}, r"sandbox\.volumes: .* /data must be the name of a volume at modal"),
        ({"volumes": ("corpora:/app/data",)}, r"/app/data is the sandbox's own"),
        ({"volumes": ("a:/mnt/x", "a:/mnt/y")}, r"sandbox\.volumes: a: Modal mounts a volume once in a sandbox"),
        ({"volumes": ("a:/tmp",)}, r"sandbox\.volumes: a: Modal mounts nothing at /tmp; give another target"),
        ({"require": ("no_orphans",)}, r"sandbox\.backend=modal does not keep no_orphans: if the harness is killed"),
    ],
)
def test_what_cannot_work_is_refused_at_once(
    modal: SandboxConfig,  # noqa: F811
    double: ModalDouble,  # noqa: F811
    fields: dict[str, Any],
    why: str,
) -> None:
    with pytest.raises(ConfigError, match=why):
        open_sandbox(modal.model_copy(update=fields))
    assert double.requests == []


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"image": "nosuch:1"}, r"^sandbox\.image: Image build for \S+ failed with the exception: nosuch:1: manifest"),
        ({"gpu": "T9"}, r"^sandbox\.gpu: Modal refuses it: T9 is not a valid GPU type$"),
        ({"gpu": "A10:5"}, r"^sandbox\.gpu: Modal refuses it: 5 GPUs are not possible$"),
        (
            {"volumes": ("nosuch:/mnt/x",)},
            r"^sandbox\.volumes: nosuch: Modal has no volume of this name; create it: modal volume create nosuch$",
        ),
        ({"modal": ModalConfig(environment="nosuch")}, r"^sandbox\.modal: Modal refuses it: Environment 'nosuch' not"),
        ({"modal": ModalConfig(app="no such")}, r"^sandbox\.modal: Modal refuses it: Invalid App name: 'no such'"),
    ],
)
async def test_what_the_service_refuses_is_one_clear_line(
    modal: SandboxConfig,  # noqa: F811
    double: ModalDouble,  # noqa: F811
    fields: dict[str, Any],
    why: str,
    tmp_path: Path,
) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        async with open_sandbox(modal.model_copy(update=fields)):
            pass
    assert "\n" not in str(caught.value)
    assert double.living() == []
    assert leases(tmp_path) == []


@pytest.mark.parametrize(
    ("secret", "why"),
    [
        ("", "modal needs a token: sign up at modal.com, then run `modal token new`, or set MODAL_TOKEN_ID and"),
        ("as-wrong", "Modal refuses the token: Token ID or secret is wrong; `modal token new` makes another"),
    ],
)
def test_a_run_without_an_account_does_not_start(
    double: ModalDouble,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    secret: str,
    why: str,
) -> None:
    if not secret:
        monkeypatch.delenv("MODAL_TOKEN_ID")
    monkeypatch.setenv("MODAL_TOKEN_SECRET", secret)
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text('{"prompt": "Say hello to me.", "verify": "true"}\n')
    command = [sys.executable, "-m", "hermes_lab", "run", *RUN, "-c", f"suite.path={tasks}", "--out", f"{tmp_path}/run"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # the SDK keeps its client in a process
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"hermes-lab: error: sandbox.backend: {why}")
    assert done.stderr.count("error") == 1
    assert secret or not (tmp_path / "run").exists()


def test_a_missing_sdk_is_named(modal: SandboxConfig, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setitem(sys.modules, "modal", None)
    with pytest.raises(ConfigError, match=r"modal needs its SDK: pip install 'hermes-lab\[modal\]'"):
        open_sandbox(modal)
    assert len(missing_guarantees(modal)) == 4


async def test_a_full_account_is_an_error_of_the_service(
    modal: SandboxConfig,  # noqa: F811
    double: ModalDouble,  # noqa: F811
) -> None:
    double.most = 0
    with pytest.raises(SandboxError, match=r"^sandbox: modal: container limit reached$"):
        async with open_sandbox(modal):
            pass


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (STATUS.GENERIC_STATUS_TIMEOUT, r"the container's time is over \(sandbox\.modal\.max_seconds=3600\)"),
        (STATUS.GENERIC_STATUS_TERMINATED, r"the container was ended: by Modal, for its memory, or by somebody else"),
        (STATUS.GENERIC_STATUS_FAILURE, r"the container ended with exit code 1"),
    ],
)
async def test_a_container_that_ends_in_a_command_strikes_its_sandbox_alone(
    modal: SandboxConfig,  # noqa: F811
    double: ModalDouble,  # noqa: F811
    status: Any,
    why: str,
) -> None:
    async def must_fail(call: Callable[..., Any], *args: Any) -> None:
        with pytest.raises(SandboxError, match=rf"^sandbox: modal: the connection was lost: {why}$"):
            await call(*args)

    async with open_sandboxes(modal) as opened, opened() as other:
        struck = opened()
        async with struck:
            container = double.living()[-1]
            async with anyio.create_task_group() as group:
                group.start_soon(must_fail, struck.exec, "sleep 30")
                await anyio.sleep(0.2)
                await anyio.to_thread.run_sync(double.end, container, status)
            await must_fail(struck.read, "x")  # it stays lost
        assert (await other.exec("echo still")).output == "still\n"
    assert len(double.containers) == 2


async def test_a_lifetime_ends_at_the_service(
    modal: SandboxConfig,  # noqa: F811
    double: ModalDouble,  # noqa: F811
) -> None:
    section = ModalConfig().model_copy(update={"max_seconds": 1})
    async with open_sandbox(modal.model_copy(update={"modal": section})) as sandbox:
        with pytest.raises(SandboxError, match="the connection was lost"):
            await sandbox.exec("sleep 30")
    assert double.living() == []


async def test_a_connection_that_is_cut_is_resumed_at_its_byte(
    modal: SandboxConfig,  # noqa: F811
    double: ModalDouble,  # noqa: F811
) -> None:
    data = os.urandom(3_000_000)
    async with open_sandbox(modal) as sandbox:
        await sandbox.exec("export X=1")

        async def cut() -> None:
            for _ in range(8):
                await anyio.sleep(0.05)
                double.cut_connections()

        async with anyio.create_task_group() as group:
            group.start_soon(cut)
            for number in range(6):
                await sandbox.write(f"f{number}", data)
                assert await sandbox.read(f"f{number}", len(data)) == data
        assert (await sandbox.exec("echo $X; ls | wc -l")).output == "1\n6\n"
    assert len(double.containers) == 1


async def test_a_connection_that_stays_cut_strikes_the_sandbox_and_the_next_one_is_new(
    modal: SandboxConfig,  # noqa: F811
    double: ModalDouble,  # noqa: F811
) -> None:
    gone = GRPCError(Status.NOT_FOUND, "no such machine")
    async with open_sandboxes(modal) as opened:
        async with opened() as struck:
            double.failures |= {"TaskExecStdioRead": gone, "TaskExecStdinWrite": gone}
            double.cut_connections()
            with pytest.raises(SandboxError, match=r"^sandbox: modal: the connection was lost: no such machine$"):
                await struck.exec("true")
            double.failures.clear()
            with pytest.raises(SandboxError, match="the connection was lost"):
                await struck.exec("true")
        assert double.living() == []
        async with opened() as fresh:
            assert (await fresh.exec("echo again")).output == "again\n"
    assert len(double.containers) == 2


async def test_an_image_without_python_says_so(
    modal: SandboxConfig,  # noqa: F811
    double: ModalDouble,  # noqa: F811
) -> None:
    double.without_python = True
    with pytest.raises(SandboxError, match=r"^sandbox: modal: .*; it said: /bin/sh: .*python3: not found"):
        async with open_sandbox(modal):
            pass
    assert double.living() == []


HARNESS = """
import anyio
from hermes_lab.sandbox import open_sandboxes
from hermes_lab.config.sandboxes import SandboxConfig
async def main():
    async with open_sandboxes(SandboxConfig(backend="modal")) as opened, opened(), opened(), opened():
        print("up", flush=True)
        await anyio.sleep(60)
anyio.run(main)
"""


async def test_the_next_run_ends_what_a_dead_harness_left_and_nothing_of_a_living_one(
    modal: SandboxConfig,  # noqa: F811
    double: ModalDouble,  # noqa: F811
    tmp_path: Path,
) -> None:
    async with open_sandboxes(modal) as opened, opened() as living:
        process = await anyio.open_process([sys.executable, "-c", HARNESS])
        assert process.stdout is not None
        assert (await process.stdout.receive()).startswith(b"up")
        process.send_signal(signal.SIGKILL)
        await process.wait()
        await process.aclose()
        assert len(double.living()) == 4
        elsewhere = modal.model_copy(update={"modal": ModalConfig(app="other")})
        async with open_sandbox(elsewhere):
            assert len(double.living()) == 5  # another app is not looked at
        async with open_sandbox(modal):
            assert len(double.living()) == 2
        assert (await living.exec("echo here")).output == "here\n"
        assert len(leases(tmp_path)) == 1
    assert leases(tmp_path) == []


async def test_what_could_not_be_ended_is_ended_at_the_end_of_the_run_or_by_the_next_one(
    modal: SandboxConfig,  # noqa: F811
    double: ModalDouble,  # noqa: F811
    tmp_path: Path,
) -> None:
    refusal = GRPCError(Status.FAILED_PRECONDITION, "not now")
    async with open_sandboxes(modal) as opened:
        async with opened():
            double.failures["SandboxTerminateV2"] = refusal
        assert len(double.living()) == 1
        double.failures.clear()
    assert double.living() == []
    assert leases(tmp_path) == []
    async with open_sandbox(modal):
        double.failures["SandboxTerminateV2"] = refusal
    assert len(double.living()) == len(leases(tmp_path)) == 1
    double.failures.clear()
    async with open_sandbox(modal):
        assert len(double.living()) == 1
    assert double.living() == leases(tmp_path) == []


async def test_a_sandbox_whose_making_was_cancelled_is_ended_with_the_run(
    modal: SandboxConfig,  # noqa: F811
    double: ModalDouble,  # noqa: F811
) -> None:
    async with open_sandboxes(modal) as opened:
        double.answers_after = 30
        with anyio.move_on_after(1):
            async with opened():
                pass
        await processes.eventually(lambda: len(double.living()) == 1)
    assert double.living() == []
