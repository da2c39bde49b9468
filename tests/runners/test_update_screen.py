"""The log of an update: whole lines, whatever happens to it."""

import os
import pty
import re
import resource
import sys
import termios
from pathlib import Path

import pytest

from hermes_lab.runners.updates.screen import Screen

LINE = re.compile(r"\S+ ab (.*)")


def test_a_line_that_was_cut_is_not_joined_with_the_next(tmp_path: Path) -> None:
    log = tmp_path / "update.log"
    log.write_text("cut by a ki")
    screen = Screen(log, "ab")
    screen.note("begins")
    screen.note("ends")
    screen.close()
    first, *others = log.read_text().splitlines()
    assert first == "cut by a ki"
    assert [LINE.fullmatch(line)[1] for line in others] == ["begins", "ends"]  # type: ignore[index]


def test_a_full_disk_is_told_once_and_what_fits_again_is_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "update.log"
    screen = Screen(log, "ab", quiet=True)
    screen.note("begins")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size + 10, before[1]))
        for _ in range(3):
            screen.note("too much")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    screen.note("ends")
    screen.close()
    assert capsys.readouterr().err.count("cannot be written: File too large") == 1
    first, cut, last = log.read_text().splitlines()
    assert len(cut) == 10
    assert [LINE.fullmatch(line)[1] for line in (first, last)] == ["begins", "ends"]  # type: ignore[index]


def test_a_paused_terminal_stops_nothing_and_has_all_lines_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, terminal = pty.openpty()
    screen = Screen(tmp_path / "update.log", "ab")
    with os.fdopen(terminal, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        screen.say("before")
        termios.tcflow(terminal, termios.TCOOFF)  # Ctrl-S
        screen.say("meanwhile")
        screen.say("and more")
        assert screen.log.read_text().count("\n") == 3
        os.set_blocking(reader, False)
        assert os.read(reader, 100) == b"before\r\n"
        termios.tcflow(terminal, termios.TCOON)  # Ctrl-Q
        screen.close()
        os.set_blocking(reader, True)  # the kernel passes on what was written in its own time
        said = b""
        while len(said) < len(b"meanwhile\r\nand more\r\n"):
            said += os.read(reader, 100)
        assert said == b"meanwhile\r\nand more\r\n"
    os.close(reader)


def test_a_line_break_in_what_is_noted_makes_no_line_of_its_own(tmp_path: Path) -> None:
    screen = Screen(tmp_path / "update.log", "ab")
    screen.note("$ pip install a\nb")
    screen.close()
    assert screen.log.read_text().endswith(" ab $ pip install a b\n")
