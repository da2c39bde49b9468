"""The simulations of `make simulations`, at a size for every day."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "simulations"


@pytest.fixture(autouse=True)
def _in_simulations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))


def test_a_test_and_its_interval_never_contradict_each_other() -> None:
    from agreement import disagreements

    assert disagreements(200, seed=1) == 0


def test_a_rate_is_covered_about_as_often_as_it_says() -> None:
    from rate_coverage import coverage

    # 95 % of 300 is 285; fewer than 272 has probability 0.0006.
    assert coverage(12, 12, 0.5, 0.3, 300) >= 272 / 300
