"""Task suites: what is asked, and how the result is judged.

A task family is a folder `DOMAIN/NAME` here with an attribute `FAMILY`; `adapters` hold third-party suites. Installed
packages register suites in the entry point group `hermes_lab.suites`. A JSONL file is a suite too.
"""

from hermes_lab.tasks.registry import list_suites, load_suite

__all__ = ["list_suites", "load_suite"]
