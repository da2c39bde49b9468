"""Processes that a test may kill: each is a fork of one that has imported the lab already.

A new interpreter would import it for a second or two at every start.
"""

import multiprocessing
from collections.abc import Callable
from multiprocessing.process import BaseProcess

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["pytest", "hermes_lab.runners.environments.learning", "hermes_lab.training.grpo"])


def process(target: Callable[..., object], *args: object) -> BaseProcess:
    """A process that will call `target`."""
    return _CONTEXT.Process(target=target, args=args)
