"""The output of a chat with a single prompt: the answer goes to stdout, everything else to stderr; Ctrl-C stops it."""

import asyncio
import json
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio.to_thread
import typer

from hermes_lab.chat.conversation import Turn
from hermes_lab.chat.endings import as_json, chosen, why_no_answer
from hermes_lab.config.home import Verbosity
from hermes_lab.protocols import Delta
from hermes_lab.sessions import Session
from hermes_lab.text.printable import printable
from hermes_lab.tools.registry import Ask
from hermes_lab.types import ToolCall, ToolResult

_SLOW_SECONDS = 2.0


class Terminal:
    """See `Surface`."""

    def __init__(self, *, json: bool) -> None:
        self.verbosity: Verbosity = "all"
        self.interactive = sys.stdin.isatty()
        self._json = json

    @property
    def ask(self) -> Ask | None:
        """See `Surface.ask`."""
        return self._ask if self.interactive else None

    async def _ask(self, question: str, choices: tuple[str, ...]) -> str:
        typer.echo(printable(question, keep="\n\t"), err=True)
        for number, choice in enumerate(choices, 1):
            typer.echo(f"  {number}. {printable(choice)}", err=True)
        typer.echo("? ", err=True, nl=False)
        # The thread is abandoned when Ctrl-C cancels the turn, which ends the process.
        line: str = await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
        return chosen(line.strip(), choices)

    @contextmanager
    def interrupts(self, stop: Callable[[], object]) -> Iterator[None]:
        """Ctrl-C and SIGTERM call `stop` instead of ending the process."""
        loop = asyncio.get_running_loop()
        # Handlers of the loop wake it up; a plain handler could wait for the next event if it ran just before a select.
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        for number in before:
            loop.add_signal_handler(number, stop)
        try:
            yield
        finally:
            for number, handler in before.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """See `Display.working`: shows nothing."""
        del what
        yield

    @property
    def send(self) -> None:
        """See `Surface.send`: there is no chat platform."""
        return

    def note(self, text: str) -> None:
        """See `Surface.note`."""
        typer.secho(printable(text, keep="\n\t"), dim=True, err=True)

    def reply(self, text: str) -> None:
        """See `Display.reply`."""
        self.note(text)

    def error(self, text: str) -> None:
        """See `Display.error`."""
        typer.echo(printable(text), err=True)

    @contextmanager
    def note_if_slow(self, text: str) -> Iterator[None]:
        """Prints `text` if the block takes longer than `_SLOW_SECONDS`."""
        timer = asyncio.get_running_loop().call_later(_SLOW_SECONDS, self.note, text)
        try:
            yield
        finally:
            timer.cancel()

    def text(self, delta: Delta) -> None:
        """See `Surface.text`: an answer is printed whole."""

    def call(self, call: ToolCall) -> None:
        """See `Surface.call`."""
        arguments = call.raw or json.dumps(call.arguments, ensure_ascii=False)
        self._note_cut(f"{call.name} {arguments}")

    def result(self, call: ToolCall, result: ToolResult) -> None:
        """See `Surface.result`: shows why a call failed."""
        del call
        if not result.ok:
            reason = str(json.loads(result.content)["error"]).strip()
            self._note_cut(f"  error: {reason.partition(chr(10))[0]}")

    def _note_cut(self, line: str) -> None:
        width = shutil.get_terminal_size((120, 24)).columns
        line = " ".join(line.splitlines())
        self.note(line if len(line) < width else line[: width - 4] + "...")

    def turn(self, session: Session, turn: Turn) -> None:
        """See `Display.turn`."""
        if self._json:
            typer.echo(as_json(session, turn))
            return
        if turn.answer is not None:
            sys.stdout.write((printable(turn.answer, keep="\n\t") if sys.stdout.isatty() else turn.answer) + "\n")
            sys.stdout.flush()
        if why := why_no_answer(turn):
            self.note(why)
