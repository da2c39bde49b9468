"""Telegram, by the Bot API."""

import logging
import os
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from hermes_lab.config.gateway import TelegramConfig
from hermes_lab.gateway.platform import (
    Accept,
    Outbound,
    PlatformError,
    Refused,
    Services,
    TryLater,
    Undeliverable,
    Unsure,
)
from hermes_lab.gateway.platforms.telegram_events import Groups, Moved, Reader, updates_request
from hermes_lab.gateway.split import Limit

if TYPE_CHECKING:
    import telegram

_POLL_SECONDS = 30  # the Bot API takes up to 50
_MOST_FAILURES, _PAUSE_SECONDS = 3, 1.0
_CONFLICT_SECONDS = 30.0
_UPDATES = ("message", "message_reaction")
_MOST_BYTES, _MOST_PHOTO_BYTES = 50 << 20, 10 << 20
_COMMAND = re.compile(r"[a-z0-9_]{1,32}")
_MOST_COMMANDS, _LONGEST_SUMMARY = 100, 256
_PHOTOS = (".png", ".jpg", ".jpeg")
_log = logging.getLogger("hermes_lab.gateway")


class TelegramPlatform:
    """See `Platform`."""

    name = "telegram"
    limit = Limit(4096, "utf16")
    hint = (
        "Your replies are shown in Telegram as plain text: Markdown is not rendered, so write no tables, headings or "
        "emphasis marks. Keep replies and paragraphs short: they are read on a phone. You only get the text of "
        "what people send; a line in brackets names anything else."
    )
    idempotent = False

    def __init__(self, config: TelegramConfig) -> None:
        self._config = config
        self._offered = False

    @asynccontextmanager
    async def connect(self, services: Services) -> AsyncIterator["TelegramBot"]:
        """Signs in. Raises `Refused` without a token or the package, and for a token that Telegram does not know."""
        variable = self._config.token_env
        if not (token := os.environ.get(variable, "").strip()):
            raise Refused(f"{variable} is not set: give the token that @BotFather gave you for the bot")
        os.environ.setdefault("PTB_TIMEDELTA", "true")  # python-telegram-bot warns of each 429 otherwise
        try:
            from telegram import Bot
            from telegram.request import HTTPXRequest
        except ImportError:
            raise Refused("python-telegram-bot is missing; install it: pip install 'hermes-lab[telegram]'") from None
        _silence()
        waits: dict[str, Any] = {
            "connect_timeout": 5.0,
            "read_timeout": 15.0,
            "write_timeout": 15.0,
            "pool_timeout": 5.0,
        }
        bot = Bot(
            token,
            base_url=f"{self._config.base_url.rstrip('/')}/bot",
            request=HTTPXRequest(media_write_timeout=120.0, **waits),
            get_updates_request=updates_request(**waits),
        )
        connection = TelegramBot(bot, variable, services)
        try:
            with connection.failures():
                await bot.initialize()
            self._offered = self._offered or await connection.offer(services.commands)
            yield connection
        finally:
            with anyio.CancelScope(shield=True):
                await bot.shutdown()


class TelegramBot:
    """See `Connection`. `variable` is that of the token, for messages."""

    def __init__(self, bot: "telegram.Bot", variable: str, services: Services) -> None:
        self._bot = bot
        self._variable = variable
        self._groups = Groups(services)
        self._sent: dict[str, dict[Path | None, str]] = {}

    async def offer(self, commands: Sequence[tuple[str, str]]) -> bool:
        """Shows the commands in the bot's menu. Telegram allows no `-` in a name. False if it refuses."""
        from telegram import BotCommand

        named = [(name.lower().replace("-", "_"), summary[:_LONGEST_SUMMARY] or name) for name, summary in commands]
        menu = [BotCommand(name, summary) for name, summary in named if _COMMAND.fullmatch(name)]
        try:
            with self.failures(sending=True):
                await self._bot.set_my_commands(menu[:_MOST_COMMANDS])
        except (TryLater, Undeliverable) as error:
            _log.warning("telegram: the bot's menu was not set: %s", error)
            return False
        return True

    async def receive(self, accept: Accept) -> None:
        """See `Connection.receive`. Telegram keeps an update until one with a higher id is asked for."""
        reader = Reader(self._bot.id, self._bot.username)
        offset = None
        while True:
            for update in await self._updates(offset):
                event = reader.event(update)
                if isinstance(event, Moved):
                    await self._groups.move(event)
                elif event:
                    await accept(await self._groups.placed(event))
                # Never the largest so far: after a quiet week ids may begin anywhere.
                offset = update.update_id + 1

    async def _updates(self, offset: int | None) -> list["telegram.Update"]:
        """What has arrived, in order. One failure does not end the connection."""
        failed = 0
        while True:
            try:
                with self.failures():
                    updates = await self._bot.get_updates(offset, timeout=_POLL_SECONDS, allowed_updates=_UPDATES)
                return sorted(updates, key=lambda update: update.update_id)
            except (Refused, TryLater):
                raise
            except PlatformError:
                failed += 1
                if failed == _MOST_FAILURES:
                    raise
                await anyio.sleep(failed * _PAUSE_SECONDS)

    async def send(self, message: Outbound) -> str:
        """See `Connection.send`: the text, then each file, those of an earlier attempt left out."""
        parts: list[Path | None] = [None] if message.text.strip() else []
        parts += message.files
        if not parts:
            raise Undeliverable("Telegram shows no message without visible text")
        chat = _number(await self._groups.now(message.chat), message.chat)
        sent = self._sent.setdefault(message.key, {})
        try:
            for part in parts:
                if part not in sent:
                    sent[part] = await self._part(message, chat, part)
        except Undeliverable:
            del self._sent[message.key]
            raise
        del self._sent[message.key]
        return next(iter(sent.values()))

    async def _part(self, message: Outbound, chat: int | str, part: Path | None) -> str:
        """Sends the text (None) or a file. The id of the message."""
        from telegram import LinkPreviewOptions, ReplyParameters
        from telegram.error import ChatMigrated

        to: dict[str, Any] = {"chat_id": chat}
        if message.thread:
            to["message_thread_id"] = _number(message.thread)
        if message.reply_to and str(chat).startswith("-"):
            to["reply_parameters"] = ReplyParameters(_number(message.reply_to), allow_sending_without_reply=True)
        content = message.text if part is None else await _read(part)
        try:
            with self.failures(sending=True):
                if isinstance(content, str):
                    preview = LinkPreviewOptions(is_disabled=True)
                    sent = await self._bot.send_message(text=content, link_preview_options=preview, **to)
                else:
                    sent = await self._file(content, to)
                return str(sent.message_id)
        except ChatMigrated as moved:
            await self._groups.move(Moved(str(chat), str(moved.new_chat_id)))
            # The new group has no message of the old one.
            return await self._part(message._replace(reply_to=""), moved.new_chat_id, part)

    async def _file(self, file: "telegram.InputFile", to: dict[str, Any]) -> "telegram.Message":
        from telegram.error import BadRequest

        assert isinstance(file.input_file_content, bytes)
        if file.filename.lower().endswith(_PHOTOS) and len(file.input_file_content) <= _MOST_PHOTO_BYTES:
            try:
                return await self._bot.send_photo(photo=file, **to)
            except BadRequest:  # a picture that is too wide, or none
                pass
        return await self._bot.send_document(document=file, **to)

    @contextmanager
    def failures(self, sending: bool = False) -> Iterator[None]:
        """Raises the errors of the Bot API as those of a platform. None of them contains the token."""
        from telegram import error as errors

        try:
            yield
        except errors.ChatMigrated:
            raise
        except errors.InvalidToken:
            raise Refused(f"Telegram does not know the token in {self._variable}; @BotFather gives a new one") from None
        except errors.Conflict as error:
            why = f"another process polls this bot, or it has a webhook ({error.message})"
            raise TryLater(_CONFLICT_SECONDS, why) from None
        except errors.RetryAfter as error:
            wait = error.retry_after
            raise TryLater(wait if isinstance(wait, int) else wait.total_seconds()) from None
        except (errors.Forbidden, errors.BadRequest) as error:
            kind = Undeliverable if sending else PlatformError
            raise kind(f"Telegram refuses: {error.message}") from None
        except errors.TelegramError as error:
            why = f"Telegram: {error.message}".replace(self._bot.token, "TOKEN")
            raise (Unsure(why) if sending and _may_have_arrived(error) else PlatformError(why)) from None


PLATFORM = TelegramPlatform


def _number(id: str, otherwise: Any = None) -> Any:
    """An id as a number. Raises `Undeliverable` if it is none."""
    if re.fullmatch(r"-?\d{1,18}", id):
        return int(id)
    if otherwise is None:
        raise Undeliverable(f"{id!r} is no id of Telegram's")
    return otherwise


async def _read(path: Path) -> "telegram.InputFile | str":
    """A file, or a line that says why it is not sent."""
    from telegram import InputFile

    try:
        content = await anyio.Path(path).read_bytes()
    except OSError as error:
        return f"({path.name} was to be attached: {error.strerror})"
    if not content:
        return f"({path.name} is empty)"
    if len(content) > _MOST_BYTES:
        return f"({path.name} is not attached: Telegram takes files of up to {_MOST_BYTES >> 20} MB from a bot)"
    return InputFile(content, filename=path.name)


def _may_have_arrived(error: Exception) -> bool:
    """Whether the connection failed after it had been made, so that Telegram may have taken the message."""
    import httpx

    never = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)
    return isinstance(error.__cause__, httpx.TransportError) and not isinstance(error.__cause__, never)


def _silence() -> None:
    """These libraries log addresses, which contain the token, and what was said."""
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("telegram."):
            logging.getLogger(name).disabled = True
    logging.getLogger("httpx").addFilter(_has_no_token)


def _has_no_token(record: logging.LogRecord) -> bool:
    return "/bot" not in record.getMessage()
