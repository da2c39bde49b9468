"""The configuration of a person's chats: `config.yaml` in the Hermes home. Batches never read it."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from hermes_lab.config.cron import CronJobConfig
from hermes_lab.config.gateway import GatewayConfig
from hermes_lab.config.personalities import NONE, PRESETS
from hermes_lab.config.schema import RunConfig
from hermes_lab.config.section import Section
from hermes_lab.config.zones import check_zone
from hermes_lab.text.suggest import did_you_mean

Verbosity = Literal["off", "new", "all", "verbose"]
"""Which tool calls are shown. `off`: none. `new`: a call where the tool differs from the one before. `all`: every call,
and why it failed. `verbose`: calls and results in full."""
NoticeLevel = Literal["all", "result", "error", "off"]
"""`all`: the end of each background command with the last lines of its output. `result`: its end and exit code.
`error`: only those that failed. `off`: nothing."""
Skin = Literal["default", "mono"]

SETTINGS: Mapping[str, str] = {
    "model": "model.name",
    "personality": "personality",
    "display": "display.skin or display.verbose",
}
"""Names that are no preferences in `user.preferences`, and the fields to set instead."""
_NAME = re.compile(r"[\w-]+")


class UserConfig(Section):
    """The person who chats. New sessions begin with this in their prompt."""

    name: str = ""
    """The person's name, given to the agent; empty: none."""
    timezone: str = ""
    """The person's time zone, such as `Europe/Berlin`. The agent is given the time zone and date at session
    start; empty: neither."""
    preferences: dict[str, str] = Field(default_factory=dict)
    """What the person prefers, such as `language: English` or `units: metric`; given to the agent as written. In
    config.yaml, `model`, `personality` and `display` are also accepted here: they set `model.name`, `personality` and
    `display`."""

    @field_validator("timezone")
    @classmethod
    def _is_known(cls, zone: str) -> str:
        return check_zone(zone)

    @field_validator("preferences", mode="before")
    @classmethod
    def _are_no_settings(cls, preferences: Any) -> Any:
        for key in preferences if isinstance(preferences, Mapping) else ():
            if near := get_close_matches(str(key), SETTINGS, 1, 0.8):
                raise ValueError(f"`{key}` is not a preference; set {SETTINGS[near[0]]}")
        return preferences


class DisplayConfig(Section):
    """What an interactive chat shows."""

    skin: Skin = "default"
    """`mono`: no colours."""
    prompt: str = "> "
    """The input prompt."""
    verbose: Verbosity = "all"
    """Which tool calls are shown at the start of a chat (`/verbose` changes it). `off`: none. `new`: a call where the
    tool differs from the one before. `all`: every call, and why it failed. `verbose`: calls and results in full."""
    background_process_notifications: NoticeLevel = "all"
    """Notification when a background command ends. `all`: its exit code and its last lines. `result`: its exit
    code. `error`: only if it failed. `off`: nothing."""


class ChatConfig(Section):
    """What chats read, and their record in the run `chats` of the Hermes home."""

    record: bool = True
    """Whether every turn is also written as an episode."""
    context_files: bool = True
    """Whether new sessions read the context files of the working folder: `sandbox.workspace`, or else the folder in
    which the chat was started."""
    consent: bool = False
    """Whether everyone who writes in these chats agrees that their turns are exported and trained on. Turns recorded
    without it are left out of exports and trainings, and counted there."""


class HomeConfig(RunConfig):
    """The sections of a run that a chat uses (`model`, `auxiliary`, `agent`, `sandbox`, `skills`, `memory`, `web`,
    `mcp`), and these."""

    of_chats: ClassVar[bool] = True

    user: UserConfig = UserConfig()
    """The person."""
    personalities: dict[str, str] = Field(default_factory=dict)
    """Personalities of your own: how the agent speaks, by name. One with the name of a built-in one replaces it."""
    personality: str = NONE
    """How the agent speaks: one of `personalities`, or a built-in one (`/personality` lists them)."""
    display: DisplayConfig = DisplayConfig()
    """The screen."""
    chat: ChatConfig = ChatConfig()
    """What chats read, and their record."""
    cron: tuple[CronJobConfig, ...] = ()
    """Scheduled jobs."""
    gateway: GatewayConfig = GatewayConfig()
    """The agent on chat platforms."""

    @field_validator("cron")
    @classmethod
    def _have_different_names(cls, jobs: tuple[CronJobConfig, ...]) -> tuple[CronJobConfig, ...]:
        names = [job.name for job in jobs]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"two jobs are called {twice!r}; rename one")
        return jobs

    @field_validator("personalities")
    @classmethod
    def _have_names_and_texts(cls, texts: dict[str, str]) -> dict[str, str]:
        for name, text in texts.items():
            if not _NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not a name; use letters, digits, - and _")
            if name == NONE:
                raise ValueError(f"`{NONE}` means no personality; choose another name")
            if not text.strip():
                raise ValueError(f"`{name}` has no text")
        return texts

    @field_validator("personality")
    @classmethod
    def _is_one(cls, name: str, info: ValidationInfo) -> str:
        if "personalities" in info.data:  # invalid personalities are already reported
            check_personality(name, info.data["personalities"])
        return name

    @property
    def of_a_run(self) -> RunConfig:
        """The fields that a run has, too."""
        return RunConfig.model_construct(**{name: getattr(self, name) for name in RunConfig.model_fields})

    @property
    def known_personalities(self) -> dict[str, str]:
        """All texts by name: the built-in ones, then the person's own."""
        return {**PRESETS, **self.personalities}


def check_personality(name: str, own: Mapping[str, str]) -> None:
    """Raises `ValueError` unless `name` is a built-in personality or one of `own`."""
    known = {**PRESETS, **own}
    if name not in known:
        there = f"there are: {', '.join(known)}"
        raise ValueError(f"no personality {name!r}{did_you_mean(name, known, there)}")
