"""GLM 4.7: the format of GLM 4.5 without line breaks, which mean nothing there either."""

from hermes_lab.models.parsers.glm45 import parse

__all__ = ["parse"]
