"""Registers the plan of an experiment: written to its folder before the first episode, and checked on resume."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from hermes_lab.analysis.stats.rates import over_of
from hermes_lab.config.digest import config_digest
from hermes_lab.config.schema import RunConfig
from hermes_lab.errors import ConfigError
from hermes_lab.records import episode_files, write_json
from hermes_lab.registration import FILE, Primary, RegisteredPlan, content_digest, is_extended, missing_plan, read_plan
from hermes_lab.runners.engine.plan import Lane


def primary_of(config: RunConfig, lanes: Sequence[Lane], weights: Sequence[str]) -> Primary | None:
    """The primary comparison of an experiment; None if it has one arm and one set of weights.

    Raises `ConfigError` for a stopping rule without a comparison that can be looked at early.
    """
    learning, lane = config.learning, lanes[0]
    question, before, after = _question(learning.arms, weights)
    if not question:
        if learning.stop.when != "never":
            raise ConfigError(f"{_when(config)}: there is nothing to compare; give two learning.arms")
        return None
    # Replicates that differ only in task order share their tasks.
    shared = learning.order != "drawn" and learning.replicates > 1
    over = over_of(learning.worlds, learning.worlds * learning.replicates, shared=shared)
    heldout = sum(map(len, lane.heldout))
    tasks = heldout or sum(map(len, lane.rounds))
    per_unit = learning.replicates if over == "worlds" else 1
    primary = Primary(
        question=question,
        before=before,
        after=after,
        phase="heldout" if heldout else "learn",
        round=len(lane.rounds) if heldout else 0,
        over=over,
        worlds=learning.worlds,
        replicates=learning.replicates,
        units=learning.worlds if over == "worlds" else learning.worlds * learning.replicates,
        pairs=tasks * per_unit,
        baseline=learning.expect.baseline,
        effect=learning.expect.effect,
        stop=learning.stop.when,
    )
    if learning.stop.when != "never":
        _refuse_stop(primary, config)
    return primary


def _question(arms: Sequence[str], weights: Sequence[str]) -> tuple[str, str, str]:
    """The question that `compare` answers for a run with these arms and weights, and its two sides."""
    if {"off", "on"} <= set(arms):
        return "skills and weights" if len(weights) > 1 else "skills", "off", "on"
    if len(arms) > 1:
        return "arms", arms[0], arms[1]
    if len(weights) > 1:
        return "weights", weights[0] or "no adapter", weights[-1]
    return "", "", ""


def _when(config: RunConfig) -> str:
    return f"learning.stop.when={config.learning.stop.when}"


def _refuse_stop(primary: Primary, config: RunConfig) -> None:
    """Raises `ConfigError` for a comparison that cannot be looked at early."""
    when = _when(config)
    if len(config.learning.adapters) > 1:
        raise ConfigError(f"{when}: only arms can be compared early; use one adapter")
    if not primary.sequential:
        raise ConfigError(
            f"{when}: needs at least 6 independent worlds or lanes: raise learning.worlds to 6 or more, or, with the "
            "order `drawn`, learning.replicates"
        )
    if primary.effect == 0:
        raise ConfigError(f"{when}: set learning.expect.effect, the effect to look for")


def analysis_of(primary: Primary | None) -> str:
    """The primary analysis in words."""
    if primary is None:
        return "none: there is nothing to compare"
    if primary.stop != "never":
        ends = {
            "shown": "a difference is shown",
            "hopeless": "the expected effect is excluded",
            "either": "a difference is shown or the expected effect is excluded",
        }
        return (
            f"an anytime-valid sign-flip test of whole {primary.over} after each {primary.over.removesuffix('s')}, in "
            "order, two-sided at 5 %, with its 95 % confidence sequence; the experiment ends once "
            f"{ends[primary.stop]}"
        )
    units = "tasks" if primary.over == "tasks" else f"whole {primary.over}"
    return f"one mid-p sign-flip test of {units} at the end, two-sided at 5 %, with its 95 % interval"


def units_at_once(lanes: Sequence[Lane], units: int, concurrency: int) -> int:
    """How many units of an experiment with a stopping rule run at the same time: as many as fill the slots with their
    rounds, and one more."""
    slots = len(lanes) // units * max(map(len, lanes[0].rounds))
    return min(concurrency // max(slots, 1) + 1, units)


def register_plan(
    out: Path,
    config: RunConfig,
    lanes: Sequence[Lane],
    *,
    weights: Sequence[str],
    tasks_digest: str,
    library: str,
    adapter_digest: str,
) -> None:
    """Writes `plan.json`, or checks that a run with episodes has this plan.

    A run that began without one keeps none, and one that was extended keeps its own.

    Raises `ConfigError` if the registered plan is another.
    """
    primary = primary_of(config, lanes, weights)
    plan = RegisteredPlan(
        registered_at=datetime.now(UTC).isoformat(timespec="seconds"),
        primary=primary,
        analysis=analysis_of(primary),
        arms=config.learning.arms,
        weights=weights,
        episodes=sum(lane.wanted for lane in lanes),
        config_digest=config_digest(config),
        tasks_digest=tasks_digest,
        library=library,
        adapter_digest=adapter_digest,
    )
    plan = msgspec.structs.replace(plan, digest=content_digest(msgspec.to_builtins(plan)))
    if not episode_files(out):
        write_json(out / FILE, plan)
    elif (registered := read_plan(out)) is None:
        if config.learning.stop.when != "never":
            raise ConfigError(missing_plan(out, config.learning.stop.when))
    elif registered.primary != plan.primary and not is_extended(registered, plan.episodes):
        raise ConfigError(f"{out / FILE}: registers {_difference(registered.primary, primary)}; choose another --out")


def _difference(was: Primary | None, now: Primary | None) -> str:
    """The first field in which two plans differ, as `stop=shown, now never`."""
    before, after = ({} if each is None else msgspec.structs.asdict(each) for each in (was, now))
    for name in before | after:
        if before.get(name) != after.get(name):
            return f"{name}={before.get(name, 'none')}, now {after.get(name, 'none')}"
    return "another comparison"
