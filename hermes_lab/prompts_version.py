"""The version of what models read."""

PROMPTS = "2"
"""The version of what the bundled suites and tools say to a model: system prompts, tool schemas and results, review
requests, and the prompts and rejections of tasks.

Raise it with any release that changes such a text: results and adapters of other texts are not comparable. `run.json`
has it under `versions`; a run without it has version 1.
"""
