import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from synthetic_episodes import make_episode

from hermes_lab.analysis.curves.exponential import Exponential
from hermes_lab.analysis.data.load import load_episodes
from hermes_lab.analysis.fitting.fit import fit_curve
from hermes_lab.analysis.fitting.pooling import Pooled, pool_curves, pool_series
from hermes_lab.errors import ConfigError

CURVE = Exponential()
ALIKE = dict.fromkeys(("code", "data", "web", "admin", "report"), (0.4, 0.9, 0.07))
UNLIKE = {
    "code": (0.3, 0.95, 0.2),
    "data": (0.5, 0.8, 0.03),
    "web": (0.2, 0.6, 0.08),
    "admin": (0.1, 0.9, 0.04),
    "report": (0.6, 0.95, 0.1),
}


def episodes(truth: dict[str, tuple[float, float, float]], runs: int, seed: int = 0, tasks: int = 100) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    n = np.tile(np.arange(float(tasks)), runs)
    return pd.concat(
        pd.DataFrame(
            {
                "n": n,
                "success": draw.random(n.size) < CURVE.value(np.array(parameters), n),
                "run": np.repeat(np.arange(runs), tasks).astype(str),
                "group": name,
            }
        )
        for name, parameters in truth.items()
    )


def pool(frame: pd.DataFrame) -> Pooled:
    return pool_curves(frame["n"], frame["success"], frame["run"].tolist(), frame["group"].tolist())


def errors(found: Pooled, truth: dict[str, Any], *, alone: bool) -> np.ndarray:
    rows = [group.alone_P if alone else [estimate.value for estimate in group.estimates] for group in found.groups]
    return np.abs(np.array(rows) - np.array(list(truth.values())))


def test_groups_of_few_runs_are_nearer_the_truth_pooled_than_alone() -> None:
    found = [pool(episodes(ALIKE, 4, seed)) for seed in range(4)]
    for p in range(3):
        pooled, alone = (np.mean([errors(each, ALIKE, alone=side)[:, p] for each in found]) for side in (False, True))
        assert pooled < 0.7 * alone


def test_groups_alike_show_no_difference_and_groups_unlike_disagree() -> None:
    alike, unlike = pool(episodes(ALIKE, 5)), pool(episodes(UNLIKE, 5))
    assert not alike.disagree
    assert "the 5 groups show no difference" in alike.sentence()
    assert unlike.disagree
    assert unlike.p_value < 1e-6
    assert np.all(unlike.spread_P > alike.spread_P)


def test_groups_of_many_runs_stand_for_themselves() -> None:
    frame = episodes(UNLIKE, 120)
    for group in pool(frame).groups:
        rows = frame[frame["group"] == group.name]
        own = fit_curve(rows["n"], rows["success"], rows["run"], draws=0).parameters_P
        assert [estimate.value for estimate in group.estimates] == pytest.approx(own, rel=0.12)
        assert group.alone_P == pytest.approx(own, rel=1e-4)


def test_shrunken_estimates_lie_between_their_own_and_the_population() -> None:
    found = pool(episodes(UNLIKE, 5))
    middle = found.population[2].value
    for group in found.groups:
        shrunken, own = group.estimates[2].value, group.alone_P[2]
        assert min(own, middle) * 0.8 <= shrunken <= max(own, middle) * 1.25


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    covered = [
        estimate.interval.low <= truth <= estimate.interval.high
        for seed in range(4)
        for group in pool(episodes(UNLIKE, 6, seed)).groups
        for estimate, truth in zip(group.estimates, UNLIKE[group.name], strict=True)
        if estimate.interval
    ]
    assert len(covered) == 60
    # 95 % of 60 is 57; fewer than 51 has probability 0.001.
    assert sum(covered) >= 51


def test_runs_that_disagree_widen_the_intervals() -> None:
    frame = episodes(ALIKE, 8)
    shift = np.random.default_rng(1).uniform(-0.25, 0.25, size=(5, 8))
    groups = {name: place for place, name in enumerate(ALIKE)}
    where = shift[frame["group"].map(groups), frame["run"].astype(int)]
    p = CURVE.value(np.array(ALIKE["code"]), frame["n"].to_numpy()) + where
    apart = frame.assign(success=np.random.default_rng(2).random(len(frame)) < p)
    assert pool(apart).dispersion > 1.5
    assert pool(frame).dispersion < 1.3


def test_flat_success_is_not_identified_pooled_either() -> None:
    found = pool(episodes(dict.fromkeys(ALIKE, (0.5, 0.5, 0.1)), 5))
    assert "constant model is as good" in found.sentence()
    assert all(group.sentence().startswith("not identified: ") for group in found.groups)


def test_one_run_a_group_does_not_tell_how_runs_differ() -> None:
    assert "fewer than 5 lanes" in pool(episodes(ALIKE, 1)).sentence()


def test_two_groups_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least 3 groups, not 2: code, data"):
        pool(episodes({name: ALIKE[name] for name in ("code", "data")}, 5))


def test_domains_of_a_run_are_pooled_by_series(write_run: Any) -> None:
    draw = np.random.default_rng(0)
    made = [
        make_episode(bool(draw.random() < CURVE.value(np.array(truth), np.array([n]))[0]), task=n, lane=f"on-r{r}-w{w}")
        for w, (name, truth) in enumerate(ALIKE.items())
        for r in range(3)
        for n in range(0, 60, 3)
    ]
    frame = load_episodes(write_run(made))
    frame["domain"] = frame["lane"].str.split("-w").str[1].map(dict(zip("01234", ALIKE, strict=True)))
    pooled = pool_series(frame)
    assert list(pooled) == ["skills on"]
    assert [group.name for group in pooled["skills on"].groups] == list(ALIKE)
    assert pooled["skills on"].to_dict()["groups"]["code"]["runs"] == 3


def ends_early(seed: int, lanes: int = 40) -> pd.DataFrame:
    """Flat lanes in three domains; those of the weak half end after 6 to 15 tasks of each."""
    draw = np.random.default_rng(seed)
    rows = [
        {"lane": f"on-r0-w{lane}", "world": lane, "domain": f"d{domain}", "experience": n, "success": bool(solved)}
        for lane in range(lanes)
        for domain in range(3)
        for n, solved in enumerate(draw.random(40 if lane % 2 else draw.integers(6, 16)) < (0.9 if lane % 2 else 0.4))
    ]
    same = {"run": "a", "suite": "s", "arm": "on", "weights": 0, "phase": "learn"}
    return pd.DataFrame(rows).assign(**same, model="m", adapter="", adapter_digest="").astype({"success": "boolean"})


def test_weak_lanes_that_end_early_are_no_learning_in_any_domain() -> None:
    found = pool_series(ends_early(0))["skills on"]
    assert all(estimate.reason for estimate in found.population)
    assert all(any(estimate.reason for estimate in group.estimates) for group in found.groups)
    assert re.fullmatch(r"40 lanes at 0 to \d+ tasks seen, which all have \(some have 39\)", found.over)
    assert found.to_dict()["over"] == found.over
