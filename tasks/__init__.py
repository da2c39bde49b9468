"""Task suites: task generators and their verifiers.

A task family is a package `DOMAIN/NAME` in this folder with an attribute `FAMILY`; `adapters` contains third-party
suites. Installed packages register suites in the entry point group `hermes_lab.suites`. A JSONL file is also a suite.
"""

from hermes_lab.tasks.registry import list_suites, load_suite

__all__ = ["list_suites", "load_suite"]
