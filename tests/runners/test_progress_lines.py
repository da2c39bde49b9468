"""Progress says how far, how well, how fast and how long still, over all starts, with the pace of this one."""

import io
import re

import pytest
from fakes.episodes import episode, trajectory
from rich.console import Console

from hermes_lab.skills.library import Library
from hermes_lab.types import EpisodeError, Message, Task, Usage
from runners import progress
from runners.brief import brief
from runners.plan import Lane
from runners.progress import LiveTable, Plain, Tally

WANTED = 20


@pytest.fixture
def tally() -> Tally:
    tasks = [Task(id=f"t{n}", suite="made-up", prompt="Go.") for n in range(WANTED)]
    return Tally([Lane("lane", "frozen", Library(), 1, [tasks])])


def finished(number: int, success: bool = True) -> progress.Brief:
    spoken = trajectory((Message("user", "Go."), Message("assistant", "Done.")), usage=Usage(90, 10))
    return brief(episode(f"t{number}", success=success, trajectory=spoken))


def test_a_line_counts_all_starts_and_paces_this_one(tally: Tally, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    for number in range(10):  # of an earlier start
        tally.add(finished(number))
    tally.start()
    for number in range(10, 14):
        tally.add(finished(number, success=False))
    now = 102.0
    assert tally.headline() == (
        "14/20 episodes in 0:02, 71% solved at once, 2.0 episodes/s, 200 tokens/s, about 0:03 left"
    )


def test_errors_are_told_and_count_as_no_attempt(tally: Tally) -> None:
    broken = episode("t1", status="errored", error=EpisodeError("model", "down"), success=None, score=None)
    tally.add(brief(broken))
    assert re.match(r"0/20 episodes in 0:00, 1 errored", tally.headline())
    out = io.StringIO()
    table = LiveTable(tally, Console(file=out, width=140, force_terminal=True))
    with table:
        pass
    assert "last error: model: down" in out.getvalue()


def test_without_a_terminal_there_is_a_line_every_tenth(tally: Tally) -> None:
    lines: list[str] = []
    with Plain(tally, lines.append) as told:
        for number in range(WANTED):
            told(finished(number))
    assert [line.split()[0] for line in lines] == [f"{n}/20" for n in range(2, 21, 2)]
