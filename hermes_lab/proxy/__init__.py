"""The recording proxy: the only way from a program inside a sandbox to a model.

It runs in the harness, one for each episode. Programs speak chat completions, Anthropic Messages or OpenAI Responses to
it; it holds the real key, keeps every exchange, ends budgets, and alone decides what is an infrastructure failure.
"""

from hermes_lab.proxy.server import Proxy
from hermes_lab.proxy.upstream import upstream_for

__all__ = ["Proxy", "upstream_for"]
