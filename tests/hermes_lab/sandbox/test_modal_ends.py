"""Containers at Modal that end, or are left behind, with a test double of the service."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from fakes import processes
from fakes.modal_container import STATUS
from fakes.modal_service import ModalDouble
from grpclib import GRPCError, Status
from modal import Sandbox
from modal_fixture import leases, only

from hermes_lab.config.sandboxes import ModalConfig, SandboxConfig
from hermes_lab.errors import SandboxError
from hermes_lab.sandbox import open_sandbox, open_sandboxes
from hermes_lab.sandbox.modal_stream import ModalStream


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (STATUS.GENERIC_STATUS_TIMEOUT, r"the container's time is over \(sandbox\.modal\.max_seconds=3600\)"),
        (STATUS.GENERIC_STATUS_TERMINATED, r"the container was ended: by Modal, for its memory, or by somebody else"),
        (STATUS.GENERIC_STATUS_FAILURE, r"the container ended with exit code 1"),
    ],
)
async def test_a_container_that_ends_in_a_command_strikes_its_sandbox_alone(
    modal: SandboxConfig,
    modal_double: ModalDouble,
    status: Any,
    why: str,
) -> None:
    async def must_fail(call: Callable[..., Any], *args: Any) -> None:
        with pytest.raises(SandboxError, match=rf"^sandbox: modal: the connection was lost: {why}$"):
            await call(*args)

    modal_double.abrupt = status == STATUS.GENERIC_STATUS_TIMEOUT
    async with open_sandboxes(modal) as opened, opened() as other:
        struck = opened()
        async with struck:
            container = modal_double.living()[-1]
            async with anyio.create_task_group() as group:
                group.start_soon(must_fail, struck.exec, "sleep 30")
                await anyio.sleep(0.2)
                await anyio.to_thread.run_sync(modal_double.end, container, status)
            await must_fail(struck.read, "x")  # it stays lost
        assert (await other.exec("echo still")).output == "still\n"
    assert len(modal_double.containers) == 2


async def test_what_is_sent_to_a_container_that_has_ended_says_why_it_ended(
    modal: SandboxConfig,
    modal_double: ModalDouble,
) -> None:
    async with open_sandbox(modal):
        container = only(modal_double)
        sandbox = await Sandbox.from_id.aio(container.id)
        stream = ModalStream(sandbox, await sandbox.exec.aio("cat", text=False), 3600)
        await anyio.to_thread.run_sync(modal_double.end, container, STATUS.GENERIC_STATUS_TIMEOUT)
        for _ in range(2):  # it stays broken
            with pytest.raises(OSError, match="the container's time is over"):
                await stream.send(b"x")


async def test_a_container_that_ends_before_it_is_used_is_an_error_of_the_service(
    modal: SandboxConfig,
    modal_double: ModalDouble,
) -> None:
    modal_double.failures["TaskExecStart"] = GRPCError(Status.NOT_FOUND, "Task not found")
    with pytest.raises(SandboxError, match=r"^sandbox: modal: Task not found$"):
        async with open_sandbox(modal):
            pass
    assert modal_double.living() == []


async def test_a_lifetime_ends_at_the_service(
    modal: SandboxConfig,
    modal_double: ModalDouble,
) -> None:
    section = ModalConfig().model_copy(update={"max_seconds": 1})
    with pytest.raises(SandboxError, match=r"^sandbox: modal: "):
        async with open_sandbox(modal.model_copy(update={"modal": section})) as sandbox:
            await sandbox.exec("sleep 30")
    (container,) = modal_double.containers
    assert container.result is not None
    assert container.result.status == STATUS.GENERIC_STATUS_TIMEOUT


async def test_a_connection_that_is_cut_is_resumed_at_its_byte(
    modal: SandboxConfig,
    modal_double: ModalDouble,
) -> None:
    data = os.urandom(3_000_000)
    async with open_sandbox(modal) as sandbox:
        await sandbox.exec("export X=1")

        async def cut() -> None:
            for _ in range(8):
                await anyio.sleep(0.05)
                modal_double.cut_connections()

        async with anyio.create_task_group() as group:
            group.start_soon(cut)
            for number in range(6):
                await sandbox.write(f"f{number}", data)
                assert await sandbox.read(f"f{number}", len(data)) == data
        assert (await sandbox.exec("echo $X; ls | wc -l")).output == "1\n6\n"
    assert len(modal_double.containers) == 1


async def test_a_connection_that_stays_cut_strikes_the_sandbox_and_the_next_one_is_new(
    modal: SandboxConfig,
    modal_double: ModalDouble,
) -> None:
    gone = GRPCError(Status.NOT_FOUND, "no such machine")
    async with open_sandboxes(modal) as opened:
        async with opened() as struck:
            modal_double.failures |= {"TaskExecStdioRead": gone, "TaskExecStdinWrite": gone}
            modal_double.cut_connections()
            with pytest.raises(SandboxError, match=r"^sandbox: modal: the connection was lost: no such machine$"):
                await struck.exec("true")
            modal_double.failures.clear()
            with pytest.raises(SandboxError, match="the connection was lost"):
                await struck.exec("true")
        assert modal_double.living() == []
        async with opened() as fresh:
            assert (await fresh.exec("echo again")).output == "again\n"
    assert len(modal_double.containers) == 2


async def test_an_image_without_python_says_so(
    modal: SandboxConfig,
    modal_double: ModalDouble,
) -> None:
    modal_double.without_python = True
    with pytest.raises(SandboxError, match=r"^sandbox: modal: .*; it said: /bin/sh: .*python3: not found"):
        async with open_sandbox(modal):
            pass
    assert modal_double.living() == []


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
    modal: SandboxConfig,
    modal_double: ModalDouble,
    tmp_path: Path,
) -> None:
    async with open_sandboxes(modal) as opened, opened() as living:
        process = await anyio.open_process([sys.executable, "-c", HARNESS])
        assert process.stdout is not None
        assert (await process.stdout.receive()).startswith(b"up")
        process.send_signal(signal.SIGKILL)
        await process.wait()
        await process.aclose()
        assert len(modal_double.living()) == 4
        elsewhere = modal.model_copy(update={"modal": ModalConfig(app="other")})
        async with open_sandbox(elsewhere):
            assert len(modal_double.living()) == 5  # another app is not looked at
        async with open_sandbox(modal):
            assert len(modal_double.living()) == 2
        assert (await living.exec("echo here")).output == "here\n"
        assert len(leases(tmp_path)) == 1
    assert leases(tmp_path) == []


async def test_what_could_not_be_ended_is_ended_at_the_end_of_the_run_or_by_the_next_one(
    modal: SandboxConfig,
    modal_double: ModalDouble,
    tmp_path: Path,
) -> None:
    refusal = GRPCError(Status.FAILED_PRECONDITION, "not now")
    async with open_sandboxes(modal) as opened:
        async with opened():
            modal_double.failures["SandboxTerminateV2"] = refusal
        assert len(modal_double.living()) == 1
        modal_double.failures.clear()
    assert modal_double.living() == []
    assert leases(tmp_path) == []
    async with open_sandbox(modal):
        modal_double.failures["SandboxTerminateV2"] = refusal
    assert len(modal_double.living()) == len(leases(tmp_path)) == 1
    modal_double.failures.clear()
    async with open_sandbox(modal):
        assert len(modal_double.living()) == 1
    assert modal_double.living() == leases(tmp_path) == []


async def test_a_sandbox_whose_making_was_cancelled_is_ended_with_the_run(
    modal: SandboxConfig,
    modal_double: ModalDouble,
    tmp_path: Path,
) -> None:
    async with open_sandboxes(modal) as opened:
        modal_double.answers_after = 30

        async def make() -> None:
            async with opened():
                pass

        await processes.cancelled_once(lambda: len(modal_double.living()) == 1, make)
    assert modal_double.living() == []
    assert len(leases(tmp_path)) == 1  # if it had come later still, the next run would end it
    modal_double.answers_after = 0
    async with open_sandbox(modal):
        pass
    assert leases(tmp_path) == []
