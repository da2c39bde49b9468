"""A task, and the judgement of what an agent made of it."""

from typing import Any

from msgspec import Struct

from hermes_lab.types.web import Page


class Task(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One task of a suite.

    `files` are laid into the fresh workspace before the first model call, then the bash commands of `setup` make what a
    text cannot be: modes, links, binaries. `pages` are the web that the agent can search. `triggers` names the hidden
    rules that decide this task: it is the truth that analysis scores against, and is never shown to the agent. `truth`
    is the suite's own answer key; it stays in the harness process and is in no record.
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
    """What a verifier says of one submission.

    `score` is in [0, 1]; `criteria` holds the named parts it is made of, each in [0, 1], and `reasons` says of those
    below 1 what is missing. `feedback` is what the workspace's owner would say of a submission that is not wholly
    right: it is shown to the agent, so it holds no answer.
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
