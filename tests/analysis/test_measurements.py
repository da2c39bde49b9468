import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from hermes_lab.analysis.audit.claims import audit
from hermes_lab.analysis.audit.measurements import measure
from hermes_lab.analysis.survival.lognormal import median
from hermes_lab.errors import ConfigError

SimulateRun = Callable[..., pd.DataFrame]
TRUTH = (0.3, 0.9, 0.08)


def as_domain(frame: pd.DataFrame, domain: str = "code_debugging") -> pd.DataFrame:
    return frame.assign(domain=domain)


def test_identified_curve_fills_the_rows_of_its_domain_alone(simulate_run: SimulateRun) -> None:
    frame = as_domain(simulate_run({"off": (0.3, 0.3, 0.1), "on": TRUTH}, replicates=25, tasks=60))
    measured = measure(frame, draws=60)
    assert measured.notes[0].startswith("code_debugging: initial 0.")
    found = measured.by_claim
    for name, truth in zip(("initial", "asymptote", "rate"), TRUTH, strict=True):
        at = found[f"code_debugging/{name}"]
        assert at.interval is not None
        assert at.interval.low < truth < at.interval.high
    assert found["code_debugging/tasks-to-80"].value == pytest.approx(22.4, rel=0.2)
    assert found["code_debugging/success/20"].value == pytest.approx(0.9 - 0.6 * math.exp(-1.6), abs=0.05)
    assert found["code_debugging/success/100"].note == "not measured: the run has only 60 tasks"
    assert found["code_debugging/area/100"].value is None
    rows = {claim.key: claim.cells()[3] for claim in audit(found)}
    assert rows["web_research/initial"] == rows["data_analysis/time-saved/100"] == "not measured"


def test_tasks_to_80_are_not_measured_beyond_the_tasks_that_were_run(simulate_run: SimulateRun) -> None:
    frame = as_domain(simulate_run({"on": (0.2, 0.84, 0.06)}, replicates=60, tasks=40))
    found = measure(frame, draws=40).by_claim
    assert found["code_debugging/asymptote"].value is not None
    assert found["code_debugging/tasks-to-80"] == (None, None, "not measured: the run has only 40 tasks")


def test_few_lanes_identify_nothing(simulate_run: SimulateRun) -> None:
    measured = measure(as_domain(simulate_run({"on": TRUTH}, replicates=3, tasks=30)), draws=20)
    assert measured.by_claim["code_debugging/rate"].note == "not identified"
    assert measured.notes[0].startswith("code_debugging: not identified: ")


def test_time_saved_is_measured_where_the_run_ends(simulate_run: SimulateRun) -> None:
    frame = as_domain(simulate_run({"on": (0.5, 0.9, 0.1)}, replicates=12, tasks=50), "data_analysis")
    noise = np.random.default_rng(0).standard_normal(len(frame))
    truth = np.array([30.0, 6.0, 0.1, 0.3])
    frame["seconds"] = median(truth, frame["experience"].to_numpy(np.float64)) * np.exp(0.3 * noise)
    frame["accepted"] = pd.array([True] * len(frame), dtype="boolean")
    saved = measure(frame, draws=40).by_claim["data_analysis/time-saved/100"]
    assert saved.value == pytest.approx(0.8, abs=0.05)
    assert saved.note == "after 49 tasks"


def test_skills_are_those_listed_at_the_last_tasks(simulate_run: SimulateRun) -> None:
    frame = as_domain(simulate_run({"on": TRUTH}, replicates=6, tasks=20))
    frame["skills_listed"] = frame["experience"] // 4
    skills = measure(frame, draws=5).by_claim["skills/100"]
    assert skills == (4.0, None, "listed after 19 tasks")
    limited = measure(frame, max_listed=4, draws=5).by_claim["skills/100"]
    assert limited == (4.0, None, "listed (at most 4) after 19 tasks")


def test_skills_are_counted_where_all_lanes_have_been(simulate_run: SimulateRun) -> None:
    """Half of the lanes end early, and the skills of the others do not count at tasks that these never saw."""
    frame = as_domain(simulate_run({"on": TRUTH}, replicates=6, tasks=20))
    short = frame["lane"].isin(sorted(frame["lane"].unique())[:3])
    frame["skills_listed"] = frame["experience"]
    cut = frame[~short | (frame["experience"] <= 9)]
    assert measure(cut, draws=5).by_claim["skills/100"] == (9.0, None, "listed after 9 tasks")
    unjudged = cut.assign(success=cut["success"].mask(short & (cut["experience"] == 9)))
    assert measure(unjudged, draws=5).by_claim["skills/100"] == (9.0, None, "listed after 9 tasks")
    errored = cut.assign(status=cut["status"].mask(short & (cut["experience"] == 9), "errored"))
    assert measure(errored, draws=5).by_claim["skills/100"] == (8.0, None, "listed after 8 tasks")


def test_heldout_tasks_and_other_arms_measure_nothing(simulate_run: SimulateRun) -> None:
    frame = simulate_run({"on": TRUTH}, replicates=6, tasks=20)
    for other in (frame.assign(phase="heldout"), frame.assign(arm="off"), frame.iloc[:0]):
        with pytest.raises(ConfigError, match="no judged episode in arm `on`"):
            measure(other)


def test_several_sets_of_weights_are_refused(simulate_run: SimulateRun) -> None:
    frame = simulate_run({"on": TRUTH}, replicates=6, tasks=20)
    with pytest.raises(ConfigError, match="several sets of weights"):
        measure(pd.concat([frame, frame.assign(adapter="sft")], ignore_index=True))


def test_a_domain_that_not_all_lanes_reached_and_one_with_a_comma_are_no_error(simulate_run: SimulateRun) -> None:
    frame = as_domain(simulate_run({"on": TRUTH}, replicates=6, tasks=20), "maths, hard")
    frame.loc[frame["experience"] >= 10, "domain"] = "late"
    frame = frame[(frame["lane"] != "on-r0-w0") | (frame["experience"] < 5)]
    measured = measure(frame, draws=5)
    assert [note.partition(": ")[0] for note in measured.notes] == ["maths, hard", "late"]
    assert measured.notes[1].endswith(
        "not measured: no scored episode in the range of experience that all lanes reached"
    )
    assert "maths, hard/initial" in measured.by_claim
    assert "late/initial" not in measured.by_claim
