"""The identifiers of a session: its key says where it is held, its name is chosen by the user, its id is generated."""

import re
import secrets
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote, unquote

from hermes_lab.errors import ConfigError

CHAT_TYPES = ("dm", "group", "channel", "thread")
_PLATFORM = re.compile(r"[a-z][a-z0-9_-]*")
_WRITTEN = re.compile(r"[^\s:\x00-\x1f\x7f]+")
_ESCAPED = re.compile(r"[%:\s\x00-\x1f\x7f]")
_ID = re.compile(r"\d{8}")
_LONGEST_NAME = 100
_FORMS = (
    "write platform:chat[:thread] or platform:TYPE:chat[:thread], TYPE being one of "
    f"{', '.join(CHAT_TYPES)}, without spaces, and a ':' inside an id as %3A"
)


@dataclass(frozen=True)
class SessionKey:
    """Where a conversation is held. Successive sessions may share a key.

    Its text is `platform:[chat_type:]chat[:thread]`, with `:`, `%` and blanks inside a part percent-encoded, so that
    `matrix:!abc%3Alocalhost` is the room `!abc:localhost`. `chat_type` is one of `CHAT_TYPES`, or "" where a platform
    has one kind of chats, or the kind is not known. Raises `ConfigError` for invalid parts.
    """

    platform: str
    chat: str
    thread: str = ""
    chat_type: str = ""

    def __post_init__(self) -> None:
        parts = (self.chat, self.thread)
        if not (
            _PLATFORM.fullmatch(self.platform)
            and self.chat
            and self.chat_type in ("", *CHAT_TYPES)
            and all(part.isascii() or part == part.encode(errors="replace").decode() for part in parts)
        ):
            raise ConfigError(f"session key of {self.platform!r}, {self.chat_type!r}, {self.chat!r}: {_FORMS}")

    @classmethod
    def parse(cls, text: str) -> "SessionKey":
        """Parses the text that `str` gives; `cli` alone is the terminal's key, `cli:local`."""
        if text == "cli":
            return cls("cli", "local")
        platform, *parts = text.split(":")
        chat_type = parts.pop(0) if len(parts) > 1 and parts[0] in CHAT_TYPES else ""
        if len(parts) not in (1, 2) or not all(map(_WRITTEN.fullmatch, parts)):
            raise ConfigError(f"session key {text!r}: {_FORMS}")
        try:
            chat, thread = (unquote(part, errors="strict") for part in (*parts, "")[:2])
            return cls(platform, chat, thread, chat_type)
        except (UnicodeDecodeError, ConfigError):
            raise ConfigError(f"session key {text!r}: {_FORMS}") from None

    def __str__(self) -> str:
        chat, thread = _written(self.chat), _written(self.thread)
        if not self.chat_type and thread and chat in CHAT_TYPES:
            chat = f"%{ord(chat[0]):02X}{chat[1:]}"  # or it would be read as a chat type
        return ":".join(part for part in (self.platform, self.chat_type, chat, thread) if part)

    @property
    def spellings(self) -> tuple[str, ...]:
        """The texts of all keys that this one names: without a chat type, those of every type."""
        if self.chat_type:
            return (str(self),)
        keys = (SessionKey(self.platform, self.chat, self.thread, chat_type) for chat_type in ("", *CHAT_TYPES))
        return tuple(map(str, keys))


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


def _written(part: str) -> str:
    return _ESCAPED.sub(lambda character: quote(character[0], safe=""), part)
