"""Qwen 2.5 and 3 (not Qwen 3 Coder), whose chat templates adopted the format of Hermes."""

from hermes_lab.models.parsers.hermes import parse

__all__ = ["parse"]
