"""Tasks, verdicts and rewards."""

from typing import Any

from msgspec import Struct

from hermes_lab.types.web import Page


class Task(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One task of a suite.

    Before the first model call, `files` are written to a fresh workspace, and then the bash commands in `setup` create
    what text cannot express: modes, links, binaries. `pages` are the web that the agent can search. `triggers` names
    the hidden rules that apply to this task: ground truth for analysis, never shown to the agent. `truth` is the
    suite's answer key; it stays in the harness process and is never recorded.
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
