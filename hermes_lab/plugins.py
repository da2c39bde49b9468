"""Plugins: what other installed packages add to the lab, found by their entry points.

Finding one imports nothing. Loading one runs the code of its package, so that only what a command uses is loaded; any
failure is one `ConfigError` that names the field, the entry point, the exception and the package. `import_own` imports
the user's own module, which needs no package.
"""

import importlib
import importlib.util
import sys
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from hermes_lab.errors import ConfigError
from hermes_lab.text.suggest import did_you_mean


@dataclass(frozen=True)
class Plugin:
    """One entry point. Errors begin with `field`, the configuration field that selects it."""

    entry: EntryPoint
    field: str

    @property
    def name(self) -> str:
        """The name under which the package registers it."""
        return self.entry.name

    @property
    def package(self) -> str:
        """The distribution that registers it; "" if unknown."""
        return self.entry.dist.name if self.entry.dist else ""

    def load(self) -> Any:
        """Imports what the entry point names. Raises `ConfigError` if that fails."""
        try:
            return self.entry.load()
        except Exception as error:
            raise self._broken(error) from error

    def create(self, *arguments: Any) -> Any:
        """Loads it and calls it. Raises `ConfigError` if either fails; one that it raises itself is not changed."""
        factory = self.load()
        try:
            return factory(*arguments)
        except ConfigError:
            raise
        except Exception as error:
            raise self._broken(error) from error

    def error(self, what: str, remedy: str = "") -> ConfigError:
        """The error that says `what` is wrong with it. `remedy` says what to do, besides removing the package."""
        remedy = remedy or (
            f"update or uninstall the package {self.package}" if self.package else "update or uninstall it"
        )
        return ConfigError(f"{self.name} ({self.entry.value}) {what}; {remedy}", self.field)

    def _broken(self, error: Exception) -> ConfigError:
        text = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
        return self.error(f"cannot be loaded: {text}")


@dataclass(frozen=True)
class PluginGroup:
    """The plugins of the entry-point group `group`. Errors begin with `field`, the configuration field that selects
    one."""

    group: str
    field: str

    def names(self) -> list[str]:
        """All names, sorted. Imports nothing."""
        return sorted({entry.name for entry in entry_points(group=self.group)})

    def all(self) -> list[Plugin]:
        """All plugins, in the order of their names. Imports nothing."""
        found = sorted(entry_points(group=self.group), key=lambda entry: (entry.name, entry.value))
        return [Plugin(entry, self.field) for entry in found]

    def find(self, name: str) -> Plugin | None:
        """The plugin of that name; None if no package has one. Raises `ConfigError` if several packages do."""
        found = [Plugin(entry, self.field) for entry in entry_points(group=self.group, name=name)]
        if len(found) > 1:
            packages = ", ".join(sorted(each.package or each.entry.value for each in found))
            raise ConfigError(f"several packages offer {name!r}: {packages}; uninstall all but one", self.field)
        return found[0] if found else None


def explain_missing(module: str) -> str:
    """Why the user's own `module` is not found, and what to do: its nearest neighbour, or the right folder."""
    *folders, _ = module.split(".")
    near = did_you_mean(module, (".".join([*folders, file.stem]) for file in Path(*folders).glob("*.py")))
    remedy = near or "; run the command in the folder that contains it"
    return f"no module {module} in the current folder ({Path.cwd()}) or on Python's path{remedy}"


def is_missing(error: Exception, module: str) -> bool:
    """Whether an import failed since `module` or a package of it does not exist, rather than what it imports."""
    return isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")


def import_own(module: str) -> ModuleType:
    """Imports the module that `module:attribute` names in a configuration: as Python finds it, or from the current
    folder. That folder then stays on `sys.path`, behind everything else, so that worker processes find it too.

    Raises what the import raises.
    """
    here, top = str(Path.cwd()), module.partition(".")[0]
    if top not in {"", *sys.modules} and importlib.util.find_spec(top) is None and here not in sys.path:
        sys.path.append(here)
        importlib.invalidate_caches()
    return importlib.import_module(module)
