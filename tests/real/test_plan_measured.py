"""What a plan says of memory and time, beside real trainings of the packaged model.

Seconds are those of the processor, and only their ratio is compared: whether it is the machine that is slow does not
matter.
"""

from statistics import geometric_mean

import pytest
from benchmarks.bench_plan import MEMORY, apart
from fakes.training import TRAINING

pytestmark = TRAINING


@pytest.mark.parametrize("sizes", [("small", "other small"), ("small pairs", "pairs")], ids=["sft", "preference"])
def test_a_plan_is_near_what_trainings_take(sizes: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    ratios = []
    for size in sizes:
        planned, measured = (apart(size, task, 3, "--own-time") for task in ("plan", "measure"))
        assert planned["memory"] == pytest.approx(measured["memory"], rel=MEMORY), size
        ratios.append(planned["seconds"] / measured["seconds"])
    assert 1 / 1.6 < geometric_mean(ratios) < 1.6, ratios
