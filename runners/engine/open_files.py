"""The open file limit: thousands of concurrent rollouts need more than the default."""

import resource

from hermes_lab.errors import ConfigError

_PER_ROLLOUT = 8
"""File descriptors per rollout: its sandbox and connection, including those used only at startup."""
_OTHERS = 200


def raise_open_file_limit(concurrency: int) -> None:
    """Raises the process's limit to what `concurrency` rollouts need. Raises `ConfigError` above the hard limit."""
    needed = _OTHERS + _PER_ROLLOUT * concurrency
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and needed > hard:
        most = (hard - _OTHERS) // _PER_ROLLOUT
        raise ConfigError(
            f"run.concurrency: {concurrency} concurrent rollouts need {needed} open files, but the limit is {hard}; "
            f"use at most {most}, or raise `ulimit -n`"
        )
    if soft != resource.RLIM_INFINITY and needed > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
