"""Relays log messages to the user."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

COMPILER = "hermes_lab.skills.compiled.compile"
"""The skill compiler's logger. All of its messages are shown to the user."""
_episode: ContextVar[str] = ContextVar("_episode")


@contextmanager
def relay_logs(
    say: Callable[[str], None], *, named: bool = False, loggers: Sequence[str] = (COMPILER,)
) -> Iterator[None]:
    """Passes log messages of these loggers, from INFO on, to `say`; `named` prefixes the episode's key."""
    handler = _RelayHandler(say, named)
    logs = [logging.getLogger(name) for name in loggers]
    before = [(log.level, log.propagate) for log in logs]
    for log in logs:
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        log.propagate = False
    try:
        yield
    finally:
        for log, (level, propagate) in zip(logs, before, strict=True):
            log.removeHandler(handler)
            log.level, log.propagate = level, propagate


@contextmanager
def episode_context(episode: str) -> Iterator[None]:
    """Attributes log messages within the block to an episode, given by its key."""
    token = _episode.set(episode)
    try:
        yield
    finally:
        _episode.reset(token)


def current_episode() -> str:
    """The episode's key set by `episode_context`, or ""."""
    return _episode.get("")


class _RelayHandler(logging.Handler):
    def __init__(self, say: Callable[[str], None], named: bool) -> None:
        super().__init__()
        self._say = say
        self._named = named

    def emit(self, record: logging.LogRecord) -> None:
        self._say(f"{_episode.get()}: {record.getMessage()}" if self._named else record.getMessage())
