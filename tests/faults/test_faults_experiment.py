"""An experiment with blocks, held-out checks and a budget, killed and gone on with: the rows of an undisturbed one."""

import random
import signal
from pathlib import Path

import pytest
from fakes.command import lab
from lab_process import count, ended_in, finish, keys, options, rows, start, wait_until

from hermes_lab.records import read_episodes

pytestmark = pytest.mark.timeout(600)

KILLS = 2
LEARN = [
    "experiment",
    *options(suite__name="ledger", suite__options="{ruled: 1, plain: 0}", run__concurrency=4, skills__review_every=0),
    *options(learning__arms="[on, oracle]", learning__rounds=4, learning__blocks=2, learning__order="random"),
    *options(learning__heldout__tasks=1, learning__heldout__every=2, agent__toolsets="[terminal, learning]"),
    *options(model__provider="scripted", model__name="hermes_lab.tasks.learner:learner"),
    "--quiet",
]
WANTED = 2 * (4 + 3 * 2)


def places(run: Path) -> list[tuple[object, ...]]:
    return sorted((e.key, e.phase, e.block, e.place) for e in read_episodes(run))


def test_an_experiment_that_is_killed_and_stopped_by_its_budget_has_the_rows_of_an_undisturbed_one(
    tmp_path: Path, scratch: Path
) -> None:
    whole, run = tmp_path / "whole", tmp_path / "run"
    done = lab(*LEARN, "--out", whole)
    assert (done.returncode, done.stderr) == (0, "")
    draw, budget = random.Random(4), WANTED // 2
    for _ in range(KILLS):
        resume = ["--resume"] if (run / "run.json").exists() else []
        process = start(*LEARN, *options(budget__tasks=budget), "--out", run, *resume)
        more = min(count(run) + draw.randrange(1, 4), budget)
        wait_until(lambda more=more, process=process: count(run) >= more or process.poll() is not None)
        process.kill()
        assert finish(process)[0] in (-signal.SIGKILL, 3)
    stopped = lab(*LEARN, *options(budget__tasks=budget), "--out", run, "--resume")
    assert stopped.returncode == 3, stopped.stderr
    assert stopped.stderr.startswith(f"budget.tasks is spent ({budget} of {budget}): {budget} of {WANTED} episodes")
    assert len(keys(run)) == budget
    assert lab(*LEARN, "--out", run, "--resume").returncode == 0
    assert rows(run) == rows(whole)
    assert places(run) == places(whole)
    assert keys(run) == keys(whole)
    assert len(keys(run)) == WANTED
    assert ended_in(scratch)
