"""What a plan says of memory, beside real trainings of the packaged model.

Its seconds depend on what runs beside both: `tests/benchmarks/bench_plan.py` compares them on a quiet machine.
"""

import pytest
from benchmarks.bench_plan import MEMORY, apart
from fakes.training import TRAINING

pytestmark = TRAINING


@pytest.mark.parametrize("size", ["other small", "small pairs"], ids=["sft", "preference"])
def test_a_plan_is_near_what_a_training_takes(size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    found = apart(size, 2, "--own-time")
    assert found["planned"]["memory"] == pytest.approx(found["measured"]["memory"], rel=MEMORY)
    assert found["planned"]["seconds"] > 0
