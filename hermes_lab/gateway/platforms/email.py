"""E-mail: an IMAP inbox and an SMTP server. Each e-mail thread is a separate conversation."""

import hashlib
import ipaddress
import logging
import os
import secrets
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import anyio
import anyio.to_thread
import msgspec

from hermes_lab.config.gateway import EmailConfig
from hermes_lab.errors import ConfigError
from hermes_lab.gateway.platform import Accept, Inbound, Outbound, Refused, Sender, Services, Undeliverable
from hermes_lab.gateway.platforms import email_smtp
from hermes_lab.gateway.platforms.email_imap import Fetched, Inbox, Server, open_inbox
from hermes_lab.gateway.platforms.email_senders import Headers, Ignored, Trust, Unknown, is_address, sender_of
from hermes_lab.gateway.platforms.email_text import text_of
from hermes_lab.gateway.platforms.email_threads import (
    Thread,
    is_reply,
    message_id,
    own_id,
    reply_subject,
    thread_of,
    write,
)
from hermes_lab.gateway.split import Limit

_PORTS = {"tls": (993, 465), "starttls": (143, 587), "none": (143, 25)}
_REMEMBERED = timedelta(days=28)  # the gateway knows the mails of 30 days
_SOME = timedelta(days=2)  # servers count days in time zones of their own
_log = logging.getLogger("hermes_lab.gateway")


class EmailPlatform:
    """See `Platform`. Raises `ConfigError` for settings that are missing or unsafe."""

    name = "email"
    limit = Limit(1_000_000, "bytes")
    hint = (
        "Your replies are sent as plain-text e-mails: Markdown is not rendered, so write no tables, headings or "
        "emphasis marks. A reply is one mail: answer completely, since people read it later. You only get the text of "
        "the mails that people send; a line in brackets names the attachments."
    )
    send_seconds = 150.0  # signing in, and then the two minutes that a server may take to accept a mail
    idempotent = False  # not every server drops a second mail with the same Message-ID

    def __init__(self, config: EmailConfig) -> None:
        for field in ("address", "imap_host", "smtp_host"):
            if not getattr(config, field):
                raise ConfigError(f"gateway.email.{field}: is empty; the platform email needs it")
        if not is_address(config.address):
            raise ConfigError("gateway.email.address: give a plain address, such as hermes@example.org")
        if config.security == "none":
            for field in ("imap_host", "smtp_host"):
                if not _is_here(getattr(config, field)):
                    raise ConfigError(
                        f"gateway.email.security: none would send the password unencrypted to gateway.email.{field}; "
                        "it is only for servers on this machine (localhost, 127.0.0.1); use tls or starttls"
                    )
        self._config = config

    @asynccontextmanager
    async def connect(self, services: Services) -> AsyncIterator["Mailbox"]:
        """Signs in at both servers. Raises `PlatformError`, and `Refused` without a password or the packages."""
        config = self._config
        if not (password := os.environ.get(config.password_env, "")):
            raise Refused(f"{config.password_env} is not set: give the password of the mail account")
        try:
            import aioimaplib  # noqa: F401
            import aiosmtplib  # noqa: F401
        except ImportError:
            raise Refused("email needs its extra: pip install 'hermes-lab[email]'") from None
        tls = None if config.security == "none" else await anyio.to_thread.run_sync(ssl.create_default_context)
        user, at_once = config.user or config.address, config.security == "tls"
        imap_port, smtp_port = _PORTS[config.security]
        imap = Server(config.imap_host, config.imap_port or imap_port, user, password, tls, at_once)
        smtp = Server(config.smtp_host, config.smtp_port or smtp_port, user, password, tls, at_once)
        await email_smtp.check(smtp, config.address)
        if not (salt := await services.fact("salt")):
            await services.set_fact("salt", salt := secrets.token_hex(16))
        async with open_inbox(imap) as inbox:
            yield Mailbox(inbox, smtp, _trust(config), services, salt)


class Mailbox:
    """See `Connection`. `salt` makes the ids of this home's mails its own."""

    def __init__(self, inbox: Inbox, smtp: Server, trust: Trust, services: Services, salt: str) -> None:
        self._inbox = inbox
        self._smtp = smtp
        self._trust = trust
        self._domain = trust.address.rpartition("@")[2].lower()
        self._services = services
        self._salt = salt
        self._warned = False

    async def receive(self, accept: Accept) -> None:
        """See `Connection.receive`. A mail is passed on before its uid is stored as where to go on."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._inbox.watch)
            uids, last = await self._begin()
            while True:
                for uid in uids:
                    if fetched := await self._inbox.fetch(uid):
                        await self._pass_on(uid, fetched, accept)
                    last = max(last, uid)
                    await self._store(last)
                await self._inbox.wait()
                uids = await self._inbox.after(last)

    async def _begin(self) -> tuple[list[int], int]:
        """The uids to read first, and the last one that needs no reading. Mails that were there before the agent first
        came are not for it. Where uids have lost their meaning, recent mails are read again, and known by their ids."""
        stored = (await self._services.fact("position")).split()
        if stored and stored[0] == self._inbox.validity:
            last = int(stored[1])
            return await self._inbox.after(last), last
        last = self._inbox.next - 1 if self._inbox.next else max(await self._inbox.after(0), default=0)
        uids = []
        if stored:
            now = datetime.now(UTC)
            since = max(datetime.fromtimestamp(float(stored[2]), UTC), now - _REMEMBERED) - _SOME
            uids = [uid for uid in await self._inbox.since(since.date()) if uid <= last]
            _log.info("email: the server has numbered the mails anew; %d recent ones are read again", len(uids))
            last = uids[0] - 1 if uids else last
            uids = await self._inbox.after(last)
        await self._store(last)
        return uids, last

    async def _store(self, last: int) -> None:
        await self._services.set_fact("position", f"{self._inbox.validity} {last} {time.time():.0f}")

    async def _pass_on(self, uid: int, fetched: Fetched, accept: Accept) -> None:
        try:
            headers = Headers(fetched.raw)
            address, name = sender_of(headers, self._trust)
        except Ignored as why:
            warns = isinstance(why, Unknown) and not self._warned
            self._warned |= warns
            _log.log(logging.WARNING if warns else logging.INFO, "email: a mail is ignored: %s", why)
            return
        here = f"{self._inbox.validity}.{uid}"
        id, subject = message_id(headers), headers.text("subject")
        thread = thread_of(headers, self._domain, here)
        shown = "" if is_reply(headers) else subject
        text = await anyio.to_thread.run_sync(lambda: text_of(fetched.raw, shown, whole=fetched.whole))
        about = msgspec.json.encode(Thread.of(headers, subject)).decode()
        await self._services.set_fact(f"thread {address} {thread}", about)
        update = hashlib.sha256(f"{address} {id}".encode()).hexdigest()[:32] if id else here
        sender = Sender(address, name)
        await accept(Inbound(update=update, chat=address, thread=thread, sender=sender, text=text, message=id))

    async def send(self, message: Outbound) -> str:
        """See `Connection.send`. Replies go to the address that was checked, whatever a mail says about replies."""
        if not is_address(message.chat):
            raise Undeliverable("the chat is not a plain e-mail address")
        stored = await self._services.fact(f"thread {message.chat} {message.thread}")
        thread = msgspec.json.decode(stored, type=Thread) if stored else None
        id = own_id(f"{self._salt} {message.key}", message.thread, self._domain)
        mail = await anyio.to_thread.run_sync(
            lambda: write(
                sender=self._trust.address,
                to=message.chat,
                subject=reply_subject(thread.subject or "your mail") if thread else "A message from your agent",
                id=id,
                references=thread.before(message.reply_to) if thread else (),
                text=message.text,
                files=message.files,
            )
        )
        await email_smtp.deliver(self._smtp, self._trust.address, message.chat, mail)
        return id


PLATFORM = EmailPlatform


def _trust(config: EmailConfig) -> Trust:
    if config.authenticated == "any":
        return Trust(config.address, "")
    _, _, domain = config.imap_host.partition(".")
    return Trust(config.address, config.authority or (domain if "." in domain else config.imap_host))


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
