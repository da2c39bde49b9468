"""hermes-agent by Nous Research, as `hermes chat` runs it."""

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

import yaml

from hermes_lab.harness.program import Ended, Program, Settings, Shell, Start
from hermes_lab.types.memory import Target

_HOME = ".hermes"
_PLUGIN = '''\
"""Waits for background reviews, which `hermes chat -q` would end with its process."""

import threading


def register(context):
    context.register_hook("on_session_end", _wait)


def _wait(**_):
    for thread in threading.enumerate():
        if thread.name == "bg-review":
            thread.join()
'''
_REVIEW = re.compile(r"Review the conversation above and (update|consider) ")
_STARTED = re.compile(r"^Conversation started: .*$", re.MULTILINE)


class HermesSettings(Settings):
    """The settings of hermes-agent."""

    toolsets: tuple[str, ...] = ("terminal", "file", "skills", "memory", "todo")
    """Its toolsets (`hermes tools list`)."""
    max_tokens: int = 0
    """Maximum completion tokens that it asks for; 0: its default for the model."""
    memory_nudge_interval: int = 10
    """User turns after which its review looks at its memory, too; 0: never. It counts the turns of one episode."""


class Hermes(Program):
    """See `Program`.

    Its own memory, `state.db`, holds its sessions, in which its tool `session_search` finds earlier work.

    Its review runs in a thread of the process, which `hermes chat -q` does not wait for; a plugin in its home does.
    """

    name = "hermes"
    summary = "hermes-agent, with its own skill and memory reviews"
    dialect = "chat"
    executable = "hermes"
    shell = Shell("terminal")
    package = "hermes-agent"
    install = "python3 -m venv ~/.venvs/hermes && ~/.venvs/hermes/bin/pip install hermes-agent"
    skills = f"{_HOME}/skills"
    notes: ClassVar[Mapping[Target, str]] = {
        "memory": f"{_HOME}/memories/MEMORY.md",
        "user": f"{_HOME}/memories/USER.md",
    }
    state = (f"{_HOME}/state.db*",)
    learns = True
    writers = frozenset({"skill_manage", "memory"})
    settings = HermesSettings

    def files(self, start: Start) -> Mapping[str, str]:
        """See `Program.files`."""
        model: dict[str, object] = {
            "provider": "custom",
            "default": start.model,
            "base_url": f"{start.url}/v1",
            "api_key": start.key,
        }
        if start.settings.max_tokens:
            model["max_tokens"] = start.settings.max_tokens
        if start.context_tokens:
            model["context_length"] = start.context_tokens
        config = {
            "model": model,
            "terminal": {"backend": "local", "cwd": str(start.workspace)},
            "skills": {"creation_nudge_interval": start.review_after},
            "memory": {"nudge_interval": start.settings.memory_nudge_interval if start.review_after else 0},
            # Otherwise it tries to install programs, which takes seconds and fails without a network.
            "security": {"tirith_enabled": False, "allow_lazy_installs": False},
            "plugins": {"enabled": ["lab"]},
        }
        return {
            f"{_HOME}/config.yaml": yaml.safe_dump(config),
            f"{_HOME}/plugins/lab/plugin.yaml": "name: lab\nversion: '1'\ndescription: Waits for reviews.\n",
            f"{_HOME}/plugins/lab/__init__.py": _PLUGIN,
            f"{_HOME}/skills/.no-bundled-skills": "",
        }

    def environment(self, start: Start) -> Mapping[str, str]:
        """See `Program.environment`."""
        return {"HERMES_HOME": f"{start.home}/{_HOME}", "NO_COLOR": "1"}

    def command(self, start: Start, prompt: str, session: str) -> Sequence[str]:
        """See `Program.command`."""
        searching = ("session_search",) if start.carry_state else ()
        toolsets = ",".join(dict.fromkeys((*start.settings.toolsets, *searching)))
        resumed = ("--resume", session) if session else ()
        return ["chat", "-Q", "--yolo", "-t", toolsets, *resumed, f"--query={prompt}"]

    def session(self, ended: Ended) -> str:
        """See `Program.session`."""
        found = re.findall(r"^session_id: (\S+)", ended.stderr, re.MULTILINE)
        return found[-1] if found else ""

    def is_review(self, text: str) -> bool:
        """See `Program.is_review`."""
        return _REVIEW.match(text) is not None

    def volatile(self, text: str) -> str:
        """See `Program.volatile`."""
        return _STARTED.sub("Conversation started: (day)", text)
