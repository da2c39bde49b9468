"""Reads Discord's events: messages, and reactions as verdicts."""

import re
from collections.abc import Collection, Iterator, Mapping, Set
from typing import Any, NamedTuple

from hermes_lab.gateway.platform import ChatType, Inbound, Judged, Sender

_DM, _THREADS = 1, (10, 11, 12)
_DEFAULT, _REPLY = 0, 19  # the types of messages that people write; the others tell of events
_MENTION = re.compile(r"<@(!?|&)(\d{1,20})>")
_TONES = re.compile("[\U0001f3fb-\U0001f3ff\ufe0f]")
_THUMBS = {"\N{THUMBS UP SIGN}": True, "\N{THUMBS DOWN SIGN}": False}
_COMMAND = re.compile(r"!([a-z][a-z0-9-]*)")
Json = Mapping[str, Any]


class Place(NamedTuple):
    """Where a channel of Discord's is, in the terms of keys. `joined`: a thread that the bot takes part in."""

    chat: str
    chat_type: ChatType
    thread: str = ""
    joined: bool = False


def place(channel: Json) -> Place:
    """The place of a channel. A direct message is at the id of the user, so that one can be sent to anybody."""
    if channel["type"] == _DM:
        return Place(channel["recipients"][0]["id"], "dm")
    if channel["type"] in _THREADS:
        return Place(channel["parent_id"], "thread", channel["id"], "member" in channel)
    return Place(channel["id"], "channel")


class Reader:
    """Reads events for the bot of that id. `roles` are those that stand for it alone; `commands` are the names that
    `!` may precede, since Discord's apps keep `/` for themselves."""

    def __init__(self, me: str, roles: Set[str], commands: Collection[str]) -> None:
        self._me = me
        self._roles = roles
        self._commands = commands

    def message(self, message: Json, place: Place) -> Inbound | None:
        """A message that a person wrote; None for every other."""
        author = message["author"]
        if message["type"] not in (_DEFAULT, _REPLY) or message.get("webhook_id"):
            return None
        if author.get("bot") or author.get("system"):
            return None
        nick = (message.get("member") or {}).get("nick")
        return Inbound(
            update=message["id"],
            chat=place.chat,
            chat_type=place.chat_type,
            thread=place.thread,
            sender=Sender(author["id"], nick or _name(author)),
            text=self._text(message),
            addressed=place.chat_type == "dm" or place.joined or self._is_meant(message),
            message=message["id"],
        )

    def reaction(self, reaction: Json, place: Place, update: str, added: bool) -> Judged | None:
        """A thumb up or down of a person, or one that was taken back; None for every other reaction."""
        emoji, user = reaction["emoji"], (reaction.get("member") or {}).get("user", {})
        thumb = _THUMBS.get(_TONES.sub("", emoji.get("name") or ""))
        if thumb is None or emoji.get("id") or reaction["user_id"] == self._me or user.get("bot"):
            return None
        if reaction.get("message_author_id", self._me) != self._me:
            return None
        who = Sender(reaction["user_id"], _name(user) if user else "")
        return Judged(update, place.chat, place.thread, who, reaction["message_id"], thumb if added else None)

    def _is_meant(self, message: Json) -> bool:
        answered = (message.get("referenced_message") or {}).get("author", {}).get("id")
        named = {user["id"] for user in message.get("mentions", ())}
        return self._me in (named | {answered}) or not self._roles.isdisjoint(message.get("mention_roles", ()))

    def _text(self, message: Json) -> str:
        names = {user["id"]: _name(user) for user in message.get("mentions", ())}
        written = message.get("content") or ""
        text = self._named(self._without_me(written), names) or self._named(written, names)
        if (found := _COMMAND.match(text)) and found[1] in self._commands:
            text = f"/{text[1:]}"
        if text.startswith("/"):  # a command has its own line only
            return text
        answered = message.get("referenced_message") or {}
        if answered and answered["author"]["id"] != self._me and (quoted := answered.get("content")):
            names |= {user["id"]: _name(user) for user in answered.get("mentions", ())}
            text = "".join(f"> {line}\n" for line in self._named(quoted, names).splitlines()) + text
        return "\n".join(filter(None, (text, *_besides(message))))

    def _without_me(self, text: str) -> str:
        """The text without the mentions of the bot that it begins with."""
        text = text.strip()
        while (found := _MENTION.match(text)) and (
            found[2] in self._roles if found[1] == "&" else found[2] == self._me
        ):
            text = text[found.end() :].lstrip(" ,:\n")
        return text

    def _named(self, text: str, names: Mapping[str, str]) -> str:
        """The text with ids replaced by names."""
        return _MENTION.sub(lambda found: f"@{'role' if found[1] == '&' else names.get(found[2], 'someone')}", text)


def bot_roles(guild: Json, me: str) -> Iterator[str]:
    """The roles of a guild that Discord made for the bot: people may mention them instead of the bot."""
    return (role["id"] for role in guild.get("roles", ()) if (role.get("tags") or {}).get("bot_id") == me)


def _besides(message: Json) -> Iterator[str]:
    """A line for each thing besides the text."""
    for snapshot in message.get("message_snapshots", ()):
        forwarded = snapshot.get("message", {})
        yield "\n".join(filter(None, ("[forwarded]", forwarded.get("content"), *_besides(forwarded))))
    for attachment in message.get("attachments", ()):
        yield f"[file {_line(attachment.get('filename'))}: only text reaches you]"
    for sticker in message.get("sticker_items", ()):
        yield f"[sticker {_line(sticker.get('name'))}]"
    if poll := message.get("poll"):
        yield f"[poll {_line(poll.get('question', {}).get('text'))}]"


def _name(user: Json) -> str:
    return user.get("global_name") or user.get("username") or ""


def _line(text: Any) -> str:
    return " ".join(str(text or "").split())
