"""What Telegram's updates say."""

import logging
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hermes_lab.gateway.platform import ChatType, Inbound, Judged, Sender, Services

if TYPE_CHECKING:
    from telegram import Message, MessageEntity, MessageReactionUpdated, Update
    from telegram.request import HTTPXRequest

_CHAT_TYPES: dict[str, ChatType] = {"private": "dm", "group": "group", "supergroup": "group", "channel": "channel"}
# The first that a message has counts: an animation is a document, too.
_KINDS = {
    "photo": "a photo",
    "sticker": "a sticker",
    "voice": "a voice message",
    "video": "a video",
    "video_note": "a video message",
    "audio": "an audio file",
    "animation": "an animation",
    "document": "a file",
    "venue": "a place",
    "location": "a location",
    "contact": "a contact",
    "poll": "a poll",
    "dice": "a die",
    "story": "a story",
}
_START = re.compile(r"/start(\s.*)?", re.DOTALL)  # what the button sends with which a person begins
_THUMBS = {"👍": True, "👎": False}
_log = logging.getLogger("hermes_lab.gateway")


def updates_request(**waits: Any) -> "HTTPXRequest":
    """What asks for updates. One that cannot be read would come again for a day and hold up all others: it is empty."""
    from telegram import Update
    from telegram.request import HTTPXRequest

    class Updates(HTTPXRequest):
        @staticmethod
        def parse_json_payload(payload: bytes) -> dict[str, Any]:
            answer = HTTPXRequest.parse_json_payload(payload)
            if isinstance(found := answer.get("result"), list):
                answer["result"] = [each if reads(each) else {"update_id": each["update_id"]} for each in found]
            return answer

    def reads(update: dict[str, Any]) -> bool:
        try:
            Update.de_json(update, None)
        except Exception as error:
            _log.error("telegram: an update cannot be read (%s), and is left out", type(error).__name__)
            return False
        return True

    return Updates(connection_pool_size=1, **waits)


class Moved(NamedTuple):
    """A group has become a supergroup, under another id."""

    old: str
    new: str


class Groups:
    """A group that becomes a supergroup gets another id. Here it keeps the first one, and so its session."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._known: dict[str, str] = {}

    async def move(self, moved: Moved) -> None:
        """Remembers it."""
        first = await self._fact("first", moved.old)
        for name, id in ((f"now {first}", moved.new), (f"first {moved.new}", first)):
            await self._services.set_fact(name, id)
            self._known[name] = id

    async def placed(self, event: Inbound | Judged) -> Inbound | Judged:
        """The event, in the chat with its first id."""
        chat = await self._fact("first", event.chat)
        if isinstance(event, Judged):
            return event._replace(chat=chat)
        return msgspec.structs.replace(event, chat=chat)

    async def now(self, id: str) -> str:
        """The id of the chat that had that id at first."""
        return await self._fact("now", id)

    async def _fact(self, what: str, id: str) -> str:
        name = f"{what} {id}"
        if not id.startswith("-"):
            return id
        if name not in self._known:
            self._known[name] = await self._services.fact(name) or id
        return self._known[name]


class Reader:
    """Reads what arrives for the bot of that id and username."""

    def __init__(self, id: int, username: str) -> None:
        self._id = id
        self._me = f"@{username}".lower()
        self._album: str | None = None

    def event(self, update: "Update") -> Inbound | Judged | Moved | None:
        """The event of an update; None for what is no message, such as a new member, or is from or for a bot."""
        if update.message_reaction:
            return _judged(str(update.update_id), update.message_reaction)
        if (message := update.message) is None:
            return None
        if message.migrate_to_chat_id:
            return Moved(str(message.chat.id), str(message.migrate_to_chat_id))
        if message.migrate_from_chat_id:
            return Moved(str(message.migrate_from_chat_id), str(message.chat.id))
        if _is_of_bot(message) or message.chat.type not in _CHAT_TYPES or (said := self._said(message)) is None:
            return None
        return Inbound(
            update=str(update.update_id),
            chat=str(message.chat.id),
            chat_type=_CHAT_TYPES[message.chat.type],
            # A chain of replies has such an id, too.
            thread=str(message.message_thread_id) if message.is_topic_message else "",
            sender=_sender(message),
            text=said.text,
            addressed=said.addressed or message.chat.type == "private",
            message=str(message.message_id),
        )

    def _said(self, message: "Message") -> "_Said | None":
        written = message.text or message.caption or ""
        kind = next((words for field, words in _KINDS.items() if getattr(message, field)), "")
        first = message.media_group_id is None or message.media_group_id != self._album
        self._album = message.media_group_id
        if not written and not (kind and first):
            return None
        said = self._read(written, message.entities or message.caption_entities)
        if said.foreign and not said.addressed:
            return None
        # In a topic, messages reply to the event that created it.
        replied = None if (reply := message.reply_to_message) and reply.forum_topic_created else reply
        to_me = bool(replied and replied.from_user and replied.from_user.id == self._id)
        lines = [said.text] if said.text else []
        if not said.text.startswith("/"):  # a command has its own line only
            if not to_me and (quoted := _quoted(message, replied)):
                lines.insert(0, "".join(f"> {line}\n" for line in quoted.splitlines()))
            if kind:
                lines.append(f"[{kind}: only text reaches you]")
        return _Said("\n".join(lines), said.addressed or to_me)

    def _read(self, text: str, entities: Sequence["MessageEntity"]) -> "_Said":
        """The text without mentions of the bot."""
        addressed = foreign = False
        left = text
        for entity in sorted(entities, key=lambda entity: entity.offset, reverse=True):
            start, end = _index(text, entity.offset), _index(text, entity.offset + entity.length)
            name, at, bot = text[start:end].partition("@")
            to_me = f"{at}{bot}".lower() == self._me
            if entity.type == "bot_command" and not text[:start].strip():
                addressed, foreign = addressed or not at, bool(at) and not to_me
            if to_me and entity.type in ("mention", "bot_command"):
                addressed = True
                left = _without(left, start + len(name), end)
        left = left.strip() or text
        return _Said("/help" if _START.fullmatch(left) else left, addressed, foreign)


class _Said(NamedTuple):
    """`addressed`: to this bot. `foreign`: a command to another bot."""

    text: str
    addressed: bool
    foreign: bool = False


def _index(text: str, units: int) -> int:
    """Converts an offset in UTF-16 units to the index of a character."""
    return len(text.encode("utf-16-le", "surrogatepass")[: 2 * units].decode("utf-16-le", "replace"))


def _without(text: str, start: int, end: int) -> str:
    before, after = text[:start], text[end:]
    if not before.strip():
        return before + after.lstrip(" ,:")
    return before + (after[1:] if before[-1] == " " and after.startswith(" ") else after)


def _quoted(message: "Message", replied: "Message | None") -> str:
    if message.quote:  # a part, marked by hand, maybe of a message in another chat
        return message.quote.text
    return (replied.text or replied.caption or "") if replied else ""


def _is_of_bot(message: "Message") -> bool:
    """Whether a bot wrote it. What is said in the name of a chat has one as its author, too."""
    return bool(message.from_user and message.from_user.is_bot and not message.sender_chat)


def _sender(message: "Message") -> Sender:
    """Who wrote it. What a channel or an anonymous administrator writes has the id of a chat, which is no person's."""
    if chat := message.sender_chat:
        return Sender(str(chat.id), chat.title or "")
    return Sender(str(message.from_user.id), message.from_user.full_name) if message.from_user else Sender("")


def _judged(update: str, reaction: "MessageReactionUpdated") -> Judged | None:
    """A thumb up or down, or one that was taken back."""
    if reaction.user is None or reaction.user.is_bot:  # none: anonymous
        return None
    before, now = (
        [_THUMBS[emoji] for each in shown if (emoji := getattr(each, "emoji", "")) in _THUMBS]
        for shown in (reaction.old_reaction, reaction.new_reaction)
    )
    if before == now:
        return None
    who = Sender(str(reaction.user.id), reaction.user.full_name)
    good = now[-1] if now else None
    return Judged(update, str(reaction.chat.id), "", who, str(reaction.message_id), good)
