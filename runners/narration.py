"""What the agent's own machinery says as it works, such as the compiler of skills, as lines for the person."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_COMPILER = "hermes_lab.skills.compile"


@contextmanager
def narrated(say: Callable[[str], None]) -> Iterator[None]:
    """Passes every line of the compiler to `say` while it is open."""
    handler = _Says(say)
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


class _Says(logging.Handler):
    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        self._say(record.getMessage())
