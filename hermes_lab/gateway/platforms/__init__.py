"""The chat platforms: one module each with a `PLATFORM`, and those that other packages provide."""

import difflib
from importlib import import_module
from importlib.metadata import entry_points

from hermes_lab.config.gateway import GatewayConfig
from hermes_lab.errors import ConfigError
from hermes_lab.gateway.platform import Platform

ENTRY_POINTS = "hermes_lab.platforms"
BUILT_IN = ("http", "telegram", "matrix", "email", "slack", "discord")


def open_platform(name: str, config: GatewayConfig) -> Platform:
    """The platform of that name. Raises `ConfigError` if there is none, if a package that it needs is missing, or if
    another package's cannot be made."""
    if name in BUILT_IN:
        built_in: Platform = import_module(f"{__name__}.{name}").PLATFORM(getattr(config, name))
        return built_in
    for entry in entry_points(group=ENTRY_POINTS, name=name):
        try:
            found: Platform = entry.load()(config.options.get(name, {}))
        except ConfigError:
            raise
        except Exception as error:
            what = " ".join(f"{type(error).__name__}: {error}".split())
            raise ConfigError(f"gateway.platforms: {name} ({entry.value}) cannot be loaded: {what}") from None
        if found.name != name:
            raise ConfigError(f"gateway.platforms: {name} ({entry.value}) is named {found.name!r}: name both alike")
        return found
    known = [*BUILT_IN, *sorted(entry.name for entry in entry_points(group=ENTRY_POINTS))]
    near = difflib.get_close_matches(name, known, n=1)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    raise ConfigError(f"gateway.platforms: there is no platform {name!r}{meant} (known: {', '.join(known)})")
