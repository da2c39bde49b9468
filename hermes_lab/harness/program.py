"""What the lab knows of a program that can work instead of its own loop: one short file each in `programs/`."""

from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from hermes_lab.types import Message
from hermes_lab.types.memory import Target

Dialect = Literal["chat", "messages", "responses"]
"""The interface through which a program asks for replies: OpenAI chat completions, Anthropic Messages, or OpenAI
Responses."""


@dataclass(frozen=True)
class Start:
    """What a program is started with.

    `url` is the address of the recording proxy, without `/v1`, and `key` the API key that it accepts. `home` and
    `workspace` are paths as the program sees them. `review_after`: tool-calling iterations after which the program
    should review its work; 0: never. `carry_state`: whether what matches `Program.state` is carried, so that the
    program should use it.
    """

    model: str
    url: str
    key: str
    home: PurePosixPath
    workspace: PurePosixPath
    review_after: int = 0
    context_tokens: int = 0
    carry_state: bool = False
    settings: Any = None


@dataclass(frozen=True)
class Shell:
    """A program's tool for shell commands: its name, the argument with the command, and what else it needs. `finish` is
    the command by which a program without final answers is told that the work is done."""

    tool: str
    argument: str = "command"
    more: Mapping[str, Any] = field(default_factory=dict)
    finish: str = ""


class Settings(BaseModel):
    """The base of a program's own settings (`agent.settings`)."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


@dataclass(frozen=True)
class Ended:
    """How a one-shot command ended. `stdout` and `stderr` are its last kilobytes."""

    status: int
    stdout: str
    stderr: str


def no_command(prompt: str) -> str:
    """A prompt that a program does not take for one of its slash commands: programs trim it before they look."""
    return f"Task: {prompt}" if prompt.lstrip().startswith("/") else prompt


class Program(ABC):
    """A program that works on tasks.

    It keeps all state below its home, which is made anew for each episode: `files` and the skills and notes that the
    lane has learned. Programs that speak the Agent Client Protocol have a `server` and work on all prompts of an
    episode in one process; others have a `command` for each prompt.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    """One line for `hermes-lab agents list`."""
    dialect: ClassVar[Dialect]
    executable: ClassVar[str]
    """The name of its command."""
    package: ClassVar[str]
    """Its package at the Python or npm registry, from whose metadata the version is read."""
    install: ClassVar[str]
    """A command that installs it."""
    skills: ClassVar[str] = ""
    """Where it reads skills, below the home; empty: it reads none."""
    notes: ClassVar[Mapping[Target, str]] = {}
    """Where its notes are, below the home."""
    state: ClassVar[tuple[str, ...]] = ()
    """Files below the home in which it keeps memory that only it can read, as patterns in which `*` stands for folders
    too: carried with `agent.carry_state`."""
    learns: ClassVar[bool] = False
    """Whether it reviews its work and writes skills by itself."""
    resumes: ClassVar[bool] = True
    """Whether a second prompt can continue its conversation."""
    writers: ClassVar[frozenset[str]] = frozenset()
    """Its tools that write skills and notes, which distinguish writes of its own review from those of its work."""
    shell: ClassVar[Shell]
    """How scripted models run commands in it."""
    settings: ClassVar[type[Settings]] = Settings

    def files(self, start: Start) -> Mapping[str, str]:
        """Its configuration: texts by path below the home."""
        return {}

    def environment(self, start: Start) -> Mapping[str, str]:
        """Environment variables besides PATH, HOME and LANG."""
        return {}

    def server(self, start: Start) -> Sequence[str]:
        """The arguments of a server of the Agent Client Protocol; empty if it has none."""
        return ()

    def command(self, start: Start, prompt: str, session: str) -> Sequence[str]:
        """The arguments that work on one prompt. `session` is that of the earlier prompts, "" for the first one."""
        raise NotImplementedError

    def session(self, ended: Ended) -> str:
        """The session that a command started or continued, for the next prompt."""
        return "last"

    def is_review(self, text: str) -> bool:
        """Whether a user message asks for the program's own review."""
        return False

    def answer(self, last: Message) -> str | None:
        """The answer in a reply that ends the work by a tool call; None if it does not."""
        return None

    def volatile(self, text: str) -> str:
        """A text of a request without what differs between two identical runs, such as the day."""
        return text
