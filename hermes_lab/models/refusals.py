"""Errors of an endpoint. The HTTP client is not imported here, so that commands without a model start fast."""

from hermes_lab.errors import ModelError


class Refused(ModelError):
    """The server answered with an HTTP error, `status`; the message is the server's own, on one line."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class NoReply(ModelError):
    """The server took longer than it may."""


class Failed(ModelError):
    """The server answered with 200, and the answer says that it failed; another try may mend that."""
