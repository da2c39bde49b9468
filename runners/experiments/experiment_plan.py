"""The plan of an experiment before it starts: its size, statistical power and budget."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from hermes_lab.config.schema import RunConfig
from hermes_lab.lane import LEARNING_ARMS
from hermes_lab.registration import Primary
from hermes_lab.runners.engine.budget import Budget, Share
from hermes_lab.runners.engine.plan import Lane
from hermes_lab.runners.engine.registration import analysis_of, primary_of, units_at_once
from hermes_lab.runners.engine.weights import weights_of
from hermes_lab.text.counted import counted

CURVE_LANES, CURVE_TASKS = 40, 24
"""Lanes per arm, and tasks of each, that usually suffice to identify a curve (docs/statistics.md)."""
CURVE_EPISODES = 50
"""With fewer per arm no curve is fitted: `MIN_EPISODES` of analysis.fitting.identification, which imports numpy."""


class Power(Struct, frozen=True):
    """The power of a comparison of two arms: the probability that the expected effect is significant. `pairs` counts
    tasks run under both arms, `tasks` the distinct ones, in `lanes` and `worlds`; `sentence` is a summary."""

    of: str
    pairs: int
    tasks: int
    lanes: int
    worlds: int
    baseline: float
    effect: float
    power: float
    sentence: str
    assumed: str


class StopPower(Struct, frozen=True):
    """What an experiment with a stopping rule can show: the probability that the expected effect is shown by its last
    unit, the mean number of `units` until it ends, the same for twice the effect, and how many units have power 0.8
    (None: more than 10 times as many)."""

    over: str
    units: int
    power: float
    mean_units: float
    mean_units_twice: float
    units_needed: int | None

    def __str__(self) -> str:
        needed = f"{self.units_needed} {self.over} have power 0.8" if self.units_needed else "power 0.8 is out of reach"
        return (
            f"power with early looks: {self.power:.2f} over {self.units} {self.over}, of which {self.mean_units:.0f} "
            f"are run on average, {self.mean_units_twice:.0f} if the effect is twice as large; {needed}"
        )


class ExperimentPlan(Struct, frozen=True, kw_only=True):
    """The plan of an experiment. `lanes` counts all lanes, `lanes_per_arm` those of an arm with the same weights.
    `learnt` and `heldout` are training and held-out tasks per lane. A check at the number of rounds is after the last
    one."""

    arms: Sequence[str]
    weights: Sequence[str]
    replicates: int
    worlds: int
    blocks: int
    lanes: int
    lanes_per_arm: int
    rounds: int
    round_size: int
    order: str
    learnt: int
    heldout: int
    checks: Sequence[int]
    episodes: int
    finished: int
    power: Sequence[Power]
    analysis: str
    """The primary analysis in words, as it is registered."""
    stop: StopPower | None = None
    curve_lanes: int = CURVE_LANES
    curve_tasks: int = CURVE_TASKS
    budget: Mapping[str, Share]
    warnings: Sequence[str] = ()

    def __str__(self) -> str:
        return "\n".join(self.lines())

    __repr__ = __str__

    def lines(self) -> Iterator[str]:
        """The plan as text."""
        factors = [f"{counted(len(self.arms), 'arm')} ({', '.join(self.arms)})", counted(self.replicates, "replicate")]
        factors.append(counted(self.worlds, "world") + (f" of {self.blocks} blocks" if self.blocks > 1 else ""))
        if len(self.weights) > 1:
            factors.append(f"{len(self.weights)} weights ({', '.join(name or 'no adapter' for name in self.weights)})")
        yield f"plan: {' x '.join(factors)} = {counted(self.lanes, 'lane')}"
        yield f"per lane: {counted(self.rounds, 'round')} of {counted(self.round_size, 'task')}, order: {self.order}"
        if self.heldout:
            before = ", ".join(str(check) for check in self.checks[:-1])
            yield f"held out: {counted(self.heldout, 'task')}, before round {before} and after the last"
        done = f", {self.finished} of them finished" if self.finished else ""
        yield f"in all: {counted(self.episodes, 'episode')}{done}"
        for power in self.power:
            yield f"power {power.of}: {power.sentence}"
        if self.power:
            yield f"  assumed: {self.power[0].assumed}"
        if self.stop:
            yield str(self.stop)
        yield f"analysis: {self.analysis}"
        yield self._curve()
        if self.budget:
            yield f"budget used: {', '.join(f'{share} {name}' for name, share in self.budget.items())}"
        for warning in self.warnings:
            yield f"warning: {warning}"

    def _curve(self) -> str:
        """Whether a learning curve can be fitted."""
        told = f"curve: {counted(self.lanes_per_arm, 'lane')} of {counted(self.learnt, 'task')} per arm"
        if (episodes := self.lanes_per_arm * self.learnt) < CURVE_EPISODES:
            least = f"a fit needs {CURVE_EPISODES} episodes per arm and has {episodes}"
            return f"{told}; {least}, so no curve will be fitted: add worlds or rounds"
        if self.lanes_per_arm < CURVE_LANES or self.learnt < CURVE_TASKS:
            return f"{told}; probably not identified: that usually takes {CURVE_LANES} lanes of {CURVE_TASKS} tasks"
        return f"{told}, which is usually enough"


def pooled_power(plans: Sequence[ExperimentPlan]) -> list[Power]:
    """The power of the pooled comparisons of several runs: over all rounds, and after learning. Units are the worlds of
    each run; the expected rates are those of the first run. Empty if the runs compare nothing."""
    by_part: dict[str, list[Power]] = {}
    for plan in plans:
        for one in plan.power:
            by_part.setdefault(one.of, []).append(one)
    return [_pool(each) for each in by_part.values()]


def _pool(each: Sequence[Power]) -> Power:
    from hermes_lab.analysis.stats import power

    lanes, worlds, pairs, tasks = (
        sum(getattr(one, of) for one in each) for of in ("lanes", "worlds", "pairs", "tasks")
    )
    first, clusters = each[0], power.Lanes(worlds, what="worlds")
    rates = (tasks, first.baseline, first.effect)
    value, sentence = power.power_of_pairs(*rates, lanes=clusters), power.sentence(*rates, lanes=clusters)
    return Power(
        first.of, pairs, *rates[:1], lanes, worlds, *rates[1:], value, sentence, power.assumptions(lanes=clusters)
    )


def plan_experiment(config: RunConfig, lanes: Sequence[Lane], budget: Budget, finished: int) -> ExperimentPlan:
    """The plan of an experiment with these `lanes`, of which `finished` episodes are done."""
    learning, lane = config.learning, lanes[0]
    weights = weights_of("learn", config)
    primary = primary_of(config, lanes, weights)
    stops = primary is not None and primary.stop != "never"
    each = learning.replicates * learning.worlds
    learnt, heldout = sum(map(len, lane.rounds)), sum(map(len, lane.heldout))
    return ExperimentPlan(
        arms=learning.arms,
        weights=weights,
        replicates=learning.replicates,
        worlds=learning.worlds,
        blocks=learning.blocks,
        lanes=len(lanes),
        lanes_per_arm=each,
        rounds=learning.rounds,
        round_size=learning.round_size,
        order=learning.order,
        learnt=learnt,
        heldout=heldout,
        checks=sorted(lane.checks),
        episodes=sum(lane.wanted for lane in lanes),
        finished=finished,
        power=_comparison_power(config, each, learnt, heldout) if len(learning.arms) * len(weights) > 1 else (),
        analysis=analysis_of(primary),
        stop=_stop_power(primary) if primary and stops else None,
        budget=budget.shares,
        warnings=[*_untreated(config, heldout), *(_late_stop(config, lanes, primary) if primary and stops else ())],
    )


def _untreated(config: RunConfig, heldout: int) -> Iterator[str]:
    """Why arms may never learn, or never use what they learn, as far as the plan can tell."""
    learning, every = config.learning, config.skills.review_every
    arms = " and ".join(f"`{arm}`" for arm in learning.arms if arm in LEARNING_ARMS)
    if not arms:
        return
    # Skills that the last round writes are used by held-out tasks only.
    tasks = (learning.rounds - (not heldout)) * learning.round_size
    if not tasks:
        yield (
            f"nothing that {arms} learns is ever used: there is one round, and no held-out task after it; raise "
            "learning.rounds or learning.heldout.tasks"
        )
        return
    most = tasks * config.agent.max_iterations
    before = f"a lane has {counted(tasks, 'task')} before its last use of skills"
    if every > most:
        why = f"{before}, with {most:,} iterations at most, so it is never reached"
    elif every > tasks:
        why = f"{before}, so an agent with one iteration per task gets no review"
    else:
        return
    yield (
        f"{arms} may never learn: skills.review_every is {every:,} tool-calling iterations, and {why}; lower it "
        "(0: after every episode)"
    )


def _stop_power(primary: Primary) -> StopPower:
    from hermes_lab.analysis.stats.anytime import sequential_power, units_needed
    from hermes_lab.analysis.stats.power import Lanes

    clusters, rates = Lanes(primary.units, what=primary.over), (primary.baseline, primary.effect)
    pairs = primary.units * primary.pairs
    planned = sequential_power(pairs, *rates, clusters, truth=primary.effect)
    most = min(max(2 * primary.effect, -primary.baseline), 1 - primary.baseline)
    return StopPower(
        primary.over,
        primary.units,
        planned.power,
        planned.units,
        sequential_power(pairs, *rates, clusters, truth=most).units,
        units_needed(primary.pairs, *rates, primary.units),
    )


def _late_stop(config: RunConfig, lanes: Sequence[Lane], primary: Primary) -> Iterator[str]:
    """Why a stop may come too late to save much."""
    at_once = units_at_once(lanes, primary.units, config.run.concurrency)
    if 4 * at_once > primary.units:
        yield (
            f"{at_once} of {primary.units} {primary.over} run at once (run.concurrency is "
            f"{config.run.concurrency}), so that an early stop saves few episodes; lower it"
        )


def _comparison_power(config: RunConfig, lanes: int, learnt: int, heldout: int) -> list[Power]:
    """The power of the run's comparisons, with the same units as `compare`."""
    from hermes_lab.analysis.stats import power
    from hermes_lab.analysis.stats.rates import MIN_UNITS

    expect, learning = config.learning.expect, config.learning
    # Replicates that differ only in task order share their tasks.
    shared = learning.order != "drawn" and learning.replicates > 1
    clusters = None if shared else power.Lanes(lanes)
    if learning.worlds >= MIN_UNITS:
        clusters = power.Lanes(learning.worlds, what="worlds")
    found = []
    for of, tasks in (("over all rounds", learnt), ("after learning", heldout)):
        if tasks:
            pairs, distinct = lanes * tasks, learning.worlds * tasks if shared else lanes * tasks
            rates = (distinct, expect.baseline, expect.effect)
            value, sentence = power.power_of_pairs(*rates, lanes=clusters), power.sentence(*rates, lanes=clusters)
            if shared:
                sentence += f"; {pairs} pairs, but replicates share tasks, so each of {distinct} tasks counts once"
            assumed = power.assumptions(lanes=clusters)
            found.append(Power(of, pairs, distinct, lanes, learning.worlds, *rates[1:], value, sentence, assumed))
    return found
