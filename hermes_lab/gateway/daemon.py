"""The daemon: platforms on one side, sessions on the other, and the inbox and outbox between them."""

import json
import logging
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.to_thread

from hermes_lab.chat.turns import TurnId, judge_turn
from hermes_lab.commands.registry import Registry
from hermes_lab.config.gateway import PlatformConfig
from hermes_lab.config.home import HomeConfig
from hermes_lab.cron.jobs import jobs_of
from hermes_lab.cron.run import JobRunner
from hermes_lab.cron.ticker import Ticker
from hermes_lab.errors import ConfigError, HermesLabError
from hermes_lab.gateway.access import CODE_MINUTES, Access
from hermes_lab.gateway.outbox import Outbox
from hermes_lab.gateway.platform import CLIENT, Connection, Inbound, Judged, Platform, PlatformError, Refused, TryLater
from hermes_lab.gateway.restart import HEARTBEAT_SECONDS, STATUS, asked, installation
from hermes_lab.gateway.session import SessionWorker, Shared
from hermes_lab.gateway.split import split
from hermes_lab.gateway.store import GatewayStore, Ids, Piece, Row
from hermes_lab.records import write_atomic
from hermes_lab.sessions import SessionKey, SessionStore

_FIRST_SECONDS, _LONGEST_SECONDS = 1.0, 300.0
_REFUSED_SECONDS = 300.0
_FORGET_SECONDS = 3600.0
_TICK_AGAIN_SECONDS = 60.0
_DRAIN_SECONDS, _DRAIN_LOOK_SECONDS = 600.0, 0.2
_log = logging.getLogger("hermes_lab.gateway")


class Gateway:
    """One daemon of one Hermes home. `sources` are the `-c` options, which chats and scheduled jobs read again."""

    def __init__(
        self, config: HomeConfig, home: Path, platforms: Sequence[Platform], sources: Sequence[str] = ()
    ) -> None:
        self._config = config
        self._home = home
        self._store = GatewayStore(home)
        self._ids = Ids(self._store.secret())
        self._platforms = {platform.name: platform for platform in platforms}
        self._outboxes = {name: Outbox(self._store, each, self._ids) for name, each in self._platforms.items()}
        self._access = Access(self._store, _listed(config))
        self._workers: dict[str, SessionWorker] = {}
        self._states: dict[str, dict[str, Any]] = {name: {"state": "connecting"} for name in self._platforms}
        self._started = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._installation = installation()  # once: an update may point the link to another version
        self._group: anyio.abc.TaskGroup | None = None
        self._ticker = Ticker(
            home,
            JobRunner(home, sources, _log.info),
            say=_log.info,
            deliver=self._deliver,
            prompts=config.gateway.concurrency,
        )
        self._cron: dict[str, Any] = {"state": "up", "why": ""}
        self.restarting = False
        """Whether `run` returned to be started again, as `hermes-lab gateway restart` asks for."""
        self._draining = False
        self._shared = Shared(
            config=config,
            home=home,
            store=self._store,
            sessions=SessionStore(home / "sessions.db"),
            ids=self._ids,
            working=anyio.CapacityLimiter(config.gateway.concurrency),
            outgoing=lambda name: self._outboxes[name].wake() if name in self._outboxes else None,
            one_reply=lambda name: getattr(self._platforms.get(name), "one_reply", False),
            cut=self._cut,
            post=self.post,
            home_chat=_home_chat(config, self._platforms),
            sources=sources,
            hints=lambda name: self._platforms[name].hint if name in self._platforms else "",
            draining=lambda: self._draining,
        )

    async def run(self) -> None:
        """Runs until it is cancelled, or asked to restart: then it begins nothing new, and returns once the turns and
        jobs under way have ended. What waits stays in the inbox."""
        try:
            async with anyio.create_task_group() as self._group:
                for row in await self._store.call(self._store.waiting):
                    self._route(row)
                for name in self._platforms:
                    self._group.start_soon(self._keep_connected, name)
                self._group.start_soon(self._tick)
                self._group.start_soon(self._beat)
                self._group.start_soon(self._drain)
        finally:
            with anyio.CancelScope(shield=True), suppress(OSError, HermesLabError):
                await anyio.to_thread.run_sync(self._write_status, True)

    async def _drain(self) -> None:
        await asked(self._home)
        self._draining = self._ticker.paused = True
        _log.info("restarting once %d turns and %d jobs have ended", self._working, self._ticker.working)
        with anyio.move_on_after(_DRAIN_SECONDS) as scope:
            while any(worker.is_busy for worker in list(self._workers.values())) or self._ticker.working:  # noqa: ASYNC110  # several parts say so
                await anyio.sleep(_DRAIN_LOOK_SECONDS)
        if scope.cancelled_caught:
            _log.warning("restarting now; %d turns and %d jobs are interrupted", self._working, self._ticker.working)
        self.restarting = True
        assert self._group is not None
        self._group.cancel_scope.cancel()

    @property
    def _working(self) -> int:
        """The turns under way."""
        return sum(worker.working_seconds is not None for worker in list(self._workers.values()))

    async def accept(self, platform: str, event: Inbound | Judged) -> None:
        """Takes an event of a platform; when it returns, the event is on the disk."""
        if isinstance(event, Judged):
            await self._judge(platform, event)
            return
        grouped, store = event.chat_type != "dm", self._store
        if not event.text.strip() or (grouped and not event.addressed and self._config.gateway.groups == "addressed"):
            return
        if not await store.call(self._access.is_allowed, platform, event.sender.id):
            await self._refuse(platform, event)
            return
        key = SessionKey(platform, event.chat, event.thread, event.chat_type)
        if row := await store.call(store.accept, platform, event, key):
            self._route(row)

    async def _judge(self, platform: str, event: Judged) -> None:
        """Records a reaction as the verdict on the turn that its message answered."""
        store = self._store
        known = await store.call(store.known, platform, event.update)
        if known or not await store.call(self._access.is_allowed, platform, event.sender.id):
            return
        if found := await store.call(store.turn_of, platform, event.chat, event.message):
            try:
                await self._record(TurnId.parse(found), event.good)
            except (OSError, ConfigError) as error:
                _log.warning("a reaction is not in the log of turns: %s", error)
        await store.call(store.refuse, platform, event.update)

    async def _record(self, turn: TurnId, good: bool | None) -> None:
        for worker in list(self._workers.values()):
            if await worker.judge(turn, good=good):
                return
        await judge_turn(self._home, turn, good=good)

    async def _refuse(self, platform: str, event: Inbound) -> None:
        """Gives a stranger a code, once; says nothing in groups."""
        store = self._store
        if not await store.call(store.refuse, platform, event.update):
            return
        _log.info("refused: %s on %s", self._ids(platform, event.sender.id), platform)
        if event.chat_type != "dm" or not self._config.gateway.pairing or not event.sender.id:
            return
        if code := await store.call(self._access.code, platform, event.sender):
            text = (
                "I do not know you yet. To let you in, my owner runs this within "
                f"{CODE_MINUTES} minutes: hermes-lab gateway pair {code}"
            )
            place = SessionKey(platform, event.chat, event.thread, event.chat_type)
            await store.call(store.post, f"pair {platform} {event.update}", [Piece(place, text)])
            self._outboxes[platform].wake()

    async def post(self, name: str, place: SessionKey, text: str, files: Sequence[Path] = ()) -> None:
        """Sends a message to a chat, and then files; one of a name is sent once. Raises `ConfigError` if its platform
        is not run."""
        if place.platform not in self._platforms:
            raise ConfigError(f"{place}: gateway.platforms has no {place.platform}")
        pieces = [Piece(place, piece) for piece in self._cut(place.platform, text)]
        if files:
            pieces.append(Piece(place, "", files=tuple(map(str, files))))
        await self._store.call(self._store.post, name, pieces)
        self._outboxes[place.platform].wake()

    async def _deliver(self, name: str, target: str, text: str, files: Sequence[Path]) -> None:
        """See `hermes_lab.cron.deliver.Deliver`."""
        place = _chat(target, "deliver", self._platforms) if ":" in target else self._shared.home_chat
        if place is None or (":" not in target and place.platform != target):
            raise ConfigError(f"gateway.home is not a chat of {target}: set it, or deliver to the key of a chat")
        await self.post(name, place, text, files)

    async def _tick(self) -> None:
        """Runs scheduled jobs; no failure of theirs ends the daemon."""
        while True:
            try:
                await anyio.to_thread.run_sync(jobs_of, self._home)
                await self._ticker.run()
            except Exception as error:
                self._cron = {"state": "down", "why": " ".join(str(error).split())}
                _log.warning("scheduled jobs do not run: %s", self._cron["why"])
            await anyio.sleep(_TICK_AGAIN_SECONDS)
            self._cron = {"state": "up", "why": ""}

    def _route(self, row: Row) -> None:
        assert self._group is not None
        if self._draining and row.key not in self._workers:
            return  # it waits in the inbox
        if (worker := self._workers.get(row.key)) is None:
            worker = self._workers[row.key] = SessionWorker(self._shared, row.place)
            self._group.start_soon(self._serve, row.key, worker)
        worker.arrived(row)
        self._make_room()

    async def _serve(self, key: str, worker: SessionWorker) -> None:
        """Runs a session's worker, and another one for what is left when it ends."""
        try:
            await worker.run()
        except Exception as error:
            known = isinstance(_first(error), HermesLabError)  # such as a full disk
            _log.error("the work on a chat failed: %s", _first(error), exc_info=None if known else error)
            if not known:
                with suppress(OSError, HermesLabError):
                    await worker.count_try()
            await anyio.sleep(_FIRST_SECONDS)
        del self._workers[key]
        for row in worker.left():
            self._route(row)

    def _make_room(self) -> None:
        """Closes the chats that have been idle for the longest, if there are too many."""
        staying = [worker for worker in self._workers.values() if not worker.is_leaving]
        idle = sorted((worker for worker in staying if worker.is_idle), key=lambda worker: worker.last)
        for worker in idle[: max(len(staying) - self._config.gateway.live_chats, 0)]:
            worker.leave()

    async def _keep_connected(self, name: str) -> None:
        """Connects a platform again whenever it fails; no failure ends the daemon."""
        wait = _FIRST_SECONDS
        while True:
            started, least = time.monotonic(), 0.0
            try:
                async with self._platforms[name].connect(_OfPlatform(self, name)) as connection:
                    self._state(name, "up")
                    await self._exchange(name, connection)
                why = "the connection ended"
            except* Refused as errors:
                why, wait = str(_first(errors)), _REFUSED_SECONDS
            except* PlatformError as errors:
                why = str(error := _first(errors))
                least = error.seconds if isinstance(error, TryLater) else 0.0
            except* Exception as errors:
                why = f"{type(_first(errors)).__name__}: {_first(errors)}"
                _log.error("%s failed", name, exc_info=_first(errors))
            if time.monotonic() - started > wait:
                wait = _FIRST_SECONDS
            self._state(name, "down", why)
            await anyio.sleep(max(wait, least))
            wait = min(2 * wait, _LONGEST_SECONDS)

    async def _exchange(self, name: str, connection: Connection) -> None:
        async def receive() -> None:
            await connection.receive(lambda event: self.accept(name, event))
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(receive)
            group.start_soon(self._outboxes[name].send, connection)

    def _state(self, name: str, state: str, why: str = "") -> None:
        if self._states[name] != {"state": state, "why": why}:
            (_log.warning if state == "down" else _log.info)("%s is %s%s", name, state, f": {why}" if why else "")
        self._states[name] = {"state": state, "why": why}

    def _cut(self, name: str, text: str) -> Sequence[str]:
        platform = self._platforms.get(name)
        return [each.sent for each in split(text, platform.limit) if not each.blank] if platform else [text]

    async def _beat(self) -> None:
        """Writes the status, and forgets what is old. Goes on while that fails, such as on a full disk."""
        forgotten, failed = -_FORGET_SECONDS, ""
        while True:
            try:
                await anyio.to_thread.run_sync(self._write_status)
                if time.monotonic() - forgotten > _FORGET_SECONDS:
                    await self._store.call(self._store.forget, time.time())
                    forgotten = time.monotonic()
                failed = ""
            except (OSError, HermesLabError) as error:
                if failed != (failed := " ".join(str(error).split())):
                    _log.error("the status cannot be written: %s", failed)
            await anyio.sleep(HEARTBEAT_SECONDS)

    def _write_status(self, ended: bool = False) -> None:
        status = {
            "pid": os.getpid(),
            "version": version("hermes-lab"),
            "installation": self._installation,
            "draining": self._draining,
            "started": self._started,
            "heartbeat": time.time(),
            "ended": ended,
            "platforms": self._states,
            "cron": self._cron,
            "chats": len(self._workers),
            "working": self._working,
            **self._store.counts(),
        }
        write_atomic(self._home / STATUS, json.dumps(status, indent=1).encode())


class _OfPlatform:
    """See `Services`."""

    def __init__(self, gateway: Gateway, name: str) -> None:
        self.commands = [(each.name, each.summary) for each in Registry("gateway").commands]
        self.post = gateway.post
        self._store = gateway._store
        self._access = gateway._access
        self._name = name

    async def fact(self, name: str) -> str:
        """See `Services.fact`."""
        return await self._store.call(self._store.fact, f"{self._name} {name}")

    async def set_fact(self, name: str, value: str, days: float | None = None) -> None:
        """See `Services.set_fact`."""
        await self._store.call(self._store.set_fact, f"{self._name} {name}", value, days)

    async def may_write(self, sender: str) -> bool:
        """See `Services.may_write`."""
        return await self._store.call(self._access.is_allowed, self._name, sender)


def _home_chat(config: HomeConfig, platforms: Mapping[str, Platform]) -> SessionKey | None:
    """That of `gateway.home`. Raises `ConfigError` if nothing can be sent there, or where a webhook sends."""
    hooks = config.gateway.http.webhooks.items() if "http" in platforms else ()
    for name, hook in hooks:
        if hook.deliver:
            _chat(hook.deliver, f"gateway.http.webhooks.{name}.deliver", platforms)
    return _chat(config.gateway.home, "gateway.home", platforms) if config.gateway.home else None


def _chat(text: str, field: str, platforms: Mapping[str, Platform]) -> SessionKey:
    """The chat that a field names. Raises `ConfigError` if nothing can be sent there."""
    try:
        key = SessionKey.parse(text)
    except ConfigError as error:
        raise ConfigError(f"{field}: {error}") from None
    if key.platform not in platforms:
        raise ConfigError(f"{field}: {key}: gateway.platforms has no {key.platform}")
    if getattr(platforms[key.platform], "one_reply", False):
        raise ConfigError(f"{field}: {key}: {key.platform} has no chats to write to")
    return key


def _listed(config: HomeConfig) -> Mapping[str, Sequence[str]]:
    """The ids that each platform lists. Raises `ConfigError` for a text, of which each letter would be an id."""
    gateway = config.gateway
    listed: dict[str, tuple[str, ...]] = {}
    for name, each in gateway.options.items():
        if not isinstance(ids := each.get("allow", []), list | tuple):
            raise ConfigError(
                f"gateway.options.{name}.allow: {ids!r} is not a list; write it in brackets, as in [ann, bob]"
            )
        listed[name] = tuple(map(str, ids))
    for name in gateway.platforms:
        if isinstance(section := getattr(gateway, name, None), PlatformConfig):
            listed[name] = section.allow
    return {**listed, "http": (CLIENT,)}


def _first(failure: BaseException) -> BaseException:
    first = failure
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first
