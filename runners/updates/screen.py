"""What an update prints: on the terminal as long as there is one, and always in a log."""

import errno
import os
import select
import signal
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from hermes_lab.errors import ConfigError

_LARGE = 1 << 20
_NEWLINE = b"\n"


class Screen:
    """Prints lines to stderr, and writes them to the log with a time and the id of this update.

    The terminal may close, and the reader of a pipe may leave: the update goes on, and its log tells how it ended. A
    terminal may be paused with Ctrl-S: the update goes on, and what it said appears later. The disk may be full: the
    update goes on, and the terminal has one line that its log is not complete.
    """

    def __init__(self, log: Path, id: str, *, quiet: bool = False) -> None:
        self.log = log
        self.temporary = ""
        """The folder for the temporary files of the programs that are started."""
        self._id = id
        self._quiet = quiet
        self._gone = False
        self._waiting = deque[str]()
        """Lines that a paused terminal did not take yet."""
        self._failed = False
        try:
            log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if log.exists() and log.stat().st_size > _LARGE:
                log.replace(log.with_name(f"{log.name}.1"))
            self._log = os.open(log, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            size = os.fstat(self._log).st_size
            self._cut = size > 0 and os.pread(self._log, 1, size - 1) != _NEWLINE
            """Whether the last line in the log is not complete."""
        except OSError as error:
            raise ConfigError(f"{log}: cannot be written: {error.strerror}") from None

    def say(self, line: str) -> None:
        """A line for the person and the log."""
        self.note(line)
        if not self._quiet:
            self._show(line)

    def note(self, line: str) -> None:
        """A line for the log alone. Raises nothing: a log that cannot be written is told on the terminal, once."""
        text = " ".join(line.splitlines()).rstrip()
        data = f"{datetime.now(UTC).isoformat(timespec='seconds')} {self._id} {text}\n".encode(errors="replace")
        data = _NEWLINE * self._cut + data
        try:
            while data:  # one call, so that a kill leaves whole lines, unless the disk is full
                written = os.write(self._log, data)
                self._cut = not data[:written].endswith(_NEWLINE)
                data = data[written:]
        except OSError as error:
            if not self._failed:
                self._failed = True
                self._show(f"warning: {self.log}: cannot be written: {error.strerror}; its lines are missing there")

    def close(self) -> None:
        """Closes the log, and waits for a paused terminal."""
        os.close(self._log)
        while self._waiting:
            self._print(self._waiting.popleft())

    def _show(self, line: str) -> None:
        self._waiting.append(line)
        while self._waiting and _is_ready():
            self._print(self._waiting.popleft())

    def _print(self, line: str) -> None:
        if self._gone:
            return
        try:
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()
        except OSError as error:
            self._gone = True
            gone = (1, 2) if error.errno == errno.EIO else (2,)  # a closed terminal, or a closed pipe
            silence = os.open(os.devnull, os.O_WRONLY)
            for descriptor in gone:
                os.dup2(silence, descriptor)
            os.close(silence)


def _is_ready() -> bool:
    """Whether stderr takes a line at once. A terminal that is paused does not, and neither does a full pipe."""
    try:
        return bool(select.select([], [sys.stderr], [], 0)[1])
    except (OSError, ValueError):  # it is no file
        return True


@contextmanager
def hangups_ignored() -> Iterator[None]:
    """Ignores SIGHUP here and in every process that is started meanwhile, so that a closed terminal ends nothing."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)
