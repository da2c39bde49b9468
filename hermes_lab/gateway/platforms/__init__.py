"""The chat platforms: one module each with a `PLATFORM`, and those that other packages provide."""

import importlib
from importlib.metadata import entry_points
from typing import Any

from hermes_lab.config.gateway import GatewayConfig
from hermes_lab.errors import ConfigError
from hermes_lab.gateway.platform import Platform

ENTRY_POINTS = "hermes_lab.platforms"
BUILT_IN = ("http", "telegram", "matrix", "email")


def open_platform(name: str, config: GatewayConfig) -> Platform:
    """The platform of that name. Raises `ConfigError` if there is none, or if a package that it needs is missing."""
    if name in BUILT_IN:
        built_in: Platform = importlib.import_module(f"{__name__}.{name}").PLATFORM(getattr(config, name))
        return built_in
    provided: dict[str, Any] = {each.name: each for each in entry_points(group=ENTRY_POINTS)}
    if name not in provided:
        raise ConfigError(f"gateway.platforms: no platform {name!r}; there are: {', '.join((*BUILT_IN, *provided))}")
    found: Platform = provided[name].load()(config.options.get(name, {}))
    return found
