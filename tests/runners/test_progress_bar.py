"""Commands that take minutes say how far they are, without a terminal, too."""

import pytest

from hermes_lab.runners.commands import bar
from hermes_lab.runners.commands.bar import progress_bar


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, as its only element."""
    now = [100.0]
    monkeypatch.setattr(bar.time, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(
    ("total", "said"), [(40, "episodes: 3 of 40\nepisodes: 6 of 40\n"), (None, "episodes: 3\nepisodes: 6\n")]
)
def test_without_a_terminal_there_is_a_line_every_fifteen_seconds(
    clock: list[float], capsys: pytest.CaptureFixture[str], total: int | None, said: str
) -> None:
    with progress_bar("episodes", total, shown=True) as seen:
        for _ in range(8):
            clock[0] += 5
            seen()
    assert capsys.readouterr() == ("", said)


def test_a_total_that_is_known_later_is_said(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("ledger", shown=True) as seen:
        clock[0] += 15
        seen(12)
    assert capsys.readouterr().err == "ledger: 1 of 12\n"


def test_quiet_says_nothing(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("episodes", 40, shown=False) as seen:
        clock[0] += 60
        seen()
    assert capsys.readouterr() == ("", "")
