"""The log of an update: whole lines, whatever happens to it."""

import re
import resource
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
