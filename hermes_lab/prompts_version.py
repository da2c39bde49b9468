"""The version of the agent's prompts. The texts of tasks have a version of their own (`hermes_lab.tasks_version`)."""

PROMPTS = "2"
"""The version of what a model is sent regardless of the task: system prompts, tool schemas and results, and review
requests.

Raise it with any release that changes such a text: results and adapters of other texts are not comparable. `run.json`
has it under `versions`; a run without it has version 1.
"""
