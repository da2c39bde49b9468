"""Terminal input and output of a chat: answers go to stdout, everything else to stderr; Ctrl-C stops a turn."""

import asyncio
import io
import json
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import anyio
import msgspec
import typer

from hermes_lab.chat.conversation import Turn
from hermes_lab.errors import ToolError
from hermes_lab.runners.tables import printable
from hermes_lab.sessions import Session
from hermes_lab.tools.registry import Ask
from hermes_lab.types import ToolCall, ToolResult

_WHY_NO_ANSWER = {
    "empty": "the model's reply was empty",
    "length": "the reply was cut off at its token limit (model.sampling.max_tokens)",
    "context_full": "the conversation no longer fits the context window; /compress it, or start another session",
    "max_iterations": "the turn reached its limit of model calls (agent.max_iterations)",
    "max_seconds": "the turn reached its time limit (agent.max_seconds)",
    "max_tokens": "the turn reached its token limit (agent.max_tokens)",
    "max_cost": "the turn reached its cost limit (agent.max_cost)",
    "repeated": "the same call kept giving the same result (agent.max_repeats)",
}

_SLOW_SECONDS = 2.0


class Terminal:
    """Reads input, prints output and handles Ctrl-C. `interrupted`: Ctrl-C stopped the last `interruptible` block;
    `terminated`: the process received SIGTERM."""

    def __init__(self, *, json: bool) -> None:
        self._json = json
        self._scope: anyio.CancelScope | None = None
        self.interrupted = False
        self.terminated = False
        self.interactive = sys.stdin.isatty()
        if self.interactive:
            if isinstance(sys.stdin, io.TextIOWrapper):
                sys.stdin.reconfigure(errors="replace")
            with suppress(ImportError):
                import readline  # noqa: F401  (gives `input` line editing and history)

    def read(self, prompt: str) -> str:
        """Reads a line. Blocks the event loop, which has nothing to do meanwhile. Raises `EOFError` on Ctrl-D and
        `KeyboardInterrupt` on Ctrl-C and SIGTERM."""

        def terminate(number: int, frame: FrameType | None) -> None:
            self.terminated = True
            signal.default_int_handler(number, frame)

        before = signal.signal(signal.SIGINT, signal.default_int_handler), signal.signal(signal.SIGTERM, terminate)
        try:
            if sys.stdout.isatty():
                return input(prompt)
            typer.echo(prompt, err=True, nl=False)
            return input()
        finally:
            signal.signal(signal.SIGINT, before[0])
            signal.signal(signal.SIGTERM, before[1])

    @property
    def ask(self) -> Ask | None:
        """How tools ask the user a question; None if stdin is not a terminal."""
        return self._ask if self.interactive else None

    async def _ask(self, question: str, choices: tuple[str, ...]) -> str:
        typer.echo(printable(question, keep="\n\t"), err=True)
        for number, choice in enumerate(choices, 1):
            typer.echo(f"  {number}. {printable(choice)}", err=True)
        try:
            line = self.read("? ").strip()
        except EOFError:
            line = ""
        except KeyboardInterrupt:
            assert self._scope is not None
            self._scope.cancel()
            await anyio.sleep_forever()
        if not line:
            raise ToolError("the user gave no answer; decide alone, say what you assumed, and go on")
        if line.isdecimal() and 1 <= int(line) <= len(choices):
            return choices[int(line) - 1]
        return line

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM cancel the block; execution continues after it."""
        loop, scope = asyncio.get_running_loop(), anyio.CancelScope()

        def stop(number: signal.Signals) -> None:
            self.terminated |= number == signal.SIGTERM
            scope.cancel()

        self._scope = scope
        # Handlers of the loop wake it up; a plain handler could wait for the next event if it ran just before a select.
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        for number in before:
            loop.add_signal_handler(number, stop, number)
        try:
            with scope:
                yield
        finally:
            for number, handler in before.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)
        self.interrupted = scope.cancelled_caught

    def note(self, text: str) -> None:
        """Prints a dimmed status line."""
        typer.secho(printable(text), dim=True, err=True)

    @contextmanager
    def note_if_slow(self, text: str) -> Iterator[None]:
        """Prints `text` if the block takes longer than `_SLOW_SECONDS`."""
        timer = asyncio.get_running_loop().call_later(_SLOW_SECONDS, self.note, text)
        try:
            yield
        finally:
            timer.cancel()

    def call(self, call: ToolCall) -> None:
        """Prints a dimmed line for a tool call that starts."""
        arguments = call.raw or json.dumps(call.arguments, ensure_ascii=False)
        self._note_cut(f"{call.name} {arguments}")

    def failure(self, result: ToolResult) -> None:
        """Prints a dimmed line for a tool call that failed."""
        reason = str(json.loads(result.content)["error"]).strip()
        self._note_cut(f"  error: {reason.partition(chr(10))[0]}")

    def _note_cut(self, line: str) -> None:
        width = shutil.get_terminal_size((120, 24)).columns
        self.note(line if len(line) < width else line[: width - 4] + "...")

    def turn(self, session: Session, turn: Turn) -> None:
        """Prints the result of a turn."""
        if self._json:
            content = {"session": session.id, "name": session.name, "answer": turn.answer, "stop_reason": turn.stop}
            typer.echo(msgspec.json.encode(content | {"usage": msgspec.to_builtins(turn.usage)}).decode())
            return
        if turn.answer is not None:
            sys.stdout.write((printable(turn.answer, keep="\n\t") if sys.stdout.isatty() else turn.answer) + "\n")
            sys.stdout.flush()
        if why := _WHY_NO_ANSWER.get(turn.stop):
            self.note(why if turn.answer is not None else f"no answer: {why}")
