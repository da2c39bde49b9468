"""A harness with many open files gives a sandbox descriptors of any number."""

import os
from collections.abc import Iterator

import pytest

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.sandbox import open_sandbox

pytestmark = pytest.mark.anyio


@pytest.fixture(params=range(192, 203))
def next_descriptor(request: pytest.FixtureRequest) -> Iterator[int]:
    """All lower numbers are taken."""
    taken: list[int] = []
    while not taken or taken[-1] < request.param - 1:
        taken.append(os.open("/dev/null", os.O_RDONLY))
    yield request.param
    for fd in taken:
        os.close(fd)


@pytest.mark.parametrize("backend", ["bubblewrap", "local"])
async def test_commands_run_whatever_number_a_descriptor_has(backend: str, next_descriptor: int) -> None:
    async with open_sandbox(SandboxConfig(backend=backend, allow_local=True)) as sandbox:
        first = await sandbox.exec("export A=1; echo one")
        second = await sandbox.exec("echo $A")
    assert (first.output, second.output) == ("one\n", "1\n")
