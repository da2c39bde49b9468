"""A run that is there: what was asked for, and the lanes that it was planned with."""

from pathlib import Path

from hermes_lab.config.schema import RunConfig
from hermes_lab.manifest import read_manifest
from hermes_lab.protocols import Suite
from hermes_lab.runners.engine.folder import with_kept_suite
from hermes_lab.runners.engine.plan import Lane
from hermes_lab.runners.experiments.experiment import plan_learn
from hermes_lab.skills.library import Library, load_snapshot


def config_of(run: Path) -> RunConfig:
    """What a run was asked for, its suite's file as the run kept it. Raises `ConfigError` where there is no run."""
    return with_kept_suite(run, RunConfig.model_validate(read_manifest(run).config))


def lanes_of(run: Path, config: RunConfig, suite: Suite) -> list[Lane]:
    """The lanes of an experiment, with their tasks. The libraries that they begin with are not theirs: those are on
    the disk, and `skills.library` may be gone."""
    folders = sorted((run / "skills").glob("*"))
    some = next((library for folder in folders if (library := load_snapshot(folder)).skills), Library())
    return plan_learn(config, suite, some)
