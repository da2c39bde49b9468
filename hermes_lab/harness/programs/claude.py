"""Claude Code by Anthropic, as `claude -p` runs it."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from hermes_lab.harness.program import Ended, Program, Settings, Shell, Start, no_command
from hermes_lab.types.memory import Target

_HOME = ".claude"
_VOLATILE = re.compile(r"(?<=Today's date is )\S+(?=\.)")


class ClaudeSettings(Settings):
    """The settings of Claude Code."""

    tools: str = ""
    """Its built-in tools, such as `Bash,Read,Edit,Skill`; empty: all of them."""


class Claude(Program):
    """See `Program`. Its automatic memory is off unless it is carried."""

    name = "claude"
    summary = "Claude Code; the lab asks it for reviews"
    dialect = "messages"
    executable = "claude"
    shell = Shell("Bash")
    package = "@anthropic-ai/claude-code"
    install = "npm install -g @anthropic-ai/claude-code"
    skills = f"{_HOME}/skills"
    notes: ClassVar[Mapping[Target, str]] = {"memory": f"{_HOME}/CLAUDE.md"}
    state = (f"{_HOME}/projects/*/memory/*",)
    settings = ClaudeSettings

    def environment(self, start: Start) -> Mapping[str, str]:
        """See `Program.environment`."""
        memory = {} if start.carry_state else {"CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1"}
        return {
            **memory,
            "ANTHROPIC_BASE_URL": start.url,
            "ANTHROPIC_API_KEY": start.key,
            "ANTHROPIC_MODEL": start.model,
            "ANTHROPIC_SMALL_FAST_MODEL": start.model,
            "CLAUDE_CONFIG_DIR": f"{start.home}/{_HOME}",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "IS_SANDBOX": "1",  # otherwise it refuses to skip permissions as root
        }

    def command(self, start: Start, prompt: str, session: str) -> Sequence[str]:
        """See `Program.command`."""
        tools = ("--tools", start.settings.tools) if start.settings.tools else ()
        resumed = ("--resume", session) if session else ()
        options = ("--dangerously-skip-permissions", "--output-format", "json")
        return ["-p", *options, *tools, *resumed, "--", no_command(prompt)]

    def session(self, ended: Ended) -> str:
        """See `Program.session`."""
        try:
            said = json.loads(ended.stdout.strip().splitlines()[-1])
            return str(said["session_id"])
        except (ValueError, LookupError, TypeError):
            return ""

    def volatile(self, text: str) -> str:
        """See `Program.volatile`."""
        return _VOLATILE.sub("", text)
