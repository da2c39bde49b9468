"""Somebody at a real terminal: tmux runs the program, takes keys and says what is on the screen."""

import os
import re
import secrets
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

_IDLE = 5
LONGEST = 60.0
"""Seconds that anything may take before a test fails."""


class Person:
    """Runs a command in a terminal of 110 x 50 characters, until `leave`."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self._tmux = ["tmux", "-L", f"hermes-lab-{secrets.token_hex(6)}", "-f", str(folder / "tmux.conf")]
        (folder / "tmux.conf").write_text(
            "set -g remain-on-exit on\nset -g history-limit 10000\nset -sg escape-time 10\n"
        )
        self._code = folder / f"{secrets.token_hex(6)}.code"
        # tmux does not always tell an exit code, so the shell around the program does.
        script = '"$@"; echo "$?" >"$0"'
        wrapped = ["sh", "-c", script, str(self._code), *command]
        environment = {name: value for name, value in os.environ.items() if name not in ("TMUX", "NO_COLOR")}
        new = [*self._tmux, "new-session", "-d", "-x", "110", "-y", "50", *wrapped]
        subprocess.run(new, env=environment, check=True)

    def types(self, text: str, enter: bool = True) -> None:
        """Types a line."""
        self._run("send-keys", "-l", "--", text)
        if enter:
            self.presses("Enter")

    def presses(self, *keys: str) -> None:
        """Presses keys by tmux's names, such as C-c or Tab."""
        self._run("send-keys", *keys)

    def pastes(self, text: str) -> None:
        """Pastes, in brackets if the program asked for them."""
        subprocess.run([*self._tmux, "load-buffer", "-"], input=text, text=True, check=True)
        self._run("paste-buffer", "-p")

    def sees(self, text: str, times: int = 1) -> str:
        """Everything shown so far, once it has `text` that often. Long lines are joined again."""
        limit = time.monotonic() + LONGEST
        while (shown := self.screen()).count(text) < times:
            if time.monotonic() > limit:
                raise AssertionError(f"{text!r} was not shown:\n{shown}")
            time.sleep(0.05)
        return shown

    def sees_new(self, pattern: re.Pattern[str], typed: str) -> str:
        """What was shown after `typed` was last typed, once the pattern is in it and the program waits again."""
        limit, idle = time.monotonic() + LONGEST, 0
        while True:
            shown = self.screen().rpartition(f"> {typed}")[2]
            idle = idle + 1 if self._shows_prompt() else 0
            if pattern.search(shown) and idle > _IDLE:
                return shown
            if time.monotonic() > limit:
                raise AssertionError(f"{pattern.pattern!r} was not shown after {typed!r}:\n{shown}")
            time.sleep(0.05)

    def sees_prompt(self) -> None:
        """Waits until the agent's turn has ended and the program waits for a line."""
        limit, idle = time.monotonic() + LONGEST, 0
        while idle <= _IDLE:
            idle = idle + 1 if self._shows_prompt() else 0
            if time.monotonic() > limit:
                raise AssertionError(f"the turn has not ended:\n{self.screen()}")
            time.sleep(0.05)

    def _shows_prompt(self) -> bool:
        """Whether a capture shows the prompt without the hint of a running turn.

        Both are gone for a moment whenever a part of a reply is printed above them, so callers look several times.
        """
        shown = self._run("capture-pane", "-p").rstrip()
        return "Ctrl-C stops" not in shown and shown.rpartition("\n")[2].startswith(">")

    def screen(self) -> str:
        """Everything shown so far."""
        return self._run("capture-pane", "-p", "-J", "-S", "-")

    def signals(self, number: signal.Signals) -> None:
        """Sends the program a signal."""
        shell = self._run("display", "-p", "#{pane_pid}").strip()
        (child,) = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
        os.kill(int(child), number)

    def ends(self) -> int:
        """The program's exit code, once it has ended; 128 and its number for a signal."""
        limit = time.monotonic() + LONGEST
        while time.monotonic() < limit:
            if self._code.exists() and (code := self._code.read_text().strip()):
                return int(code)
            time.sleep(0.05)
        raise AssertionError(f"still running:\n{self.screen()}")

    def leave(self) -> None:
        """Ends the terminal and the program."""
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False)

    def _run(self, *command: str) -> str:
        return subprocess.run([*self._tmux, *command], capture_output=True, text=True, check=True).stdout
