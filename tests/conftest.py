"""What every test gets."""

import os
from collections.abc import Generator

import pytest
from hypothesis import settings

# A loaded machine is no failure: no test asserts a time.
settings.register_profile("lab", deadline=None)
settings.load_profile("lab")


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
