"""Errors of an endpoint. A separate module, so that commands without a model start without an HTTP client."""

import logging

from hermes_lab.errors import ModelError

RETRIES = logging.getLogger("hermes_lab.models.retries")
"""Tells of failed requests that are tried again."""


class Refused(ModelError):
    """The server answered with the HTTP error `status`; the message is the server's own, on one line. `body` is the
    whole answer, if it is known."""

    def __init__(self, message: str, status: int, body: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.body = body


class Rejected(Refused):
    """The server refused a request that somebody else has written, for nothing that the configuration has set."""


class Unreachable(ModelError):
    """No connection could be made."""


class NoReply(ModelError):
    """The server exceeded the timeout."""


class Failed(ModelError):
    """The server answered 200, but the body reports a failure that may pass on a retry. `status` is the HTTP status in
    the body; 0 if it has none."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status
