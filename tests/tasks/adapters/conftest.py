"""Third-party suites are installed by `make setup`; where one is not, its tests are skipped."""

import importlib.util

import pytest


def needs(package: str, extra: str) -> pytest.MarkDecorator:
    """Skips a module's tests where a suite's package is missing."""
    missing = importlib.util.find_spec(package) is None
    return pytest.mark.skipif(
        missing, reason=f"optional: {package} is not installed: pip install 'hermes-lab[{extra}]'"
    )
