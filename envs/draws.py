"""Which tasks of its suite an environment draws."""

from collections.abc import Iterator

from hermes_lab.config.schema import RunConfig, SuiteConfig
from hermes_lab.protocols import Suite
from hermes_lab.returned import load_tasks
from hermes_lab.tasks.registry import wrap_suite_errors
from hermes_lab.types import Task
from hermes_lab.verification import check_judge


def split_of(config: SuiteConfig, suite: Suite) -> str:
    """The configured split; if none is configured and the suite has none of the default name, its first one."""
    return config.split if "split" in config.model_fields_set or config.split in suite.splits else suite.splits[0]


def check_env_judge(config: RunConfig, suite: Suite) -> None:
    """As `check_judge`, for the tasks of the split that an environment draws from."""
    check_judge(config, suite, _tasks(config.suite, suite))


def _tasks(config: SuiteConfig, suite: Suite) -> Iterator[Task]:
    """A generator, since only suites with rubrics are asked for their tasks; many others have no end of them."""
    split = split_of(config, suite)
    with wrap_suite_errors(suite):
        tasks = load_tasks(suite, split=split, count=config.count, seed=config.seed, world=config.world)
    yield from tasks
