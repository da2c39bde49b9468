"""Reloads the configuration and lanes of an existing run."""

from pathlib import Path

from hermes_lab.config.schema import RunConfig
from hermes_lab.manifest import read_manifest
from hermes_lab.protocols import Suite
from hermes_lab.runners.engine.folder import with_kept_suite
from hermes_lab.runners.engine.plan import Lane
from hermes_lab.runners.experiments.experiment import plan_learn
from hermes_lab.skills.library import Library, load_snapshot


def config_of(run: Path) -> RunConfig:
    """The configuration of a run, with the run's copy of the suite's file. Raises `ConfigError` if there is no run."""
    return with_kept_suite(run, RunConfig.model_validate(read_manifest(run).config))


def lanes_of(run: Path, config: RunConfig, suite: Suite) -> list[Lane]:
    """The lanes of an experiment with their tasks, but not with their initial libraries, since `skills.library` may be
    gone; load those from the run's folder."""
    folders = sorted((run / "skills").glob("*"))
    some = next((library for folder in folders if (library := load_snapshot(folder)).skills), Library())
    return plan_learn(config, suite, some)
