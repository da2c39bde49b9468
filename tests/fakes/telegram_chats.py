"""What people do in the chats of the double of the Bot API, and the updates that come of it."""

import asyncio
import re
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

DEFAULT_UPDATES = ("message", "edited_message", "channel_post", "callback_query", "my_chat_member")
_ENTITIES = re.compile(r"(?<![\w/])/[A-Za-z0-9_]{1,64}(?:@[A-Za-z0-9_]{3,32})?|(?<!\w)@[A-Za-z0-9_]{4,32}")


class Chats:
    """The chats that the bot is in. `history` holds every update."""

    def __init__(self) -> None:
        self.next_update = 500_000_000
        self.history: list[dict[str, Any]] = []
        self.messages: dict[int, dict[int, dict[str, Any]]] = defaultdict(dict)
        self._updates: dict[int, dict[str, Any]] = {}
        self._again: list[dict[str, Any]] = []
        self._allowed: tuple[str, ...] = DEFAULT_UPDATES
        self._poll: asyncio.Future[str] | None = None
        self._chats: dict[int, dict[str, Any]] = {}
        self._topics: dict[int, set[int]] = defaultdict(set)
        self._shut: dict[int, str] = {}
        self._moved: dict[int, int] = {}

    def group(self, id: int = -1001, title: str = "Lab", kind: str = "supergroup", **fields: Any) -> int:
        """A group with the bot in it; `is_forum=True` has topics."""
        self._chats[id] = {"id": id, "type": kind, "title": title, **fields}
        return id

    def topic(self, chat: int) -> int:
        """A new topic of a forum."""
        message = self._add(chat, {"forum_topic_created": {"name": "topic", "icon_color": 7322096}})
        self._topics[chat].add(message["message_id"])
        return int(message["message_id"])

    def say(
        self,
        user: int,
        text: str = "",
        chat: int = 0,
        *,
        name: str = "Ann",
        thread: int = 0,
        reply: int = 0,
        **more: Any,
    ) -> int:
        """A person writes, directly or in a group; `more` are further fields of the message. The id of the update."""
        who = {"id": user, "is_bot": False, "first_name": name}
        if not chat:
            self._chats.setdefault(user, {"id": user, "type": "private", "first_name": name})
            self._shut.pop(user, None)
        fields: dict[str, Any] = {"from": who, **({"text": text, "entities": entities(text)} if text else {})}
        if thread:
            fields |= {"message_thread_id": thread, "is_topic_message": True}
        if reply or thread:
            fields["reply_to_message"] = self.messages[chat or user][reply or thread]
        return self._push("message", self._add(chat or user, fields | more))

    def react(self, user: int, message: int, *emoji: str, chat: int = 0, before: tuple[str, ...] = ()) -> int:
        """A person changes the reaction to a message. The id of the update."""
        old, new = ([{"type": "emoji", "emoji": each} for each in shown] for shown in (before, emoji))
        who = {"id": user, "is_bot": False, "first_name": "Ann"}
        place = {"chat": self._chats[chat or user], "message_id": message, "user": who, "date": int(time.time())}
        return self._push("message_reaction", {**place, "old_reaction": old, "new_reaction": new})

    def edit(self, chat: int, message: int, text: str) -> int:
        """A message is edited."""
        edited = {**self.messages[chat][message], "text": text, "edit_date": int(time.time())}
        return self._push("edited_message", edited)

    def shut(self, chat: int, why: str = "bot was blocked by the user") -> None:
        """A person blocks the bot, or a group removes it."""
        self._shut[chat] = why

    def migrate(self, old: int, new: int, told: bool = True) -> None:
        """A group becomes a supergroup, of which the bot is told by a message in each."""
        self._chats[new] = {**self._chats[old], "id": new, "type": "supergroup"}
        self._moved[old] = new
        if told:
            self._push("message", self._add(old, {"migrate_to_chat_id": new}))
            self._push("message", self._add(new, {"migrate_from_chat_id": old}))

    def repeat(self, update: int) -> None:
        """An update is given once more, though it was forgotten."""
        self._again += [each for each in self.history if each["update_id"] == update]
        self._wake("updates")

    @property
    def waiting(self) -> list[int]:
        """The ids of the updates that the bot has not forgotten."""
        return sorted(self._updates)

    def _add(self, chat: int, fields: Mapping[str, Any]) -> dict[str, Any]:
        known = self.messages[chat]
        message = {"message_id": len(known) + 1, "date": int(time.time()), "chat": self._chats[chat], **fields}
        if reply := message.get("reply_to_message"):
            message["reply_to_message"] = {name: reply[name] for name in reply if name != "reply_to_message"}
        known[len(known) + 1] = message
        return message

    def _push(self, kind: str, payload: dict[str, Any]) -> int:
        id = self.next_update
        if kind in self._allowed:
            self.next_update += 1
            self._updates[id] = {"update_id": id, kind: payload}
            self.history.append(self._updates[id])
            self._wake("updates")
        return id

    def _wake(self, why: str) -> None:
        if self._poll and not self._poll.done():
            self._poll.set_result(why)


def entities(text: str) -> list[dict[str, Any]]:
    """The commands and mentions of a text."""
    return [
        {
            "type": "bot_command" if found[0].startswith("/") else "mention",
            "offset": len(text[: found.start()].encode("utf-16-le")) // 2,
            "length": len(found[0]),
        }
        for found in _ENTITIES.finditer(text)
    ]
