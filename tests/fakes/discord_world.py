"""What there is at the double of Discord, and what people do there. See `fakes.discord_api`."""

import asyncio
import re
from typing import Any

from fakes.discord_gateway import DM_MESSAGES, DM_REACTIONS, GUILD_MESSAGES, GUILD_REACTIONS, GUILDS, FakeGateway

TOKEN = "bot-token-4711"
GUILD, CHANNEL, HIDDEN, READ_ONLY, NO_HISTORY = (str(1100000000000000000 + n) for n in (1, 2, 3, 4, 5))
BOT, ANN, EVE, SHY, OTHER_BOT = (str(1100000000000000000 + n) for n in (11, 12, 13, 14, 15))
BOT_ROLE = "1100000000000000021"
Json = dict[str, Any]


class DiscordWorld:
    """Users, channels and messages."""

    def __init__(self) -> None:
        names = {BOT: "hermes", ANN: "ann", EVE: "eve", SHY: "shy", OTHER_BOT: "robot"}
        self.users: dict[str, Json] = {
            id: {"id": id, "username": name, "global_name": name.title(), "discriminator": "0", "avatar": None}
            | ({"bot": True} if id in (BOT, OTHER_BOT) else {})
            for id, name in names.items()
        }
        self.gateway = FakeGateway(TOKEN, self.users[BOT])
        self.gateway.guilds = [{"id": GUILD, "name": "Guild"}]
        self.gateway.guild_create = self._guild_create
        self.channels: dict[str, Json] = {
            id: {
                "id": id,
                "type": 0,
                "guild_id": GUILD,
                "name": f"c{id[-2:]}",
                "position": 0,
                "permission_overwrites": [],
            }
            for id in (CHANNEL, HIDDEN, READ_ONLY, NO_HISTORY)
        }
        self.messages: list[Json] = []
        self._number = 1200000000000000000

    def dm(self, user: str) -> str:
        """The channel of direct messages with a user."""
        for id, channel in self.channels.items():
            if channel["type"] == 1 and channel["recipients"][0]["id"] == user:
                return id
        id = self._id()
        self.channels[id] = {"id": id, "type": 1, "recipients": [self.users[user]], "last_message_id": None}
        return id

    def thread(self, parent: str = CHANNEL, joined: bool = False) -> str:
        """A new thread."""
        id = self._id()
        self.channels[id] = {"id": id, "type": 11, "guild_id": GUILD, "parent_id": parent, "name": "t", "owner_id": ANN}
        if joined:
            self._join(id)
        return id

    async def say(self, user: str, text: str, channel: str = "", **fields: Any) -> Json:
        """A user writes: directly to the bot, or in a channel."""
        message = self._message(user, channel or self.dm(user), text, **fields)
        if any(each["id"] == BOT for each in message["mentions"]):
            await self._joins(message["channel_id"])
        await self._happens("MESSAGE_CREATE", message, DM_MESSAGES, GUILD_MESSAGES)
        return message

    async def again(self, message: Json) -> None:
        """A message's event comes once more."""
        await self._happens("MESSAGE_CREATE", message, DM_MESSAGES, GUILD_MESSAGES)

    async def edit(self, message: Json, text: str) -> None:
        """A user changes a message."""
        message |= {"content": text, "edited_timestamp": "2026-01-01T00:00:01+00:00"}
        await self._happens("MESSAGE_UPDATE", message, DM_MESSAGES, GUILD_MESSAGES)

    async def react(
        self, user: str, message: Json, emoji: str, added: bool = True, emoji_id: str | None = None
    ) -> None:
        """A user adds a reaction, or takes it back."""
        data = {"user_id": user, "channel_id": message["channel_id"], "message_id": message["id"], "type": 0}
        data |= {"emoji": {"id": emoji_id, "name": emoji}, "burst": False}
        if added:
            data["message_author_id"] = message["author"]["id"]
        if guild := self.channels[message["channel_id"]].get("guild_id"):
            data |= {"guild_id": guild}
            data |= {"member": {"user": self.users[user], "roles": []}} if added else {}
        await self._happens(f"MESSAGE_REACTION_{'ADD' if added else 'REMOVE'}", data, DM_REACTIONS, GUILD_REACTIONS)

    def sent(self, channel: str = "") -> list[Json]:
        """The bot's messages, in order."""
        return [
            each for each in self.messages if each["author"].get("id") == BOT and channel in ("", each["channel_id"])
        ]

    async def replies(self, count: int, channel: str = "", seconds: float = 60) -> list[str]:
        """The texts of the bot's messages, once there are so many."""
        async with asyncio.timeout(seconds):
            while len(found := self.sent(channel)) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return [each["content"] for each in found]

    async def connected(self, sessions: int = 1, resumes: int = 0) -> None:
        """Waits until a client is signed in, with so many sessions begun and gone on with."""
        async with asyncio.timeout(60):
            gateway = self.gateway
            while not gateway.sockets or len(gateway.sessions) < sessions or gateway.resumes < resumes:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    def _id(self) -> str:
        self._number += 1
        return str(self._number)

    def _guild_create(self, guild: Json) -> Json:
        visible = [each for each in self.channels.values() if each.get("guild_id") == guild["id"]]
        role = {
            "id": BOT_ROLE,
            "name": "hermes",
            "tags": {"bot_id": BOT},
            "permissions": "0",
            "position": 1,
            "color": 0,
        }
        role |= {"hoist": False, "managed": True, "mentionable": False, "flags": 0, "colors": {"primary_color": 0}}
        everyone = {key: value for key, value in role.items() if key != "tags"} | {
            "id": guild["id"],
            "name": "@everyone",
        }
        joined = "2026-01-01T00:00:00+00:00"
        return guild | {
            "channels": [each for each in visible if each["type"] == 0 and each["id"] != HIDDEN],
            "threads": [],
            "roles": [everyone, role],
            "members": [
                {
                    "user": self.users[BOT],
                    "roles": [BOT_ROLE],
                    "joined_at": joined,
                    "deaf": False,
                    "mute": False,
                    "flags": 0,
                }
            ],
            "member_count": 3,
            "unavailable": False,
            "owner_id": ANN,
            "features": [],
            "emojis": [],
            "stickers": [],
        }

    def _message(self, user: str, channel: str, text: str, pings: bool = True, **fields: Any) -> Json:
        named = re.findall(r"<@!?(\d+)>", text) if pings else []
        roles = re.findall(r"<@&(\d+)>", text) if pings else []
        message: Json = {
            "id": self._id(),
            "channel_id": channel,
            "author": self.users[user],
            "content": text,
            "timestamp": "2026-01-01T00:00:00+00:00",
            "edited_timestamp": None,
            "tts": False,
            "mention_everyone": pings and "@everyone" in text,
            "mentions": [self.users[id] for id in dict.fromkeys(named) if id in self.users],
            "mention_roles": roles,
            "attachments": [],
            "embeds": [],
            "pinned": False,
            "type": 0,
        }
        if (to := fields.pop("to", None)) is not None:
            message |= {"type": 19, "message_reference": {"message_id": to["id"], "channel_id": channel}}
            message["referenced_message"] = to
        message |= fields
        self.messages.append(message)
        return message

    async def _happens(self, name: str, data: Json, direct: int, guild: int) -> None:
        channel = self.channels[data["channel_id"]]
        if channel["type"] == 1:
            await self.gateway.dispatch(name, dict(data), direct)
        elif channel["id"] != HIDDEN:
            member = {"roles": [], "joined_at": "2026-01-01T00:00:00+00:00", "deaf": False, "mute": False, "flags": 0}
            extra = {"guild_id": GUILD} | ({"member": member} if name == "MESSAGE_CREATE" else {})
            await self.gateway.dispatch(name, extra | data, guild)

    async def _joins(self, channel: str) -> None:
        if self.channels[channel]["type"] == 11 and "member" not in self.channels[channel]:
            self._join(channel)
            event = {"id": channel, "guild_id": GUILD, "member_count": 2, "added_members": [{"user_id": BOT}]}
            await self.gateway.dispatch("THREAD_MEMBERS_UPDATE", event, GUILDS)

    def _join(self, channel: str) -> None:
        self.channels[channel]["member"] = {"id": channel, "user_id": BOT, "flags": 0}
