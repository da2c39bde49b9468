"""An external memory provider: another package's memory beside the built-in one, at most one, and never a danger.

A package offers one as an entry point in the group `hermes_lab.memory_providers`: a class, or a function, that gives a
`MemoryProvider` when it is called without arguments. `memory.provider` names the one that is used.
"""

import logging
from collections.abc import Callable, Iterable
from importlib.metadata import entry_points
from itertools import islice
from threading import Lock, Thread
from typing import Protocol, TypeVar

from hermes_lab.errors import ConfigError

T = TypeVar("T")
_GROUP = "hermes_lab.memory_providers"
_TIMEOUT = 5.0
_log = logging.getLogger(__name__)


class MemoryProvider(Protocol):
    """What a package provides. Both calls may block; they come from a thread of their own, one at a time."""

    def recall(self, query: str) -> Iterable[str]:
        """Texts that may help with a message, the best first."""
        ...

    def remember(self, text: str) -> None:
        """Takes note of what was done."""
        ...


class GuardedProvider:
    """A provider that cannot harm a turn: one that fails, or takes more than `timeout` seconds, has recalled nothing.

    It gets its next call only when it has come back from the last one, so that one that hangs holds one thread, which
    ends with the process.
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
            _log.warning("memory provider %s: passed over, as it is still busy with an earlier call", self.name)
            return otherwise

        def run() -> None:
            try:
                answers.append(call())
            except BaseException as error:  # whatever it is, SystemExit too, it is the provider's alone
                _log.warning("memory provider %s failed: %s: %s", self.name, type(error).__name__, error)
            finally:
                self._busy.release()

        thread = Thread(target=run, name=f"memory provider {self.name}", daemon=True)
        thread.start()
        thread.join(self._timeout)
        if thread.is_alive():
            _log.warning("memory provider %s: no answer in %g s; going on without it", self.name, self._timeout)
            return otherwise
        return answers[0] if answers else otherwise


def open_provider(name: str) -> GuardedProvider | None:
    """The provider of that name; None for "". Raises `ConfigError` where it is not installed or cannot be made."""
    if not name:
        return None
    installed = sorted({entry.name for entry in entry_points(group=_GROUP)})
    found = list(entry_points(group=_GROUP, name=name))
    if len(found) != 1:
        what = "several packages offer" if found else "no package offers"
        there = ", ".join(installed) or "none"
        raise ConfigError(f"memory.provider: {what} {name!r}; installed are: {there}")
    try:
        return GuardedProvider(name, found[0].load()())
    except Exception as error:
        raise ConfigError(f"memory.provider: {name} ({found[0].value}) cannot be made: {error!r}") from error
