"""Qwen Code by Alibaba, by the Agent Client Protocol."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from hermes_lab.harness.program import Program, Shell, Start
from hermes_lab.types.memory import Target

_HOME = ".qwen"
_VOLATILE = re.compile(r"(?<=Today's date is )[^(\n]*|(?<=Process Group PGID: )\d+")


class Qwen(Program):
    """See `Program`."""

    name = "qwen"
    summary = "Qwen Code; the lab asks it for reviews"
    dialect = "chat"
    executable = "qwen"
    shell = Shell("run_shell_command", more={"is_background": False})
    package = "@qwen-code/qwen-code"
    install = "npm install -g @qwen-code/qwen-code"
    skills = f"{_HOME}/skills"
    notes: ClassVar[Mapping[Target, str]] = {"memory": f"{_HOME}/QWEN.md"}

    def files(self, start: Start) -> Mapping[str, str]:
        """See `Program.files`."""
        settings = {
            "security": {"auth": {"selectedType": "openai"}},
            "general": {"disableAutoUpdate": True, "disableUpdateNag": True},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "tools": {"shell": {"enableInteractiveShell": False}},  # sandboxes have no terminals
        }
        return {f"{_HOME}/settings.json": json.dumps(settings)}

    def environment(self, start: Start) -> Mapping[str, str]:
        """See `Program.environment`."""
        return {"OPENAI_BASE_URL": f"{start.url}/v1", "OPENAI_API_KEY": start.key, "OPENAI_MODEL": start.model}

    def server(self, start: Start) -> Sequence[str]:
        """See `Program.server`."""
        return ["--acp", "--auth-type", "openai", "--yolo"]

    def volatile(self, text: str) -> str:
        """See `Program.volatile`."""
        return _VOLATILE.sub("", text)
