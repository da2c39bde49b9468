"""Tasks, verdicts and rewards."""

from typing import Any

from msgspec import Struct

from hermes_lab.types.web import Page


class Root(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The system that a task needs instead of an empty folder at /app/data.

    Commands run as uid 0 in `workdir`, with the variables of `environment`, over a writable root that is thrown away.
    With docker that is a container of `image`; with bubblewrap this machine's system, with the folders or files
    `mounts` read-only at their own paths. `memory_mb`, `disk_mb` (MB) and `seconds` are the task's own limits, 0 for
    none: the stricter of them and the configuration's holds.
    """

    workdir: str
    image: str = ""
    environment: dict[str, str] = {}
    mounts: tuple[str, ...] = ()
    memory_mb: int = 0
    disk_mb: int = 0
    seconds: float = 0.0


class Task(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One task of a suite.

    Before the first model call, `files` are written to a fresh workspace, and then the bash commands in `setup` create
    what text cannot express: modes, links, binaries. `pages` are the web that the agent can search. `triggers` names
    the hidden rules that apply to this task: ground truth for analysis, never shown to the agent. `truth` is the
    suite's answer key; it stays in the harness process and is never recorded. `root` is given for a task with a system
    of its own.
    """

    id: str
    suite: str
    prompt: str
    domain: str = "open_ended"
    split: str = "train"
    world: int = 0
    files: dict[str, str] = {}
    setup: tuple[str, ...] = ()
    pages: tuple[Page, ...] = ()
    triggers: tuple[str, ...] = ()
    attempts: int = 1
    truth: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    root: Root | None = None


class Verdict(Struct, frozen=True, omit_defaults=True):
    """A verifier's judgement of one submission.

    `score` is in [0, 1]; `criteria` are its named parts, each in [0, 1], and `reasons` says for those below 1 what is
    missing. `feedback` is shown to the agent, so it must not contain the answer.
    """

    score: float
    success: bool
    criteria: dict[str, float] = {}
    feedback: str = ""
    reasons: dict[str, str] = {}


class Reward(Struct, frozen=True, omit_defaults=True):
    """A scalar reward and the named terms that add up to it."""

    value: float
    terms: dict[str, float] = {}
