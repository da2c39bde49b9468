"""The chat platforms: one module each with a `PLATFORM`, and those that other packages provide."""

from importlib import import_module

from hermes_lab.config.gateway import GatewayConfig
from hermes_lab.errors import ConfigError
from hermes_lab.gateway.platform import Platform
from hermes_lab.plugins import PluginGroup
from hermes_lab.text.suggest import did_you_mean

_PLUGINS = PluginGroup("hermes_lab.platforms", "gateway.platforms")
BUILT_IN = ("http", "telegram", "matrix", "email", "slack", "discord")


def open_platform(name: str, config: GatewayConfig) -> Platform:
    """The platform of that name. Raises `ConfigError` if there is none, if a package that it needs is missing, or if
    another package's cannot be made."""
    if name in BUILT_IN:
        built_in: Platform = import_module(f"{__name__}.{name}").PLATFORM(getattr(config, name))
        return built_in
    if plugin := _PLUGINS.find(name):
        found: Platform = plugin.create(config.options.get(name, {}))
        if found.name != name:
            raise plugin.error(f"is named {found.name!r}", "give both the same name")
        return found
    known = [*BUILT_IN, *_PLUGINS.names()]
    meant = did_you_mean(name, known)
    raise ConfigError(f"gateway.platforms: there is no platform {name!r}{meant} (known: {', '.join(known)})")
