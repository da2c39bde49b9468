"""What the agent's own machinery says as it works, such as the compiler of skills, as lines for the person."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

COMPILER = "hermes_lab.skills.compiled.compile"
"""The logger of which every line is for the person."""
_episode: ContextVar[str] = ContextVar("_episode")


@contextmanager
def relay_logs(say: Callable[[str], None], *, named: bool = False) -> Iterator[None]:
    """Passes every line of the compiler to `say` while it is open: `named`, after its episode's name."""
    handler = _Says(say, named)
    log = logging.getLogger(COMPILER)
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
def within(episode: str) -> Iterator[None]:
    """Names the episode from which the lines are."""
    token = _episode.set(episode)
    try:
        yield
    finally:
        _episode.reset(token)


def current_episode() -> str:
    """The episode of `within`; "" outside of it."""
    return _episode.get("")


class _Says(logging.Handler):
    def __init__(self, say: Callable[[str], None], named: bool) -> None:
        super().__init__()
        self._say = say
        self._named = named

    def emit(self, record: logging.LogRecord) -> None:
        self._say(f"{_episode.get()}: {record.getMessage()}" if self._named else record.getMessage())
