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


def test_looking_after_every_world_errs_rarely_and_saves_worlds_if_the_effect_is_large() -> None:
    from peeking import Design, row_of

    row = row_of(Design(12, 12, 0.7), 600, seed=1)
    assert row.false <= 0.05
    assert row.false_peeking > 0.08  # what looking at the fixed p after every world would give
    assert row.coverage >= 0.93
    assert row.mean_twice <= 0.75
    assert row.power_twice >= 0.8
    assert row.hopeless_wrong <= 0.06


def test_a_rate_is_covered_about_as_often_as_it_says() -> None:
    from rate_coverage import coverage

    # 95 % of 300 is 285; fewer than 272 has probability 0.0006.
    assert coverage(12, 12, 0.5, 0.3, 300) >= 272 / 300
