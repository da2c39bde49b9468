"""Thousands of rollouts in one process need thousands of open files."""

import resource

from hermes_lab.errors import ConfigError

_PER_ROLLOUT = 8
"""Descriptors of one sandbox and one connection, those of its start included."""
_OTHERS = 200


def raise_open_file_limit(concurrency: int) -> None:
    """Raises this process's limit as far as `concurrency` rollouts need. Raises `ConfigError` where it may not."""
    needed = _OTHERS + _PER_ROLLOUT * concurrency
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and needed > hard:
        most = (hard - _OTHERS) // _PER_ROLLOUT
        raise ConfigError(
            f"run.concurrency: {concurrency} rollouts at once need {needed} open files, and this process may have "
            f"{hard}; use at most {most}, or raise `ulimit -n`"
        )
    if soft != resource.RLIM_INFINITY and needed > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
