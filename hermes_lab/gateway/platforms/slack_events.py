"""What Slack's events say."""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from hermes_lab.gateway.platform import Inbound, Judged, Sender

# Others are edits, deletions, and what Slack itself writes, such as that somebody joined.
_WRITTEN = (None, "file_share", "me_message", "thread_broadcast")
_SLACKBOT = "USLACKBOT"
_THUMBS = {"+1": True, "thumbsup": True, "-1": False, "thumbsdown": False}
_ENTITY = re.compile(r"<([^<>]*)>|&(lt|gt|amp);")
_PLAIN = {"lt": "<", "gt": ">", "amp": "&"}
_COMMAND = re.compile(r"!([A-Za-z][\w-]*)(?=\s|$)")


class Reader:
    """Reads what arrives for the bot with that user id and name.

    `commands` are the names that may be written with a `!` instead of the slash. `named` finds a user's name; "" if
    it is not known.
    """

    def __init__(self, id: str, name: str, commands: Collection[str], named: Callable[[str], Awaitable[str]]) -> None:
        self._id = id
        self._name = name
        self._commands = frozenset(commands)
        self._named = named
        self._mention = re.compile(rf"<@{re.escape(id)}(?:\|[^<>]*)?>")

    async def event(self, event: Mapping[str, Any]) -> Inbound | Judged | None:
        """The event of a payload; None for what is no new message and no verdict, or is from a bot.

        A message in a channel is of the thread that it is in, or would begin: that is where the reply is written.
        """
        kind, user = event["type"], event.get("user", "")
        if not user or user in (self._id, _SLACKBOT) or event.get("bot_id"):
            return None
        if kind in ("reaction_added", "reaction_removed"):
            return self._judged(event)
        if kind not in ("message", "app_mention") or event.get("subtype") not in _WRITTEN or event.get("hidden"):
            return None
        chat, ts, written = event["channel"], event["ts"], event.get("text") or ""
        # Slack sends no app_mention for direct messages, and says no channel_type with one.
        direct = event.get("channel_type") in ("im", "app_home")
        named = self._mention.search(written) is not None
        return Inbound(
            update=f"{chat} {ts}",
            chat=chat,
            chat_type="dm" if direct else "channel",
            thread=event.get("thread_ts") or ("" if direct else ts),
            sender=Sender(user, await self._named(user)),
            text=await self._said(written, event.get("files") or ()),
            addressed=direct or named or kind == "app_mention" or event.get("parent_user_id") == self._id,
            message=ts,
        )

    def _judged(self, event: Mapping[str, Any]) -> Judged | None:
        item = event["item"]
        good = _THUMBS.get(event["reaction"].partition("::")[0])  # without the tone of the skin
        if good is None or item["type"] != "message" or event.get("item_user") != self._id:
            return None
        chat, ts, user = item["channel"], item["ts"], event["user"]
        update = " ".join((event["type"], chat, ts, user, event["reaction"], event["event_ts"]))
        return Judged(update, chat, "", Sender(user), ts, good if event["type"] == "reaction_added" else None)

    async def _said(self, written: str, files: Collection[Mapping[str, Any]]) -> str:
        text = (await self._plain(self._without_mention(written))).strip()
        if (command := _COMMAND.match(text)) and command[1].lower().replace("_", "-") in self._commands:
            text = f"/{text[1:]}"
        lines = [text] if text else []
        if not text.startswith("/"):  # a command has its own line only
            for file in files:
                picture = str(file.get("mimetype") or "").startswith("image/")
                lines.append(f"[a {'picture' if picture else 'file'}: only text reaches you]")
        return "\n".join(lines) or (f"@{self._name}" if written.strip() else "")

    def _without_mention(self, text: str) -> str:
        """The text without mentions of the bot, and without what separates one from the rest."""
        while found := self._mention.search(text):
            before, after = text[: found.start()], text[found.end() :]
            if not before.strip():
                text = after.lstrip(" ,:")
            elif before[-1] == " " and after[:1] in (" ", ""):
                text = before[:-1] + after
            else:
                text = before + after
        return text

    async def _plain(self, text: str) -> str:
        """The text as people see it."""
        parts, end = [], 0
        for found in _ENTITY.finditer(text):
            shown = _PLAIN[found[2]] if found[2] else await self._shown(found[1])
            parts += [text[end : found.start()], shown]
            end = found.end()
        return "".join((*parts, text[end:]))

    async def _shown(self, entity: str) -> str:
        target, _, label = (unescaped(part) for part in entity.partition("|"))
        if target.startswith("@"):
            return f"@{label or await self._named(target[1:]) or target[1:]}"
        if target.startswith("#"):
            return f"#{label or target[1:]}"
        if target.startswith("!"):  # <!here>, <!subteam^S1|@team>, <!date^1^{date}|today>
            return label if "^" in target and label else f"@{target[1:].partition('^')[0]}"
        address = target.removeprefix("mailto:")
        return address if not label or label in address else f"{label} ({address})"


def unescaped(text: str) -> str:
    """The text with the characters that Slack writes as entities."""
    return re.sub("&(lt|gt|amp);", lambda found: _PLAIN[found[1]], text)


def escaped(text: str) -> str:
    """The text so that Slack shows it as it is: nothing in it mentions anybody."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
