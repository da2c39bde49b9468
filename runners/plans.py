"""Plans of runs and experiments from configuration sources."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from hermes_lab.analysis.libraries import load_initial_library
from hermes_lab.config.schema import RunConfig
from hermes_lab.config.sources import load_config
from hermes_lab.errors import ConfigError
from hermes_lab.runners.engine.budget import Share
from hermes_lab.runners.engine.execute import NO_FOLDER, RunPlan
from hermes_lab.runners.engine.plan import plan_run
from hermes_lab.runners.experiments.experiment import plan_learn
from hermes_lab.runners.experiments.experiment_plan import ExperimentPlan, plan_experiment
from hermes_lab.tasks import load_suite
from hermes_lab.text.counted import counted


class RunSize(Struct, frozen=True, kw_only=True):
    """The size of a planned run. `finished` counts the episodes that its folder already has."""

    suite: str
    model: str
    tasks: int
    samples: int
    episodes: int
    finished: int
    budget: Mapping[str, Share]

    def lines(self) -> Iterator[str]:
        """The plan as text."""
        done = f", {self.finished:,} of them finished" if self.finished else ""
        size = f"{counted(self.tasks, 'task')} x {counted(self.samples, 'sample')}"
        yield f"plan: {size} = {counted(self.episodes, 'episode')}{done}"
        yield f"suite {self.suite}, model {self.model}"
        if self.budget:
            yield f"budget used: {', '.join(f'{share} {name}' for name, share in self.budget.items())}"


def size_of(plan: RunPlan) -> RunSize:
    """The size of a planned run, and how much of it is already finished."""
    tally = plan.progress()
    return RunSize(
        suite=plan.suite.name,
        model=plan.config.model.name,
        tasks=plan.wanted // plan.config.run.samples,
        samples=plan.config.run.samples,
        episodes=plan.wanted,
        finished=tally.total("finished"),
        budget=tally.budget.shares,
    )


def plan_of(
    command: Literal["run", "learn"],
    sources: Sequence[str] | RunConfig,
    out: Path | None,
    *,
    only_shown: bool = False,
) -> RunPlan:
    """Plans a run, or an experiment (`learn`). `sources` are YAML files and `key=value` overrides.

    Raises `ConfigError` for an invalid configuration, and for a missing folder unless the plan is `only_shown`.
    """
    config = sources if isinstance(sources, RunConfig) else load_config(sources)
    folder = out or (Path(config.run.out) if config.run.out else None)
    if folder is None and not only_shown:
        raise ConfigError(NO_FOLDER)
    if config.env.knowledge != "none":
        what = "skills.library" if command == "run" else "learning.arms"
        raise ConfigError(
            f"env.knowledge: `{config.env.knowledge}` is for environments and `train grpo`; set it to none, and use "
            f"{what}"
        )
    suite, library = load_suite(config.suite, config.sandbox), load_initial_library(config.skills.library)
    lanes = (plan_learn if command == "learn" else plan_run)(config, suite, library)
    return RunPlan(command, config, folder, suite, lanes, library.snapshot)


def describe(plan: RunPlan) -> ExperimentPlan:
    """The size and power of a planned experiment, and how much of it is already finished."""
    tally = plan.progress()
    return plan_experiment(plan.config, plan.lanes, tally.budget, tally.total("finished"))
