"""What a plan says of memory and time, beside real trainings of the packaged model.

Seconds are those of the processor, and only their ratio is compared, so a slow machine does not matter.
"""

import pytest
from benchmarks.bench_plan import MEMORY, apart
from fakes.training import TRAINING

pytestmark = TRAINING
TIME = 1.6


@pytest.mark.parametrize("size", ["other small", "small pairs"], ids=["sft", "preference"])
def test_a_plan_is_near_what_a_training_takes(size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    found = apart(size, 3, "--own-time")
    assert found["planned"]["memory"] == pytest.approx(found["measured"]["memory"], rel=MEMORY)
    if not 1 / TIME < ratio(found) < TIME:  # what runs beside it may have changed
        found = apart(size, 3, "--own-time")
    assert 1 / TIME < ratio(found) < TIME


def ratio(found: dict[str, dict[str, float]]) -> float:
    """Planned seconds to measured ones."""
    return found["planned"]["seconds"] / found["measured"]["seconds"]
