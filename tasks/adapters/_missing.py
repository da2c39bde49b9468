"""The error for third-party suites that are not installed."""

from hermes_lab.errors import ConfigError


def not_installed(suite: str, extra: str, *apart: str) -> ConfigError:
    """`apart` are packages to install with `--no-deps`, since they pin more than they need."""
    also = f" && pip install --no-deps {' '.join(apart)}" if apart else ""
    return ConfigError(f"suite.name: {suite} is not installed: pip install 'hermes-lab[{extra}]'{also}")
