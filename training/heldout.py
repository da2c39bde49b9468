"""Held-out success of the policy before, between and after the rounds of a GRPO training."""

from collections.abc import Sequence
from pathlib import Path

from hermes_lab.analysis.stats.intervals import Interval
from hermes_lab.analysis.stats.rates import Place, rate_over
from hermes_lab.errors import ConfigError, ModelError
from hermes_lab.models.weights import Say
from hermes_lab.records import read_episodes
from hermes_lab.training.evaluations import place_of, score
from hermes_lab.training.grpo_config import heldout_batch
from hermes_lab.training.grpo_run import GrpoRun, Sampler
from hermes_lab.training.rounds import Check
from hermes_lab.types import Episode


def is_due(grpo_run: GrpoRun, *, ended: bool) -> bool:
    """Whether the newest policy is to be evaluated: before the first step, every `steps_per_eval` steps, and when the
    training has `ended`."""
    done, every = grpo_run.rounds.done(), grpo_run.grpo.steps_per_eval
    step = done[-1].steps if done else 0
    if not (grpo_run.config.heldout and every) or grpo_run.rounds.check(step):
        return False
    before = done[-2].steps if len(done) > 1 else 0
    return not step or ended or step // every != before // every


def evaluate(grpo_run: GrpoRun, sampler: Sampler, say: Say, *, ended: bool = False) -> None:
    """Evaluates the newest policy, if it is due, and adds the score to its card's folder."""
    if not is_due(grpo_run, ended=ended):
        return
    done = grpo_run.rounds.done()
    policy, step = grpo_run.policy(done), done[-1].steps if done else 0
    run = grpo_run.rounds.check_run(step)
    batch = heldout_batch(grpo_run.config, grpo_run.locked, policy.folder, run)
    say(f"step {step}: {batch.tasks} held-out tasks by {policy.name}")
    sampler.collect(batch)
    judged = _judged(run)
    if not judged:
        raise ModelError(f"{run}: no held-out rollout was judged; see its episodes, then continue with --resume")
    rate = rate_over([bool(each.success) for each in judged], [place_of(each) for each in judged])
    unscored = batch.tasks - len(judged)
    if step:
        _record(Path(policy.folder), run, say)
    low, high = rate.interval
    check = Check(
        step=step,
        policy=policy.digest,
        heldout_success=rate.value,
        heldout_tasks=len(judged),
        heldout_unscored=unscored,
        heldout_low=low,
        heldout_high=high,
    )
    grpo_run.rounds.finish_check(check)
    grpo_run.rounds.write_metrics()
    lost = f", {unscored} errored or not judged" if unscored else ""
    say(f"step {step}: {check.on_card.sentence()}{lost}")


def heldout_summary(grpo_run: GrpoRun) -> str:
    """Held-out success before and after the training, and the change on the tasks of both with its 95 % interval; ""
    unless both were measured."""
    rounds, done = grpo_run.rounds, grpo_run.rounds.done()
    last = done[-1].steps if done else 0
    before, after = rounds.check(0), rounds.check(last)
    if not (last and before and after):
        return ""
    change, (low, high), tasks = _change(_judged(rounds.check_run(0)), _judged(rounds.check_run(last)))
    return (
        f"{before.on_card.sentence()} before, {after.on_card.sentence()} after {last} steps; on {tasks} tasks of both "
        f"{100 * change:+.0f} points ({100 * low:+.0f} to {100 * high:+.0f})"
    )


def _change(before: Sequence[Episode], after: Sequence[Episode]) -> tuple[float, Interval, int]:
    """The mean change of success over tasks that both have, its interval, and their number."""
    import numpy as np

    from hermes_lab.analysis.stats.paired import encode, units

    was = {place_of(each): each for each in before}
    both = [(was[place_of(each)], each) for each in after if place_of(each) in was]
    if not both:
        return 0.0, Interval(-1.0, 1.0), 0
    places: list[Place] = [place_of(each) for each, _ in both]
    worlds, lanes, tasks = (encode(column) for column in zip(*places, strict=True))
    change_P = np.array([int(bool(new.success)) - int(bool(old.success)) for old, new in both], dtype=np.int64)
    return float(change_P.mean()), units(worlds, lanes, tasks).interval(change_P), len(both)


def _judged(run: Path) -> list[Episode]:
    return [episode for episode in read_episodes(run) if episode.success is not None]


def _record(version: Path, run: Path, say: Say) -> None:
    """Adds the evaluation to the version's scores. An incomplete one remains in the training's folder alone."""
    try:
        score(version, run)
    except ConfigError as error:
        say(f"{version.name}: its score is not recorded next to its card: {error}")
