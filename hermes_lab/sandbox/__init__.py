"""Sandboxes: an isolated workspace for every episode, provided by one of several backends."""

from hermes_lab.sandbox.backends import check_required, missing_guarantees, open_sandbox, open_sandboxes
from hermes_lab.sandbox.probe import probe

__all__ = ["check_required", "missing_guarantees", "open_sandbox", "open_sandboxes", "probe"]
