"""An external memory provider: at most one third-party memory besides the built-in one, isolated so that it cannot
break a turn.

Packages register one in the entry point group `hermes_lab.memory_providers`: a class or function that returns a
`MemoryProvider` when called without arguments. `memory.provider` selects it.
"""

import logging
from collections.abc import Callable, Iterable
from itertools import islice
from threading import Lock, Thread
from typing import Protocol, TypeVar

from hermes_lab.errors import ConfigError
from hermes_lab.plugins import PluginGroup

T = TypeVar("T")
_PLUGINS = PluginGroup("hermes_lab.memory_providers", "memory.provider")
_TIMEOUT = 5.0
_log = logging.getLogger(__name__)


class MemoryProvider(Protocol):
    """What a package implements. Both calls may block; they come from a thread of their own, one at a time."""

    def recall(self, query: str) -> Iterable[str]:
        """Texts that may help with a message, best first."""
        ...

    def remember(self, text: str) -> None:
        """Stores what was done."""
        ...


class GuardedProvider:
    """Wraps a provider so that it cannot break a turn: if it fails or exceeds `timeout` seconds, nothing is recalled.

    The next call starts only after the previous one returned, so a hanging provider blocks a single daemon thread.
    """

    def __init__(self, name: str, provider: MemoryProvider, timeout: float = _TIMEOUT) -> None:
        self.name = name
        self._provider = provider
        self._timeout = timeout
        self._busy = Lock()

    def recall(self, query: str, k: int) -> list[str]:
        """At most k texts, best first; blocks no longer than the timeout."""

        def texts() -> list[str]:
            found = self._provider.recall(query)
            if isinstance(found, str):
                raise TypeError("recall() gave one text, not several")
            return [text.encode(errors="replace").decode() for text in islice(found, k)]

        return self._guarded(texts, [])

    def remember(self, text: str) -> None:
        """Passes the text on; blocks no longer than the timeout."""
        self._guarded(lambda: self._provider.remember(text), None)

    def _guarded(self, call: Callable[[], T], otherwise: T) -> T:
        answers: list[T] = []
        if not self._busy.acquire(blocking=False):
            _log.warning("memory provider %s: skipped, since an earlier call is still running", self.name)
            return otherwise

        def run() -> None:
            try:
                answers.append(call())
            except BaseException as error:  # any exception, even SystemExit, stays the provider's own
                _log.warning("memory provider %s failed: %s: %s", self.name, type(error).__name__, error)
            finally:
                self._busy.release()

        thread = Thread(target=run, name=f"memory provider {self.name}", daemon=True)
        thread.start()
        thread.join(self._timeout)
        if thread.is_alive():
            _log.warning("memory provider %s: no answer within %g s; continuing without it", self.name, self._timeout)
            return otherwise
        return answers[0] if answers else otherwise


def open_provider(name: str) -> GuardedProvider | None:
    """The provider with that name; None for "". Raises `ConfigError` if it is not installed or cannot be created."""
    if not name:
        return None
    plugin = _PLUGINS.find(name)
    if plugin is None:
        installed = ", ".join(_PLUGINS.names()) or "none"
        raise ConfigError(f"memory.provider: no package offers {name!r}; installed: {installed}")
    return GuardedProvider(name, plugin.create())
