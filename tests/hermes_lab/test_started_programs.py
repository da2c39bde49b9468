"""Programs end with what started them."""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from hermes_lab.processes import NotStarted, started


def test_an_interrupt_during_the_start_ends_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[subprocess.Popen[str]] = []
    start = subprocess.Popen

    def start_and_press(*args: Any, **options: Any) -> subprocess.Popen[str]:
        begun.append(start(*args, **options))
        os.kill(os.getpid(), signal.SIGINT)
        return begun[0]

    monkeypatch.setattr(subprocess, "Popen", start_and_press)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), started(["sleep", "60"], environment=os.environ):
        pass
    assert begun[0].returncode == -signal.SIGKILL
    assert signal.getsignal(signal.SIGINT) is before


def test_an_error_ends_what_the_program_has_started() -> None:
    children: list[int] = []

    def use() -> None:
        with started(["sh", "-c", "sleep 3600 & echo $!; wait"], environment=os.environ) as program:
            assert program.stdout is not None
            children.append(int(program.stdout.readline()))
            raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        use()
    while _runs(children[0]):  # a kill takes effect a moment later; without one this ends with the limit of a test
        time.sleep(0.01)


def test_a_program_that_is_not_there_says_why() -> None:
    with pytest.raises(NotStarted, match="No such file or directory"), started(["/no/program"], environment={}):
        pass


@pytest.mark.parametrize("one_output", [True, False])
def test_it_is_waited_for_and_its_output_is_text(one_output: bool) -> None:
    with started(["sh", "-c", "echo out; echo err >&2"], environment=os.environ, one_output=one_output) as program:
        said, complained = program.communicate()
    assert program.returncode == 0
    assert (said, complained) == (("out\nerr\n", None) if one_output else ("out\n", "err\n"))


def _runs(pid: int) -> bool:
    """Whether the process is there, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
