"""OpenCode, by the Agent Client Protocol."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from hermes_lab.harness.program import Program, Shell, Start
from hermes_lab.types.memory import Target

_HOME = ".config/opencode"
_VOLATILE = re.compile(r"(?<=Today's date: ).*")


class OpenCode(Program):
    """See `Program`. It asks for a title of each conversation, which is a side request."""

    name = "opencode"
    summary = "OpenCode; the lab asks it for reviews"
    dialect = "chat"
    executable = "opencode"
    shell = Shell("bash", more={"description": "Runs a command"})
    package = "opencode-ai"
    install = "npm install -g opencode-ai"
    skills = f"{_HOME}/skills"
    notes: ClassVar[Mapping[Target, str]] = {"memory": f"{_HOME}/AGENTS.md"}

    def files(self, start: Start) -> Mapping[str, str]:
        """See `Program.files`."""
        model: dict[str, object] = {"name": start.model}
        if start.context_tokens:
            model["limit"] = {"context": start.context_tokens, "output": start.context_tokens}
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "lab",
            "options": {"baseURL": f"{start.url}/v1", "apiKey": start.key},
            "models": {start.model: model},
        }
        settings = {
            "model": f"lab/{start.model}",
            "small_model": f"lab/{start.model}",
            "provider": {"lab": provider},
            "permission": {"*": "allow"},
            "autoupdate": False,
            "share": "disabled",
        }
        return {f"{_HOME}/opencode.json": json.dumps(settings)}

    def environment(self, start: Start) -> Mapping[str, str]:
        """See `Program.environment`."""
        return {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1"}

    def server(self, start: Start) -> Sequence[str]:
        """See `Program.server`."""
        return ["acp"]

    def volatile(self, text: str) -> str:
        """See `Program.volatile`."""
        return _VOLATILE.sub("", text)
