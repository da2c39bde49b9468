"""The closed form against a simulation of what it stands for, with the simulation's own errors."""

import random
from math import exp, log, sqrt

import pytest

from hermes_lab.tasks.expected import expected_success
from hermes_lab.tasks.worlds import WorldSpec

REPEATS = 2000


def simulated(
    spec: WorldSpec, capture: float, slip: float, known: frozenset[int], rounds: int, size: int, seed: int
) -> list[int]:
    """How many of `REPEATS` learners do each task right: places drawn, beliefs held, told and captured one by one."""
    draw = random.Random(seed)
    solved = [0] * (rounds * size)
    for _ in range(REPEATS):
        library = dict.fromkeys(known, "drawn")
        for round_ in range(rounds):
            written: dict[int, str] = {}
            for number in range(round_ * size, (round_ + 1) * size):
                sites = list(range(spec.sites))
                chosen = []
                for _ in range(spec.pieces):
                    chosen += draw.choices(sites, [spec.shares[site] for site in sites])
                    sites.remove(chosen[-1])
                slips = draw.random() < slip
                rejected = [p for p in chosen if ("" if slips else library.get(p, "")) != truth(spec, p, number)]
                solved[number] += not rejected
                for site in rejected:
                    if not slips and draw.random() < capture:
                        written.setdefault(site, truth(spec, site, number))
            library |= written
    return solved


def truth(spec: WorldSpec, site: int, number: int) -> str:
    ruled = (site < spec.ruled) != spec.decoy
    drifted = bool(spec.drift_at) and number >= spec.drift_at
    if drifted and spec.drift == "invert":
        return "" if ruled else "drawn"
    return ("redrawn" if drifted else "drawn") if ruled else ""


@pytest.mark.parametrize(
    ("spec", "capture", "slip", "known", "size"),
    [
        (WorldSpec(ruled=4, plain=2), 1.0, 0.0, (), 1),
        (WorldSpec(ruled=4, plain=2, frequencies="zipf"), 0.6, 0.15, (), 1),
        (WorldSpec(ruled=4, plain=2, pieces=2, frequencies="zipf"), 0.7, 0.1, (), 1),
        (WorldSpec(ruled=4, plain=3, pieces=3), 0.8, 0.2, (1,), 1),
        (WorldSpec(ruled=3, plain=1, drift_at=8), 0.8, 0.1, (), 1),
        (WorldSpec(ruled=3, plain=2, drift_at=8, drift="invert"), 0.8, 0.1, (), 1),
        (WorldSpec(ruled=3, plain=2, drift_at=7, drift="invert", pieces=2), 0.5, 0.1, (0, 4), 1),
        (WorldSpec(ruled=3, plain=2, drift_at=7, pieces=2, frequencies="zipf"), 0.7, 0.0, (0, 4), 1),
        (WorldSpec(ruled=3, plain=2, decoy=True), 0.6, 0.1, (0, 1, 2), 1),
        (WorldSpec(ruled=3, plain=2, decoy=True, drift_at=6, drift="invert", pieces=2), 0.6, 0.1, (0, 1), 1),
        (WorldSpec(ruled=4, plain=2, drift_at=8), 0.7, 0.0, (), 4),
        (WorldSpec(ruled=4, plain=2, pieces=2), 0.0, 0.1, (0, 2), 1),
    ],
)
def test_the_closed_form_is_what_a_simulation_of_the_process_gives(
    spec: WorldSpec, capture: float, slip: float, known: tuple[int, ...], size: int
) -> None:
    rounds = 16 // size
    solved = simulated(spec, capture, slip, frozenset(known), rounds, size, seed=11)
    for number, count in enumerate(solved):
        n = number - number % size
        expected = expected_success(n, spec, capture, slip, number=number, known=known)
        # 4.5 standard errors: one of 192 numbers that are right fails once in 800 choices of the seed.
        error = sqrt(max(expected * (1 - expected), 1e-9) / REPEATS)
        assert abs(count / REPEATS - expected) <= 4.5 * error + 1e-9, (number, count / REPEATS, expected)


@pytest.mark.parametrize(("capture", "slip"), [(1.0, 0.0), (0.6, 0.15)])
def test_a_uniform_world_is_exactly_exponential(capture: float, slip: float) -> None:
    spec = WorldSpec(ruled=5, plain=2)
    i, a = 2 / 7, 2 / 7 + 5 / 7 * (1 - slip)
    rate = -log(1 - capture * (1 - slip) / 7)
    for n in (0, 1, 5, 40):
        assert expected_success(n, spec, capture, slip) == pytest.approx(a - (a - i) * exp(-rate * n))


def test_a_zipf_world_begins_alike_and_learns_its_rare_rules_late() -> None:
    uniform, zipf = WorldSpec(ruled=8, plain=2), WorldSpec(ruled=8, plain=2, frequencies="zipf")
    assert expected_success(0, zipf) == pytest.approx(expected_success(0, uniform)) == pytest.approx(0.2)
    assert expected_success(3, zipf) > expected_success(3, uniform)
    assert expected_success(40, zipf) < expected_success(40, uniform)


def test_without_skills_it_is_flat_and_where_nothing_is_told_too() -> None:
    assert expected_success(50, WorldSpec(ruled=5, plain=2), 0.0) == pytest.approx(2 / 7)
    assert expected_success(50, WorldSpec(ruled=5, plain=2, salience="symptom")) == pytest.approx(2 / 7)


def test_a_drift_drops_it_to_where_old_rules_leave_it_and_it_recovers() -> None:
    redraw = WorldSpec(ruled=4, plain=2, drift_at=60)
    assert expected_success(59, redraw) > 0.99
    assert expected_success(60, redraw) == pytest.approx(2 / 6)
    assert expected_success(200, redraw) > 0.99
    invert = WorldSpec(ruled=4, plain=2, drift_at=60, drift="invert")
    assert expected_success(60, invert) == pytest.approx(0.0, abs=1e-3), "what was learnt misleads everywhere"
    assert expected_success(60, invert, 0.0) == pytest.approx(4 / 6), "who learnt nothing is not misled"


def test_the_library_of_the_other_world_harms_in_a_decoy_world() -> None:
    decoy = WorldSpec(ruled=4, plain=2, decoy=True)
    assert expected_success(0, decoy) == pytest.approx(4 / 6)
    assert expected_success(0, decoy, known=(0, 1, 2, 3)) == pytest.approx(0.0)
    assert expected_success(200, decoy, known=(0, 1, 2, 3)) == pytest.approx(1.0)
