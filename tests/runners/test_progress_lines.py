"""Progress says how far, how well, how fast and how long still, over all starts, with the pace of this one."""

import io
import re

import pytest
from fakes.episodes import episode, trajectory
from rich.console import Console

from hermes_lab.runners.engine import tally as tally_module
from hermes_lab.runners.engine.episode_summary import EpisodeSummary, summarize
from hermes_lab.runners.engine.plan import Lane
from hermes_lab.runners.engine.tally import Tally
from hermes_lab.runners.progress import LiveTable, Plain
from hermes_lab.skills.library import Library
from hermes_lab.types import EpisodeError, Message, Task, Usage

WANTED = 20


@pytest.fixture
def tally() -> Tally:
    tasks = [Task(id=f"t{n}", suite="made-up", prompt="Go.") for n in range(WANTED)]
    return Tally([Lane("lane", "frozen", Library(), 1, [tasks])])


def finished(number: int, success: bool = True) -> EpisodeSummary:
    spoken = trajectory((Message("user", "Go."), Message("assistant", "Done.")), usage=Usage(90, 10))
    return summarize(episode(f"t{number}", success=success, trajectory=spoken))


def test_a_line_counts_all_starts_and_paces_this_one(tally: Tally, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(tally_module.time, "monotonic", lambda: now)
    for number in range(10):  # of an earlier start
        tally.add(finished(number))
    tally.start()
    for number in range(10, 14):
        tally.add(finished(number, success=False))
    now = 102.0
    assert tally.headline() == (
        "14/20 episodes in 0:02, 71% solved at the first submission, 2.0 episodes/s, 200 tokens/s, about 0:03 left"
    )


def test_errors_are_told_and_count_as_no_attempt(tally: Tally) -> None:
    broken = episode("t1", status="errored", error=EpisodeError("model", "down"), success=None, score=None)
    tally.add(summarize(broken))
    assert re.match(r"0/20 episodes in 0:00, 1 errored", tally.headline())
    out = io.StringIO()
    table = LiveTable(tally, Console(file=out, width=140, force_terminal=True))
    with table:
        pass
    assert "last error: model: down" in out.getvalue()


def ended(number: int, stop: str) -> EpisodeSummary:
    spoken = trajectory((Message("user", "Go."), Message("assistant", "x")), stop_reason=stop, final_response=None)
    return summarize(episode(f"t{number}", success=False, trajectory=spoken))


def test_episodes_without_an_answer_are_told_in_lines_and_in_the_table(tally: Tally) -> None:
    for number, stop in enumerate(["answered", "length", "length", "unparsed"]):
        tally.add(ended(number, stop))
    assert "0% solved at the first submission, 2 reply cut, 1 tool call not parsed" in tally.headline()
    out = io.StringIO()
    with LiveTable(tally, Console(file=out, width=180, force_terminal=True)):
        pass
    assert "ended without an answer" in out.getvalue()


def test_answered_episodes_need_no_word_on_how_they_ended(tally: Tally) -> None:
    tally.add(finished(0))
    assert tally.endings() == ""
    assert "answer" not in tally.headline()
    out = io.StringIO()
    with LiveTable(tally, Console(file=out, width=180, force_terminal=True)):
        pass
    assert "without an answer" not in out.getvalue()


def test_ten_episodes_that_came_to_nothing_are_told_once_while_the_run_goes_on(tally: Tally) -> None:
    lines: list[str] = []
    with Plain(tally, lines.append) as told:
        for number in range(9):
            told(ended(number, "length"))
        assert not any("warning" in line for line in lines)
        told(ended(9, "unparsed"))
        for number in range(10, 15):
            told(ended(number, "length"))
    (warning,) = [line for line in lines if "warning" in line]
    assert "none of the first 10 episodes produced an answer (9 reply cut, 1 tool call not parsed)" in warning
    assert "model.sampling.max_tokens" in warning
    assert "model.tool_parser" in warning
    out = io.StringIO()
    with LiveTable(tally, Console(file=out, width=400, force_terminal=True)) as live:
        for number in range(10):
            live(ended(number, "length"))
    assert "none of the first 10 episodes" in " ".join(out.getvalue().split())


def test_ten_errors_are_told_with_the_last_one(tally: Tally) -> None:
    for number in range(10):
        tally.add(
            summarize(
                episode(f"t{number}", status="errored", error=EpisodeError("model", "404 [/v1]"), trajectory=None)
            )
        )
    assert "the last error (model: 404 [/v1])" in tally.early_warning
    out = io.StringIO()
    with LiveTable(tally, Console(file=out, width=400, force_terminal=True)):
        pass
    assert "404 [/v1]" in out.getvalue()  # and not read as markup


@pytest.mark.parametrize("good", [0, 9])
def test_one_answer_among_the_first_ten_is_no_reason_to_warn(tally: Tally, good: int) -> None:
    for number in range(12):
        tally.add(finished(number) if number == good else ended(number, "length"))
    assert tally.early_warning == ""


def test_episodes_of_an_earlier_start_do_not_count_for_the_early_warning(tally: Tally) -> None:
    for number in range(10):
        tally.add(ended(number, "length"))
    tally.start()
    assert tally.early_warning == ""


def test_without_a_terminal_there_is_a_line_every_tenth(tally: Tally) -> None:
    lines: list[str] = []
    with Plain(tally, lines.append) as told:
        for number in range(WANTED):
            told(finished(number))
    assert [line.split()[0] for line in lines] == [f"{n}/20" for n in range(2, 21, 2)]
