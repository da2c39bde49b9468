"""mini-swe-agent, as `mini` runs it: a loop around one shell tool, without skills and sessions."""

from collections.abc import Mapping, Sequence

from hermes_lab.harness.program import Program, Settings, Shell, Start
from hermes_lab.types import Message

_DONE = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""What the last command prints."""


class MiniSettings(Settings):
    """The settings of mini-swe-agent."""

    config: str = ""
    """The name of one of its own configurations, such as `mini_textbased`; empty: its default."""


class MiniSweAgent(Program):
    """See `Program`. Without sessions, a rejected task begins anew, with the feedback."""

    name = "mini-swe-agent"
    summary = "mini-swe-agent; it reads no skills and keeps no session"
    dialect = "chat"
    executable = "mini"
    shell = Shell("bash", finish=f"echo {_DONE}")
    package = "mini-swe-agent"
    install = "python3 -m venv ~/.venvs/mini && ~/.venvs/mini/bin/pip install mini-swe-agent"
    resumes = False
    settings = MiniSettings

    def environment(self, start: Start) -> Mapping[str, str]:
        """See `Program.environment`."""
        return {
            "OPENAI_BASE_URL": f"{start.url}/v1",
            "OPENAI_API_KEY": start.key,
            "MSWEA_CONFIGURED": "true",
            "MSWEA_COST_TRACKING": "ignore_errors",
            "MSWEA_SILENT_STARTUP": "1",
            "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "1",
        }

    def command(self, start: Start, prompt: str, session: str) -> Sequence[str]:
        """See `Program.command`."""
        config = ("-c", start.settings.config) if start.settings.config else ()
        output = ("-o", f"{start.home}/trajectory.json")
        return ["-m", f"openai/{start.model}", "-y", "--exit-immediately", "-l", "0", *output, *config, "-t", prompt]

    def answer(self, last: Message) -> str | None:
        """See `Program.answer`."""
        done = any(_DONE in str(call.arguments.get("command", "")) for call in last.tool_calls)
        return last.content.strip() or "done" if done else None
