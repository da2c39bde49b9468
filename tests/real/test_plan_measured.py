"""What a plan says of memory and time, beside real trainings of the packaged model.

Seconds are those of the processor, and only their ratio is compared, so a slow machine does not matter.
"""

import pytest
from benchmarks.bench_plan import MEMORY, apart
from fakes.training import TRAINING

pytestmark = TRAINING


@pytest.mark.parametrize("size", ["other small", "small pairs"], ids=["sft", "preference"])
def test_a_plan_is_near_what_a_training_takes(size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    planned, measured = (apart(size, task, 3, "--own-time") for task in ("plan", "measure"))
    assert planned["memory"] == pytest.approx(measured["memory"], rel=MEMORY)
    for task, seconds in (("plan", planned), ("measure", measured)):  # what ran beside one of them slowed it down
        other = measured if task == "plan" else planned
        if seconds["seconds"] > 1.6 * other["seconds"]:
            seconds["seconds"] = min(seconds["seconds"], apart(size, task, 3, "--own-time")["seconds"])
    assert 1 / 1.6 < planned["seconds"] / measured["seconds"] < 1.6
