"""What a worker says where it cannot begin."""

import anyio
import pytest

from hermes_lab.config.schema import RunConfig, SuiteConfig
from hermes_lab.errors import SandboxError
from hermes_lab.runners.engine.worker import Setup, Worker
from hermes_lab.tasks.registry import load_suite

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (SandboxError("no bubblewrap"), "no bubblewrap"),
        (ImportError("libgone.so"), "ImportError: libgone.so"),
    ],
)
async def test_whatever_is_in_the_way_of_a_worker_is_told_and_nobody_waits_for_it(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: object) -> None:
        raise error

    monkeypatch.setattr("hermes_lab.runners.engine.worker.probe", fail)
    worker = Worker(Setup(RunConfig(), "", load_suite(SuiteConfig(name="ledger")), (), {}))
    with anyio.fail_after(10):
        await worker.serve()
        assert said in await worker.ready()
        await worker.close()
