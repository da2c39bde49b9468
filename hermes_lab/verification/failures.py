"""What to say about a bug in a verifier: its file, its line and the traceback."""

import traceback

from hermes_lab.errors import InfraError, VerifierError
from hermes_lab.raised import told

_MAX_DETAIL = 20_000
"""Characters kept of a traceback; the end is kept, which names the line."""


def explain(error: Exception, package: str = "") -> VerifierError:
    """The error of an episode whose verifier raised `error`, to be raised from it.

    `package` is the verifier's module: its frames are the user's own, even if it is installed.
    """
    return VerifierError(told(error, package))


def traceback_of(failure: InfraError) -> str:
    """The traceback of an exception in a verifier; "" for other failures, where a traceback does not help."""
    if not isinstance(failure, VerifierError) or failure.__cause__ is None:
        return ""
    return "".join(traceback.format_exception(failure.__cause__))[-_MAX_DETAIL:]
