"""What every test gets."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
