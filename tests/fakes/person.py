"""Somebody at a real terminal: tmux runs the program, takes keys and says what is on the screen."""

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

LONGEST = 60.0
"""Seconds that anything may take before a test fails."""


class Person:
    """Runs a command in a terminal of 110 x 50 characters, until `leave`."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self._tmux = ["tmux", "-L", f"hermes-lab-{secrets.token_hex(6)}", "-f", str(folder / "tmux.conf")]
        (folder / "tmux.conf").write_text(
            "set -g remain-on-exit on\nset -g history-limit 10000\nset -sg escape-time 10\n"
        )
        environment = {name: value for name, value in os.environ.items() if name not in ("TMUX", "NO_COLOR")}
        subprocess.run(
            [*self._tmux, "new-session", "-d", "-x", "110", "-y", "50", *command], env=environment, check=True
        )

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

    def sees_no(self, text: str) -> None:
        """Waits until `text` has gone from the screen."""
        limit = time.monotonic() + LONGEST
        while text in (shown := self._run("capture-pane", "-p")):
            if time.monotonic() > limit:
                raise AssertionError(f"{text!r} is still shown:\n{shown}")
            time.sleep(0.05)

    def screen(self) -> str:
        """Everything shown so far."""
        return self._run("capture-pane", "-p", "-J", "-S", "-")

    def signals(self, number: signal.Signals) -> None:
        """Sends the program a signal."""
        os.kill(int(self._run("display", "-p", "#{pane_pid}")), number)

    def ends(self) -> int:
        """The program's exit code, once it has ended."""
        limit = time.monotonic() + LONGEST
        while time.monotonic() < limit:
            dead, status = self._run("display", "-p", "#{pane_dead};#{pane_dead_status}").strip().split(";")
            if dead == "1" and status:  # tmux may see the end of its output before that of the program
                return int(status)
            time.sleep(0.05)
        raise AssertionError(f"still running:\n{self.screen()}")

    def dies(self) -> None:
        """Kills the program, and waits until it is gone. tmux does not tell an exit code then."""
        self.signals(signal.SIGKILL)
        while self._run("display", "-p", "#{pane_dead}").strip() != "1":
            time.sleep(0.05)

    def leave(self) -> None:
        """Ends the terminal and the program."""
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False)

    def _run(self, *command: str) -> str:
        return subprocess.run([*self._tmux, *command], capture_output=True, text=True, check=True).stdout
