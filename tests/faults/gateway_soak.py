"""A soak of the gateway: four platforms, faults of their networks, and `kill -9` of the daemon again and again.

    PYTHONPATH=tests python tests/faults/gateway_soak.py --messages 10000 --kills 100

Telegram is a double of the Bot API that delivers twice, out of order, refuses and cuts; Matrix is a real Synapse and
e-mail a real Dovecot. All three are behind proxies whose connections are cut. HTTP clients send requests again until
they have an answer. The agent answers each message with its own text. Prints what was lost, answered twice or out of
order.
"""

import argparse
import asyncio
import json
import logging
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import aiohttp
import anyio
from fakes.mail import AUTHORITY, Dovecot, Proxy, Smtp, dovecot, proxy, received, smtp_server
from fakes.synapse import Synapse, User
from fakes.telegram_api import TelegramApi

MARK = "(sent again: an earlier attempt may have arrived)"
AGENT = "hermes@example.org"
RATES = {"duplicate": 0.05, "reorder": 0.05, "429": 0.01, "502": 0.01, "cut": 0.01, "cut after": 0.01}
REPEATED = 0.05
"""The share of mails and requests that come twice."""


class Side(Protocol):
    """The people of a platform. Chats have numbers."""

    name: str

    async def say(self, chat: int, text: str, again: bool) -> None:
        """Somebody writes; `again`: the message is delivered twice."""
        ...

    async def replies(self, chat: int) -> list[str]:
        """What the agent has sent to a chat, in order."""
        ...

    def cut(self) -> None:
        """Cuts the connections of the daemon."""
        ...


class OnTelegram:
    """See `Side`. It delivers twice by itself."""

    name = "telegram"

    def __init__(self, api: TelegramApi, between: Proxy) -> None:
        self._api, self._between = api, between

    async def say(self, chat: int, text: str, again: bool) -> None:
        self._api.say(chat + 1, text)

    async def replies(self, chat: int) -> list[str]:
        return [str(each["text"]) for each in self._api.sent if each["chat"]["id"] == chat + 1]

    def cut(self) -> None:
        self._between.cut()


class OnMatrix:
    """See `Side`."""

    name = "matrix"

    def __init__(self, people: Sequence[User], rooms: Sequence[str], bot: str, between: Proxy) -> None:
        self._people, self._rooms, self._bot, self._between = people, rooms, bot, between

    async def say(self, chat: int, text: str, again: bool) -> None:
        await self._people[chat].say(self._rooms[chat], text)

    async def replies(self, chat: int) -> list[str]:
        found: list[str] = []
        start = ""
        while True:
            where = f"/rooms/{quote(self._rooms[chat])}/messages?dir=b&limit=500{start}"
            page = await self._people[chat].call("GET", where)
            found += [
                str(event["content"].get("body", ""))
                for event in page["chunk"]
                if event["type"] == "m.room.message" and event["sender"] == self._bot
            ]
            if not page["chunk"] or "end" not in page:
                return found[::-1]
            start = f"&from={quote(page['end'])}"

    def cut(self) -> None:
        self._between.cut()


class OnEmail:
    """See `Side`. A chat is a thread of mails."""

    name = "email"

    def __init__(self, servers: Dovecot, smtp: Smtp, between: Proxy) -> None:
        self._servers, self._smtp, self._between = servers, smtp, between
        self._numbers: Counter[int] = Counter()

    async def say(self, chat: int, text: str, again: bool) -> None:
        sender, number = f"p{chat}@example.org", self._numbers[chat]
        self._numbers[chat] += 1
        first = f"<m0.{chat}@there.example>"
        lines = [f"From: {sender}", f"To: {AGENT}", "Subject: Soak", f"Message-ID: <m{number}.{chat}@there.example>"]
        lines += [f"In-Reply-To: {first}", f"References: {first}"] if number else []
        mail = received("\r\n".join([*lines, "", text, ""]).encode(), "pass", sender)
        for _ in range(2 if again else 1):
            await anyio.to_thread.run_sync(self._servers.deliver, AGENT, mail)

    async def replies(self, chat: int) -> list[str]:
        mails = await anyio.to_thread.run_sync(self._servers.mails, f"p{chat}@example.org")
        # The subject of a thread is told with its first mail.
        return [str(mail.get_content()).strip().removeprefix("Subject: Soak").strip() for mail in mails]

    def cut(self) -> None:
        self._between.cut()
        self._smtp.cut = True


class OnHttp:
    """See `Side`. The next message of a chat is asked when the one before has its answer."""

    name = "http"

    def __init__(self, url: str, key: str, chats: int, group: anyio.abc.TaskGroup) -> None:
        self._url, self._key = url, key
        self._queues = [asyncio.Queue[tuple[int, str, bool]]() for _ in range(chats)]
        self._answers: dict[int, list[str]] = defaultdict(list)
        self._numbers: Counter[int] = Counter()
        for chat in range(chats):
            group.start_soon(self._client, chat)

    async def say(self, chat: int, text: str, again: bool) -> None:
        self._numbers[chat] += 1
        self._queues[chat].put_nowait((self._numbers[chat], text, again))

    async def replies(self, chat: int) -> list[str]:
        return list(self._answers[chat])

    def cut(self) -> None:
        """Its clients are cut by the kills."""

    async def _client(self, chat: int) -> None:
        async with aiohttp.ClientSession() as client:
            while True:
                number, text, again = await self._queues[chat].get()
                given = [await self._answer(client, chat, number, text) for _ in range(2 if again else 1)]
                # Both requests had one key: a second turn would show here.
                self._answers[chat] += given[:1] if len(set(given)) == 1 else given

    async def _answer(self, client: aiohttp.ClientSession, chat: int, number: int, text: str) -> str:
        headers = {"Authorization": f"Bearer {self._key}", "X-Hermes-Session": f"c{chat}"}
        headers["Idempotency-Key"] = f"{chat}-{number}"
        body = {"messages": [{"role": "user", "content": text}]}
        while True:
            try:
                async with client.post(self._url, json=body, headers=headers) as answer:
                    if answer.status == 200:
                        found = await answer.json()
                        return str(found["choices"][0]["message"]["content"])
            except (aiohttp.ClientError, OSError, TimeoutError):
                pass
            await anyio.sleep(0.2)


@dataclass
class Figures:
    """What a soak has found, over all platforms."""

    messages: int = 0
    lost: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    out_of_order: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)
    marked: int = 0
    kills: int = 0
    seconds: float = 0.0
    peak_mb: float = 0.0

    @property
    def is_clean(self) -> bool:
        """Whether nothing was lost, answered twice or out of order."""
        return not (self.lost or self.twice or self.out_of_order or self.other)

    def count(self, chat: str, asked: Sequence[str], replies: Sequence[str]) -> None:
        """Compares the replies of one chat with what was asked in it."""
        self.messages += len(asked)
        places = {text: place for place, text in enumerate(asked)}
        unmarked: Counter[str] = Counter()
        last = -1
        seen = set()
        for reply in replies:
            text = reply.replace(MARK, "").strip()
            if text not in places:
                self.other.append(f"{chat}: {text[:80]}")
                continue
            seen.add(text)
            if MARK in reply:
                self.marked += 1
                continue
            unmarked[text] += 1
            if places[text] < last:
                self.out_of_order.append(f"{chat}: {text}")
            last = max(last, places[text])
        self.lost += [f"{chat}: {text}" for text in asked if text not in seen]
        self.twice += [f"{chat}: {text}" for text, times in unmarked.items() if times > 1]

    def __str__(self) -> str:
        return (
            f"{self.messages} messages, {self.kills} kills, {self.seconds:.0f} s: {len(self.lost)} lost, "
            f"{len(self.twice)} answered twice, {len(self.out_of_order)} out of order, "
            f"{len(self.other)} other replies; {self.marked} sent again with a mark; at most {self.peak_mb:.0f} MB"
        )


class Daemon:
    """`hermes-lab gateway run`, which is killed and started again."""

    def __init__(self, home: Path, settings: dict[str, Any], environment: dict[str, str]) -> None:
        self.peak_mb = 0.0
        self.log = home.with_name("gateway.log")
        self._environment = os.environ | environment | {"HERMES_HOME": str(home)}
        self._home = home
        self._home.mkdir(parents=True)
        (home / "config.yaml").write_text(json.dumps(settings))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "hermes_lab", "gateway", "run"]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=self._environment)

    def stop(self, number: signal.Signals) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(60)

    def kill(self) -> None:
        if self.is_alive():
            self.stop(signal.SIGKILL)

    async def watch(self) -> None:
        """Notes the most memory that it had."""
        while True:
            if self._process and self._process.poll() is None:
                with suppress(OSError, IndexError):
                    status = Path("/proc", str(self._process.pid), "status").read_text()  # noqa: ASYNC240
                    self.peak_mb = max(self.peak_mb, int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024)
            await anyio.sleep(0.5)

    async def is_connected(self, platforms: int) -> None:
        """Waits until all platforms are up."""
        path = self._home / "gateway.json"
        with anyio.fail_after(120):
            while not path.exists() or path.read_text().count('"state": "up"') < platforms + 1:  # noqa: ASYNC110
                await anyio.sleep(0.1)

    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None


@contextmanager
def _synapse(folder: Path) -> Iterator[Synapse]:
    server = Synapse(folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@asynccontextmanager
async def _sides(
    chats: int, folder: Path, port: int, group: anyio.abc.TaskGroup
) -> AsyncIterator[tuple[list[Side], dict[str, Any], dict[str, str]]]:
    """The platforms, and the settings and variables of a daemon for them."""
    warnings.filterwarnings("ignore", "Requiring AUTH")
    logging.getLogger("mail").setLevel(logging.ERROR)
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(TelegramApi())
        to_telegram = await stack.enter_async_context(proxy(int(api.url.rpartition(":")[2])))
        synapse = stack.enter_context(_synapse(folder))
        bot = synapse.register("hermes")
        people = [User(synapse, "person") for _ in range(chats)]
        rooms = [await person.room(bot[0]) for person in people]
        to_synapse = await stack.enter_async_context(proxy(int(synapse.url.rpartition(":")[2])))
        servers = stack.enter_context(dovecot())
        smtp = await stack.enter_async_context(smtp_server(servers))
        to_imap = await stack.enter_async_context(proxy(servers.port))
        mail = {"address": AGENT, "imap_host": "127.0.0.1", "smtp_host": "127.0.0.1", "security": "none"}
        mail |= {"authority": AUTHORITY, "imap_port": to_imap.port, "smtp_port": smtp.port}  # type: ignore[dict-item]
        gateway: dict[str, Any] = {
            "platforms": ["telegram", "matrix", "email", "http"],
            "telegram": {
                "base_url": f"http://127.0.0.1:{to_telegram.port}",
                "allow": [str(chat + 1) for chat in range(chats)],
            },
            "matrix": {"homeserver": f"http://127.0.0.1:{to_synapse.port}", "user": bot[0]},
            "email": {**mail, "allow": [f"p{chat}@example.org" for chat in range(chats)]},
            "http": {"port": port},
        }
        gateway["telegram"]["allow"] = [str(chat + 1) for chat in range(chats)]
        gateway["matrix"]["allow"] = [person.id for person in people]
        variables = {"TELEGRAM_BOT_TOKEN": api.token, "MATRIX_PASSWORD": bot[1], "EMAIL_PASSWORD": "secret"}
        variables |= {"HERMES_HTTP_KEY": "key", "PYTHONPATH": str(Path(__file__).parents[1])}
        model = {"provider": "scripted", "name": "fakes.tool_caller:tool_caller"}
        url = f"http://127.0.0.1:{port}/v1/chat/completions"
        sides: list[Side] = [
            OnTelegram(api, to_telegram),
            OnMatrix(people, rooms, bot[0], to_synapse),
            OnEmail(servers, smtp, to_imap),
            OnHttp(url, "key", chats, group),
        ]
        api.rates.update(RATES)
        yield sides, {"gateway": gateway, "model": model}, variables


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def soak(messages: int, kills: int, chats: int, folder: Path, *, seed: int = 0, patience: float = 300) -> Figures:
    """Sends `messages` in `chats` of each platform while the daemon is killed `kills` times, and waits for the answers
    for at most `patience` seconds without a new one."""
    drawn = random.Random(seed)
    figures = Figures(kills=kills)
    asked: dict[tuple[int, int], list[str]] = defaultdict(list)
    began = time.monotonic()
    (folder / "synapse").mkdir()
    async with (
        anyio.create_task_group() as group,
        _sides(chats, folder / "synapse", _free_port(), group) as (sides, settings, variables),
    ):
        daemon = Daemon(folder / "home", settings, variables)
        try:
            daemon.start()
            group.start_soon(daemon.watch)
            await daemon.is_connected(len(sides))  # mails from before the first connection are not answered
            for phase in range(kills + 1):
                for number in range(phase * messages // (kills + 1), (phase + 1) * messages // (kills + 1)):
                    side, chat = number % len(sides), number // len(sides) % chats
                    text = f"Message {number} of {sides[side].name}"
                    asked[side, chat].append(text)
                    await sides[side].say(chat, text, drawn.random() < REPEATED)
                    if drawn.random() < 0.003:
                        sides[drawn.randrange(len(sides))].cut()
                if phase < kills:
                    await anyio.sleep(drawn.uniform(1.5, 8))
                    assert daemon.is_alive(), daemon.log.read_text()[-2000:]
                    daemon.stop(signal.SIGKILL)
                    daemon.start()
            await _answered(sides, asked, patience)
            figures.seconds = time.monotonic() - began
            assert daemon.stop(signal.SIGTERM) == 0, daemon.log.read_text()[-2000:]
            for (side, chat), texts in asked.items():
                figures.count(f"{sides[side].name} {chat}", texts, await sides[side].replies(chat))
            figures.peak_mb = daemon.peak_mb
        finally:
            daemon.kill()
        group.cancel_scope.cancel()
    return figures


async def _answered(sides: Sequence[Side], asked: dict[tuple[int, int], list[str]], patience: float) -> None:
    """Waits until all is answered, or nothing new comes."""
    before, since = -1, time.monotonic()
    while time.monotonic() - since < patience:
        missing = 0
        for (side, chat), texts in asked.items():
            replies = {reply.replace(MARK, "").strip() for reply in await sides[side].replies(chat)}
            missing += len(set(texts) - replies)
        if not missing:
            return
        if missing != before:
            before, since = missing, time.monotonic()
        await anyio.sleep(1)


def main() -> None:
    """Runs a soak, and exits with 1 if it is not clean."""
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--messages", type=int, default=10_000)
    given.add_argument("--kills", type=int, default=100)
    given.add_argument("--chats", type=int, default=6, help="of each platform")
    options = given.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        figures = anyio.run(soak, options.messages, options.kills, options.chats, Path(folder))
    print(figures)
    for name in ("lost", "twice", "out_of_order", "other"):
        for line in getattr(figures, name)[:10]:
            print(f"  {name}: {line}")
    sys.exit(0 if figures.is_clean else 1)


if __name__ == "__main__":
    main()
