"""Qwen 2.5 and 3 (not Qwen 3 Coder): the format of Hermes, which their chat templates took over."""

from hermes_lab.models.parsers.hermes import parse

__all__ = ["parse"]
