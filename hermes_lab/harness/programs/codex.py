"""Codex by OpenAI, as `codex exec` runs it."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from hermes_lab.harness.program import Program, Settings, Shell, Start
from hermes_lab.types.memory import Target

_HOME = ".codex"
_VOLATILE = re.compile(r"(?<=<current_date>)[^<]*|(?<=Chunk ID: )\w+|(?<=Wall time: )[\d.]+")
_KEY = "HERMES_LAB_PROXY_KEY"


class CodexSettings(Settings):
    """The settings of Codex."""

    reasoning_effort: str = ""
    """`minimal`, `low`, `medium`, `high` or `xhigh`; empty: its default for the model."""


class Codex(Program):
    """See `Program`. It runs without its own sandbox, since it is inside the lab's."""

    name = "codex"
    summary = "Codex; the lab asks it for reviews"
    dialect = "responses"
    executable = "codex"
    shell = Shell("exec_command", "cmd")
    package = "@openai/codex"
    install = "npm install -g @openai/codex"
    skills = f"{_HOME}/skills"
    notes: ClassVar[Mapping[Target, str]] = {"memory": f"{_HOME}/AGENTS.md"}
    settings = CodexSettings

    def files(self, start: Start) -> Mapping[str, str]:
        """See `Program.files`."""
        effort = start.settings.reasoning_effort
        lines = [
            f"model = {json.dumps(start.model)}",
            'model_provider = "lab"',
            'approval_policy = "never"',
            'sandbox_mode = "danger-full-access"',
            "check_for_update_on_startup = false",
            *([f"model_reasoning_effort = {json.dumps(effort)}"] if effort else []),
            *([f"model_context_window = {start.context_tokens}"] if start.context_tokens else []),
            "[model_providers.lab]",
            'name = "lab"',
            f"base_url = {json.dumps(f'{start.url}/v1')}",
            f'env_key = "{_KEY}"',
            'wire_api = "responses"',
            "request_max_retries = 0",
            "stream_max_retries = 0",
            "[analytics]",
            "enabled = false",
        ]
        return {f"{_HOME}/config.toml": "\n".join(lines) + "\n"}

    def environment(self, start: Start) -> Mapping[str, str]:
        """See `Program.environment`."""
        return {"CODEX_HOME": f"{start.home}/{_HOME}", _KEY: start.key}

    def command(self, start: Start, prompt: str, session: str) -> Sequence[str]:
        """See `Program.command`."""
        options = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
        resumed = ("resume", "--last") if session else ()
        return ["exec", *options, *resumed, "--", prompt]

    def volatile(self, text: str) -> str:
        """See `Program.volatile`."""
        return _VOLATILE.sub("", text)
