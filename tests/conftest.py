"""What every test gets."""

import os
from collections.abc import Generator

import pytest
from hypothesis import settings

# A loaded machine is no failure: no test asserts a time.
settings.register_profile("lab", deadline=None)
settings.load_profile("lab")


def pytest_configure() -> None:
    """Gives each worker's vLLM one thread on a core of its own: two on a core each do twice what one on both does.

    vLLM has a process for the model, to bind its threads, which a single thread does not need. Without it a start is a
    third cheaper.
    """
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):
        cores = sorted(os.sched_getaffinity(0))
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", str(cores[int(worker.removeprefix("gw")) % len(cores)]))
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")


LONGEST = ("test_whole_line.py", "test_results_small.py")
"""Minutes each with the real model."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files are begun first, so that no worker is left alone with one."""
    items.sort(key=lambda item: item.path.name not in LONGEST)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where HERMES_LAB_NO_SKIP is set, a part that this machine cannot run is a failure, but one that is optional."""
    report = yield
    if report.skipped and os.environ.get("HERMES_LAB_NO_SKIP") and "Skipped: optional:" not in str(report.longrepr):
        report.outcome = "failed"
        report.longrepr = f"skipped, and HERMES_LAB_NO_SKIP is set: {report.longrepr}"
    return report


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
