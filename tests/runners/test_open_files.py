"""Thousands of rollouts at once: the limit of open files is raised, or the most that is possible is named."""

import resource
from collections.abc import Iterator

import pytest

from hermes_lab.errors import ConfigError
from hermes_lab.runners.engine.open_files import raise_open_file_limit


@pytest.fixture(autouse=True)
def small_limit() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_limit_is_raised_as_far_as_needed_and_never_lowered() -> None:
    raise_open_file_limit(16)
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 1024
    raise_open_file_limit(300)
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= 300 * 8


def test_more_than_the_machine_allows_is_refused_with_the_most_that_works() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with pytest.raises(ConfigError, match=r"run.concurrency: .* use at most (\d+)") as refused:
        raise_open_file_limit(hard)
    most = int(str(refused.value).split("at most ")[1].split(",")[0])
    raise_open_file_limit(most)
