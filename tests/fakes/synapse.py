"""A real Synapse on a free port, and the people who use it, over plain HTTP.

`make programs` installs Synapse; HERMES_LAB_PROGRAMS is the folder of the programs.
"""

import hashlib
import hmac
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import anyio

PROGRAM = Path(os.environ.get("HERMES_LAB_PROGRAMS", ".venv/programs")).absolute() / "synapse" / "bin" / "python"
_SECRET = "secret"
_FREE = {"per_second": 10000, "burst_count": 10000}
_SECONDS = 120


class Synapse:
    """A homeserver `localhost` whose data are in `folder`. It can be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self._process: subprocess.Popen[bytes] | None = None
        self._names = count()
        log = {"version": 1, "handlers": {"console": {"class": "logging.StreamHandler"}}}
        (folder / "log.json").write_text(json.dumps(log | {"root": {"level": "WARNING", "handlers": ["console"]}}))
        resources = [{"names": ["client"], "compress": False}]
        listener = {"port": port, "type": "http", "tls": False, "bind_addresses": ["127.0.0.1"], "resources": resources}
        config = {
            "server_name": "localhost",
            "listeners": [listener],
            "database": {"name": "sqlite3", "args": {"database": str(folder / "homeserver.db")}},
            "log_config": str(folder / "log.json"),
            "media_store_path": str(folder / "media"),
            "signing_key": "ed25519 a_test 0MQjB8wVxAhZ7dSyQqSDxwbGUUUsDdUN2ZjPLFd2fSE",
            "registration_shared_secret": _SECRET,
            "macaroon_secret_key": "m",
            "form_secret": "f",
            "report_stats": False,
            "trusted_key_servers": [],
            "suppress_key_server_warning": True,
            "presence": {"enabled": False},
            "bcrypt_rounds": 4,
            "rc_message": _FREE,
            "rc_registration": _FREE,
            "rc_login": {"address": _FREE, "account": _FREE, "failed_attempts": _FREE},
            "rc_joins": {"local": _FREE, "remote": _FREE},
            "rc_joins_per_room": _FREE,
            "rc_invites": {"per_room": _FREE, "per_user": _FREE, "per_issuer": _FREE},
            "rc_room_creation": _FREE,
        }
        (folder / "homeserver.json").write_text(json.dumps(config))

    def start(self) -> None:
        """Starts it, and returns when it answers."""
        command = [str(PROGRAM), "-m", "synapse.app.homeserver", "-c", str(self._folder / "homeserver.json")]
        # Its own environment: this process's PYTHONPATH holds packages of other versions.
        env = {"PATH": os.environ["PATH"], "HOME": str(self._folder)}
        with (self._folder / "out.log").open("ab") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out, env=env, cwd=self._folder)
        end = time.monotonic() + _SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"Synapse has not started: {(self._folder / 'out.log').read_text()[-2000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Stops it."""
        if self._process:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(_SECONDS)
            self._process = None

    def register(self, name: str) -> tuple[str, str]:
        """Registers a user whose name begins so; returns user id and password."""
        name = f"{name}{next(self._names)}"
        at = f"{self.url}/_synapse/admin/v1/register"
        with urllib.request.urlopen(at, timeout=_SECONDS) as answer:
            nonce = json.load(answer)["nonce"]
        password = f"pw-{name}-x7"
        signed = "\0".join((nonce, name, password, "notadmin")).encode()
        mac = hmac.new(_SECRET.encode(), signed, hashlib.sha1).hexdigest()
        body = {"nonce": nonce, "username": name, "password": password, "admin": False, "mac": mac}
        request = urllib.request.Request(at, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
            return json.load(answer)["user_id"], password

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/_matrix/client/versions", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


class User:
    """A person who uses the homeserver."""

    def __init__(self, synapse: Synapse, name: str) -> None:
        self.id, self.password = synapse.register(name)
        self._url = f"{synapse.url}/_matrix/client/v3"
        self._token = ""
        self._numbers = count()

    async def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """A request of the client-server API."""
        if not self._token and path != "/login":
            named = {"type": "m.id.user", "user": self.id}
            signed = await self.call(
                "POST", "/login", {"type": "m.login.password", "identifier": named, "password": self.password}
            )
            self._token = signed["access_token"]
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        given = None if method == "GET" else body or {}
        async with (
            aiohttp.ClientSession() as client,
            client.request(method, f"{self._url}{path}", json=given, headers=headers) as answer,
        ):
            found: dict[str, Any] = await answer.json()
            assert answer.status == 200, found
        return found

    async def room(self, *others: str, direct: bool = True, **fields: Any) -> str:
        """A new room; invites others to it."""
        body = {"invite": others, "is_direct": direct, "preset": "private_chat", **fields}
        return str((await self.call("POST", "/createRoom", body))["room_id"])

    async def join(self, room: str) -> None:
        await self.call("POST", f"/join/{quote(room)}")

    async def send(self, room: str, content: Mapping[str, Any], kind: str = "m.room.message") -> str:
        """Sends an event; returns its id."""
        path = f"/rooms/{quote(room)}/send/{kind}/{next(self._numbers)}"
        return str((await self.call("PUT", path, content))["event_id"])

    async def say(self, room: str, text: str, **fields: Any) -> str:
        """Sends a text; returns the event's id."""
        return await self.send(room, {"msgtype": "m.text", "body": text, **fields})

    async def react(self, room: str, message: str, key: str) -> str:
        """Reacts to a message; returns the event's id."""
        relation = {"rel_type": "m.annotation", "event_id": message, "key": key}
        return await self.send(room, {"m.relates_to": relation}, "m.reaction")

    async def redact(self, room: str, event: str) -> str:
        """Takes an event back; returns the redaction's id."""
        path = f"/rooms/{quote(room)}/redact/{quote(event)}/{next(self._numbers)}"
        return str((await self.call("PUT", path))["event_id"])

    async def messages(self, room: str, sender: str) -> list[dict[str, Any]]:
        """The messages that a user has sent to a room, in order."""
        found = await self.call("GET", f"/rooms/{quote(room)}/messages?dir=b&limit=100")
        return [
            event
            for event in reversed(found["chunk"])
            if event["type"] == "m.room.message" and event["sender"] == sender
        ]

    async def hears(self, room: str, sender: str, most: int, seconds: float = 60) -> list[dict[str, Any]]:
        """The messages of a user, once there are so many."""
        with anyio.fail_after(seconds):
            while len(found := await self.messages(room, sender)) < most:  # noqa: ASYNC110
                await anyio.sleep(0.05)
        return found
