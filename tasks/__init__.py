"""Task suites: what is asked, and how the outcome is judged.

A suite is a sub-package with a `suite.py` whose `load()` gives it; third parties register theirs in the entry
point group `hermes_lab.suites`; a JSONL file is a suite too.
"""

from hermes_lab.tasks.registry import list_suites, load_suite

__all__ = ["list_suites", "load_suite"]
