"""The screen of an interactive chat: a prompt at the bottom, which stays while the agent works above it."""

import asyncio
import io
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.output import ColorDepth, create_output
from prompt_toolkit.patch_stdout import patch_stdout
from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text

from hermes_lab.chat.conversation import Turn
from hermes_lab.chat.endings import as_json, chosen, why_no_answer
from hermes_lab.commands.registry import Completion as Offered
from hermes_lab.config.home import DisplayConfig, Verbosity
from hermes_lab.protocols import Delta
from hermes_lab.runners.chat.blocks import Blocks
from hermes_lab.sessions import Session
from hermes_lab.text.printable import printable
from hermes_lab.tools.registry import Ask
from hermes_lab.types import ToolCall, ToolResult

Complete = Callable[[str], Iterable[Offered]]
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_TICK_SECONDS = 0.1
_RESULT_LINES = 20
_TAIL_LINES = 8
"""Lines of an unfinished block that stand above the prompt."""


class Screen:
    """See `Surface`. `working` says what the agent does and since when (`time.monotonic`), for the waiting sign."""

    def __init__(self, history: Path, display: DisplayConfig, *, json: bool = False) -> None:
        self.verbosity: Verbosity = display.verbose
        self._mono = display.skin == "mono"
        self._sign = display.prompt
        self._json = json
        self._working: tuple[str, float] | None = None
        self._last_tool = ""
        self._blocks = Blocks()
        self._told = False
        self._answer: asyncio.Future[str] | None = None
        self._answers_to = None if sys.stdout.isatty() else sys.stdout
        self._completer = _CommandCompleter()
        self.on_interrupt: Callable[[], bool] = lambda: False
        """Called for Ctrl-C. Returns whether there was something to stop."""
        self._session: PromptSession[str] = PromptSession(
            self._prompt,
            output=create_output(always_prefer_tty=True),
            color_depth=ColorDepth.MONOCHROME if self._mono else None,
            history=_private_history(history),
            completer=self._completer,
            complete_while_typing=False,
            key_bindings=self._keys(),
            reserve_space_for_menu=4,
            erase_when_done=True,  # what stands above the prompt is not kept
        )
        self._leaving = False

    @contextmanager
    def shown(self, complete: Complete) -> Iterator[None]:
        """While this runs, what is printed stands above the prompt."""
        self._completer.complete = complete
        with patch_stdout(raw=True):
            yield

    async def read(self) -> str:
        """The next message or command. Raises `EOFError` at Ctrl-D, or at Ctrl-C twice with nothing to stop. Answers to
        questions of tools go to them."""
        while True:
            line = await self._session.prompt_async(handle_sigint=False)
            self._leaving = False
            prompt = "? " if self._answer else self._sign
            self._print(Text(prompt + printable(line, keep="\n\t"), style="bold"))
            if self._answer and not self._answer.done():
                self._answer.set_result(line.strip())
            else:
                return line

    async def tick(self) -> None:
        """Keeps the waiting sign moving."""
        while True:
            await anyio.sleep(_TICK_SECONDS)
            if self._working:
                self._session.app.invalidate()

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """Shows the waiting sign."""
        self._working = (what, time.monotonic())
        try:
            yield
        finally:
            self._end_text()  # of a turn that was stopped or failed
            self._working = None
            self._session.app.invalidate()

    @property
    def ask(self) -> Ask:
        """See `Surface.ask`."""
        return self._ask

    async def _ask(self, question: str, choices: tuple[str, ...]) -> str:
        self._print(Text(printable(question, keep="\n\t"), style="bold"))
        for number, choice in enumerate(choices, 1):
            self._print(Text(f"  {number}. {printable(choice)}"))
        self._answer = asyncio.get_running_loop().create_future()
        self._session.app.invalidate()
        try:
            line = await self._answer
        finally:
            self._answer = None
        return chosen(line, choices)

    @property
    def send(self) -> None:
        """See `Surface.send`: there is no chat platform."""
        return

    def note(self, text: str) -> None:
        """See `Surface.note`."""
        self._print(Text(printable(text, keep="\n\t"), style="dim"))

    def reply(self, text: str) -> None:
        """See `Display.reply`."""
        self.note(text)

    def error(self, text: str) -> None:
        """Shows a failure."""
        self._print(Text(printable(text), style="red"))

    def text(self, delta: Delta) -> None:
        """See `Surface.text`: prints each block of Markdown once it is whole; the rest stands above the prompt."""
        if self._json or self._answers_to:
            return
        if delta.kind == "restart":
            self._blocks = Blocks()
            if self._told:
                self.note("the reply broke off; it begins again")
            self._told = False
        elif delta.kind == "text":
            for block in self._blocks.add(delta.text):
                self._show_block(block)

    def _show_block(self, block: str) -> None:
        if block.strip():
            self._told = True
            self._print(Markdown(printable(block, keep="\n\t")))

    def _end_text(self) -> bool:
        """Prints what is left of a reply's text. Returns whether anything was told of it."""
        self._show_block(self._blocks.rest())
        told, self._told = self._told, False
        return told

    def call(self, call: ToolCall) -> None:
        """See `Surface.call`."""
        self._end_text()
        repeated, self._last_tool = call.name == self._last_tool, call.name
        if self.verbosity == "off" or (self.verbosity == "new" and repeated):
            return
        arguments = call.raw or json.dumps(call.arguments, ensure_ascii=False)
        line = printable(f"{call.name} {arguments}")
        self._print(Text.assemble(("● ", "cyan"), (self._fitting(line, 2), "dim")))

    def result(self, call: ToolCall, result: ToolResult) -> None:
        """See `Surface.result`."""
        del call
        if self.verbosity in ("all", "verbose") and not result.ok:
            reason = printable(str(json.loads(result.content)["error"]).strip().partition("\n")[0])
            self._print(Text(self._fitting(f"  error: {reason}", 0), style="red"))
        elif self.verbosity == "verbose":
            lines = printable(_readable(result.content), keep="\n\t").splitlines()
            more = [f"... {len(lines) - _RESULT_LINES} more lines"] if len(lines) > _RESULT_LINES else []
            self._print(Text("\n".join(f"  {line}" for line in [*lines[:_RESULT_LINES], *more]), style="dim"))

    def turn(self, session: Session, turn: Turn) -> None:
        """Shows the end of a turn."""
        self._last_tool, told = "", self._end_text()
        if self._json:
            print(as_json(session, turn), file=self._answers_to or sys.stdout, flush=True)
            return
        if turn.answer is not None:
            if self._answers_to:
                print(turn.answer, file=self._answers_to, flush=True)
            elif not told:
                self._print(Markdown(printable(turn.answer, keep="\n\t")))
        if why := why_no_answer(turn):
            self.note(why)

    def interrupt(self) -> None:
        """Handles Ctrl-C: stops the turn, else clears what is typed, else leaves the chat at the second one."""
        buffer = self._session.default_buffer
        if self.on_interrupt():
            self._leaving = False
        elif buffer.text:
            buffer.reset()
        elif self._leaving and self._session.app.is_running:
            self._session.app.exit(exception=EOFError)
        else:
            self._leaving = True
            self.note("Ctrl-C again or Ctrl-D leaves the chat")

    def _print(self, content: Any) -> None:
        width = shutil.get_terminal_size((100, 24)).columns
        no_color = self._mono or "NO_COLOR" in os.environ
        console = Console(file=io.StringIO(), force_terminal=True, width=width, no_color=no_color)
        console.print(content, soft_wrap=isinstance(content, Text))
        out = sys.stderr if self._answers_to else sys.stdout
        out.write(console.file.getvalue())  # type: ignore[attr-defined]  # a StringIO
        out.flush()

    def _fitting(self, line: str, before: int) -> str:
        width = shutil.get_terminal_size((100, 24)).columns - before
        return line if len(line) < width else line[: width - 4] + "..."

    def _prompt(self) -> StyleAndTextTuples:
        shown: StyleAndTextTuples = []
        if self._working and (tail := self._blocks.tail(_TAIL_LINES)):
            shown.append(("", printable(tail, keep="\n") + "\n"))
        if self._working and not self._answer:
            what, since = self._working
            seconds = time.monotonic() - since
            frame = _FRAMES[int(seconds / _TICK_SECONDS) % len(_FRAMES)]
            shown.append(("ansibrightblack", f"{frame} {what} {seconds:.0f} s (Ctrl-C stops)\n"))
        shown.append(("bold", "? " if self._answer else self._sign))
        return shown

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("c-c")
        def _(event: KeyPressEvent) -> None:
            del event
            self.interrupt()

        @keys.add("escape", "enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        return keys


class _CommandCompleter(Completer):
    def __init__(self) -> None:
        self.complete: Complete | None = None

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        del complete_event
        for offered in self.complete(document.text_before_cursor) if self.complete else ():
            yield Completion(offered.text, -offered.length, display_meta=offered.about)


def _private_history(path: Path) -> FileHistory:
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
    return FileHistory(path)


def _readable(content: str) -> str:
    """A tool result's JSON with its texts as they are."""
    try:
        found = json.loads(content)
    except ValueError:
        return content
    if not isinstance(found, dict):
        return content
    return "\n".join(f"{name}: {text if isinstance(text, str) else json.dumps(text)}" for name, text in found.items())
