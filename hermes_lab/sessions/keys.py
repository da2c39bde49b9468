"""The identifiers of a session: its key says where it is held, its name is chosen by the user, its id is generated."""

import re
import secrets
from dataclasses import dataclass
from datetime import datetime

from hermes_lab.errors import ConfigError

_PLATFORM = re.compile(r"[a-z][a-z0-9_-]*")
_PART = re.compile(r"[^\s:\x00-\x1f\x7f]+")
_ID = re.compile(r"\d{8}")
_LONGEST_NAME = 100


@dataclass(frozen=True)
class SessionKey:
    """`platform:chat[:thread]`: where a conversation is held. Successive sessions may share a key.

    Raises `ConfigError` for invalid parts.
    """

    platform: str
    chat: str
    thread: str = ""

    def __post_init__(self) -> None:
        parts = (self.chat, self.thread) if self.thread else (self.chat,)
        if not _PLATFORM.fullmatch(self.platform) or not all(map(_PART.fullmatch, parts)):
            raise ConfigError(f"session key {str(self)!r}: write platform:chat or platform:chat:thread, without spaces")

    @classmethod
    def parse(cls, text: str) -> "SessionKey":
        """Parses the text that `str` gives."""
        parts = text.split(":")
        if len(parts) not in (2, 3) or not all(parts):
            raise ConfigError(f"session key {text!r}: write platform:chat or platform:chat:thread, without spaces")
        return cls(*parts)

    def __str__(self) -> str:
        return ":".join(part for part in (self.platform, self.chat, self.thread) if part)


def check_name(name: str) -> str:
    """Returns the name. Raises `ConfigError` unless it is one line that cannot be mistaken for a key or an id."""
    if not name.strip() or name != name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        raise ConfigError(f"session name {name!r}: give one line of at most {_LONGEST_NAME} characters")
    if ":" in name or is_id(name):
        raise ConfigError(
            f"session name {name!r}: it looks like a key or an id; use one without ':' that does not begin with a date"
        )
    return name


def is_id(text: str) -> bool:
    """Whether the text is a session id or a prefix of one: ids begin with the date, YYYYMMDD."""
    return _ID.match(text) is not None


def new_id(now: datetime) -> str:
    """A unique id; later ids sort after earlier ones."""
    return f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"
