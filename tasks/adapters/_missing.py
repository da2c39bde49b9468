"""What is said where a third-party suite is not installed."""

from hermes_lab.errors import ConfigError


def not_installed(suite: str, extra: str, *apart: str) -> ConfigError:
    """`apart` are packages that an extra cannot give, since what they ask for beside is not what they need."""
    also = f" && pip install --no-deps {' '.join(apart)}" if apart else ""
    return ConfigError(f"suite.name: {suite} is not installed: pip install 'hermes-lab[{extra}]'{also}")
