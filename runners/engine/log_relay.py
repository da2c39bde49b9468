"""What the agent's own machinery says as it works, such as the compiler of skills, as lines for the person."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_COMPILER = "hermes_lab.skills.compiled.compile"
_episode: ContextVar[str] = ContextVar("_episode")


@contextmanager
def relay_logs(say: Callable[[str], None], *, named: bool = False) -> Iterator[None]:
    """Passes every line of the compiler to `say` while it is open: `named`, after its episode's name."""
    handler = _RelayHandler(say, named)
    log = logging.getLogger(_COMPILER)
    before = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.level, log.propagate = before


@contextmanager
def episode_context(episode: str) -> Iterator[None]:
    """Names the episode from which the lines are."""
    token = _episode.set(episode)
    try:
        yield
    finally:
        _episode.reset(token)


class _RelayHandler(logging.Handler):
    def __init__(self, say: Callable[[str], None], named: bool) -> None:
        super().__init__()
        self._say = say
        self._named = named

    def emit(self, record: logging.LogRecord) -> None:
        self._say(f"{_episode.get()}: {record.getMessage()}" if self._named else record.getMessage())
