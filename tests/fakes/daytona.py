"""A test double of Daytona: its API and, at another path, the toolbox in its sandboxes, which are bubblewrap here.

What it keeps of the service comes from daytonaio/daytona v0.190.0 (the last public source) and from the clients of
daytona 0.226.1 (DTOs, states, enums):

- Bearer token: none or a wrong one is 401, by the API and by the toolbox's proxy.
- `POST /sandbox`: types of fields, `gpuType` of the enum, one of snapshot and buildInfo, no resources with a snapshot,
  GPUs only for ephemeral sandboxes, quotas (400), unknown volumes (400) and mount paths, unknown regions. The service
  drops fields that it does not know (ValidationPipe without whitelist); the double refuses them, so that a wrong name
  is found.
- Creation is asynchronous; a deletion meanwhile is 409. Unknown sandboxes, deleted ones too, are 404.
- Lists are pages with a cursor, filtered by all labels in a JSON query parameter.
- The toolbox answers only for a sandbox that has started, with the rules of the daemon's terminals: a login shell of
  /etc/shells on a pty, `lazyStart`, ids used once, messages to it of at most 64 KiB, reads of at most 32 KiB, a client
  for which 256 messages wait is cut off as a slow consumer, the exit status is in the reason of the close frame.

`faults` makes the next request of a kind fail. Commands have the network only if the sandbox was made with it.
"""

import asyncio
import json
import re
import secrets
import threading
import uuid
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from aiohttp import web

from fakes.daytona_terminal import Terminal
from hermes_lab.config.sandboxes import SandboxConfig

_ETC = ("etc/passwd", "etc/group", "etc/shells", "etc/ld.so.cache", "etc/alternatives")
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(
        ("name", "snapshot", "user", "target", "networkAllowList", "domainAllowList", "linkedSandbox"), str
    ),
    **dict.fromkeys(("env", "labels", "buildInfo"), dict),
    **dict.fromkeys(("public", "networkBlockAll"), bool),
    **dict.fromkeys(("cpu", "gpu", "memory", "disk", "autoStopInterval", "autoArchiveInterval"), int),
    **dict.fromkeys(("autoDeleteInterval", "ttlMinutes"), int),
    **dict.fromkeys(("volumes", "gpuType"), list),
}
_GPUS = ("H100", "H200", "B200", "B300", "RTX-PRO-6000", "RTX-4090", "RTX-5090", "MI355X")
_NOT_MOUNTED = ("/proc", "/sys", "/dev", "/boot", "/etc", "/bin", "/sbin", "/lib", "/lib64")
_READ_LIMIT = 64 * 1024
_REGIONS = ("us", "eu")


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"statusCode": status, "message": message, "error": str(status)}, status=status)


class FakeDaytona:
    """The service, in a thread of its own. `url` is that of its API, and `key` is a key of the account."""

    def __init__(self, folder: Path) -> None:
        self.key = f"dtn_{secrets.token_hex(16)}"
        self.folder = folder
        self.sandboxes: dict[str, dict[str, Any]] = {}
        self.created: list[dict[str, Any]] = []
        """What the creations of sandboxes asked for."""
        self.terminals: list[dict[str, Any]] = []
        """What the creations of terminals asked for."""
        self.volumes: dict[str, dict[str, Any]] = {}
        self.snapshots = {"python-lab"}
        self.start_seconds = 0.05
        self.gpu_quota = 1
        self.most_sandboxes = 100
        self.page = 2
        self.faults: dict[str, list[Callable[[], web.Response]]] = {}
        self.fails_to_start = ""
        self.ignores_network = False
        self.message_seconds = 0.0
        """How long each message of a terminal takes to its client."""
        self.shell: tuple[str, ...] = ("/bin/bash",)
        self.hides = ""
        """A program of /usr/bin that sandboxes do not have."""
        self.connections = 0
        self._terminals: dict[str, dict[str, Terminal]] = {}
        self._runner: web.AppRunner | None = None
        self.url = ""

    def config(self, **fields: Any) -> SandboxConfig:
        """Sandboxes at this service; `daytona` in `fields` has more fields of that section."""
        section = {"api_url": self.url, **fields.pop("daytona", {})}
        return SandboxConfig.model_validate({"backend": "daytona", "daytona": section, **fields})

    def start(self) -> None:
        """Listens on a port of this machine."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._do(self._listen())

    def close(self) -> None:
        """Ends the service and its sandboxes."""
        self.end_all()
        assert self._runner is not None
        self._do(self._runner.cleanup())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(20)

    async def _listen(self) -> None:
        app = web.Application(middlewares=[self._checked], client_max_size=1 << 26)
        app.router.add_get("/api/sandbox", self._list)
        app.router.add_post("/api/sandbox", self._create)
        app.router.add_get("/api/sandbox/{id}", self._get)
        app.router.add_delete("/api/sandbox/{id}", self._delete)
        app.router.add_get("/api/volumes/by-name/{name}", self._volume)
        app.router.add_post("/toolbox/{id}/process/pty", self._new_terminal)
        app.router.add_get("/toolbox/{id}/process/pty/{session}/connect", self._connect)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self._root = f"http://{host}:{port}"
        self.url = f"{self._root}/api"

    def add_volume(self, name: str) -> Path:
        """A volume, and the folder that it is here."""
        folder = self.folder / f"volume-{name}"
        folder.mkdir()
        identity = str(uuid.uuid4())
        self.volumes[name] = {"id": identity, "name": name, "state": "ready", "folder": str(folder)}
        return folder

    def end_all(self) -> None:
        """Ends the processes of all sandboxes, as when their containers die."""

        async def end() -> None:
            for identity in tuple(self._terminals):
                self._end(identity)

        self._do(end())

    def cut(self) -> None:
        """Cuts the connections of all terminals, without a close frame. The terminals stay."""

        async def cut() -> None:
            for terminals in self._terminals.values():
                for terminal in terminals.values():
                    if terminal.transport is not None:
                        terminal.transport.abort()

        self._do(cut())

    def alive(self) -> list[dict[str, Any]]:
        """The sandboxes that have not been deleted."""
        return [each for each in self.sandboxes.values() if each["state"] != "destroyed"]

    def _end(self, identity: str) -> None:
        for terminal in self._terminals.pop(identity, {}).values():
            terminal.kill()

    def fail(self, what: str, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        """The next request `METHOD /path` gets this answer."""

        def answer() -> web.Response:
            response = _error(status, message)
            response.headers.update(headers or {})
            return response

        self.faults.setdefault(what, []).append(answer)

    @web.middleware
    async def _checked(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {self.key}":
            return _error(401, "Invalid credentials")
        path = "/" + "/".join(request.path.split("/")[2:])
        for what, answers in self.faults.items():
            if answers and re.fullmatch(what, f"{request.method} {path}"):
                return answers.pop(0)()
        try:
            return await handler(request)  # type: ignore[no-any-return]
        except web.HTTPException as error:
            return _error(error.status, error.reason)

    def _found(self, request: web.Request) -> dict[str, Any]:
        wanted = request.match_info["id"]
        for sandbox in self.sandboxes.values():
            if wanted in (sandbox["id"], sandbox["name"]) and sandbox["state"] != "destroyed":
                return sandbox
        raise web.HTTPNotFound(reason=f"Sandbox with ID or name {wanted} not found")

    async def _list(self, request: web.Request) -> web.Response:
        if unknown := set(request.query) - {"labels", "limit", "cursor"}:
            return _error(400, f"property {unknown.pop()} should not exist")
        if not 1 <= int(request.query.get("limit", "100")) <= 200:
            return _error(400, "limit must not be greater than 200")
        labels = json.loads(request.query.get("labels", "{}"))
        found = [each for each in self.alive() if labels.items() <= each["labels"].items()]
        first = int(request.query.get("cursor", "0"))
        last = first + min(self.page, int(request.query.get("limit", "100")))
        return web.json_response({"items": found[first:last], "nextCursor": str(last) if last < len(found) else None})

    async def _get(self, request: web.Request) -> web.Response:
        return web.json_response(self._found(request))

    async def _volume(self, request: web.Request) -> web.Response:
        if (volume := self.volumes.get(request.match_info["name"])) is None:
            return _error(404, f"Volume with name {request.match_info['name']} not found")
        return web.json_response({name: value for name, value in volume.items() if name != "folder"})

    async def _delete(self, request: web.Request) -> web.Response:
        sandbox = self._found(request)
        if sandbox["state"] == "creating":
            return _error(409, "Sandbox state change in progress")
        sandbox["state"] = "destroyed"
        self._end(sandbox["id"])
        return web.json_response(sandbox)

    def _wrong(self, asked: dict[str, Any]) -> str:
        """What the service would refuse with 400."""
        for name, value in asked.items():
            if (kind := _TYPES.get(name)) is None:
                return f"property {name} should not exist"
            if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
                return f"{name} must be of another type"
        for name in ("env", "labels"):
            if not all(isinstance(value, str) for value in asked.get(name, {}).values()):
                return f"{name} must be strings"
        if not all(each in _GPUS for each in asked.get("gpuType", [])):
            return f"each value in gpuType must be one of the following values: {', '.join(_GPUS)}"
        if not 0 <= asked.get("gpu", 0) <= 1:
            return "gpu must not be greater than 1"
        if asked.get("autoStopInterval", 0) < 0:
            return "Auto-stop interval must be non-negative"
        resources = any(asked.get(name) for name in ("cpu", "gpu", "memory", "disk"))
        if build := asked.get("buildInfo"):
            if asked.get("snapshot"):
                return "Cannot specify a snapshot when using a build info entry"
            if set(build) - {"dockerfileContent", "contextHashes"} or not build.get("dockerfileContent"):
                return "buildInfo.dockerfileContent should not be empty"
        elif resources:
            return "Cannot specify Sandbox resources when using a snapshot"
        elif asked.get("gpuType"):
            return "Cannot specify GPU type when creating sandbox from snapshot. GPU type is inherited from snapshot."
        elif asked.get("snapshot") not in self.snapshots:
            return f"Snapshot {asked.get('snapshot')} not found. Did you add it through the Daytona Dashboard?"
        if asked.get("gpu") and asked.get("autoDeleteInterval") != 0:
            return "GPU sandboxes must be ephemeral - set autoDeleteInterval to 0"
        if asked.get("gpu", 0) > self.gpu_quota:
            return f"Total GPU limit exceeded. Maximum allowed: {self.gpu_quota}."
        return self._wrong_volumes(asked.get("volumes", []))

    def _wrong_volumes(self, volumes: list[dict[str, Any]]) -> str:
        known = {volume["id"] for volume in self.volumes.values()} | set(self.volumes)
        for volume in volumes:
            if set(volume) - {"volumeId", "mountPath", "subpath"}:
                return "volumes: property should not exist"
            if volume["volumeId"] not in known:
                return f"Volume '{volume['volumeId']}' could not be resolved to a valid volume ID"
            path = volume["mountPath"]
            if not path.startswith("/") or path == "/" or "//" in path or "/../" in path:
                return f"Invalid mount path {path}"
            if any(path == each or path.startswith(f"{each}/") for each in _NOT_MOUNTED):
                return f"Invalid mount path {path} (cannot mount to system directory)"
        return ""

    async def _create(self, request: web.Request) -> web.Response:
        asked = await request.json()
        self.created.append(asked)
        if wrong := self._wrong(asked):
            return _error(400, wrong)
        alive = self.alive()
        if len(alive) >= self.most_sandboxes:
            return _error(400, f"Total CPU limit exceeded. Maximum allowed: {self.most_sandboxes}.")
        if asked.get("target", "us") not in _REGIONS:
            return _error(404, "Region not found")
        identity = str(uuid.uuid4())
        if asked.get("name") in {each["name"] for each in alive}:
            return _error(409, f"Sandbox with name {asked['name']} already exists")
        sandbox = {
            "id": identity,
            "organizationId": "org",
            "name": asked.get("name") or identity,
            "labels": asked.get("labels", {}),
            "state": "creating",
            "networkBlockAll": asked.get("networkBlockAll", False) and not self.ignores_network,
            "volumes": asked.get("volumes", []),
            "target": asked.get("target", "us"),
            "toolboxProxyUrl": f"{self._root}/toolbox",
        }
        self.sandboxes[identity] = sandbox
        asyncio.get_running_loop().call_later(self.start_seconds, self._started, sandbox)
        return web.json_response(sandbox)

    def _started(self, sandbox: dict[str, Any]) -> None:
        if self.fails_to_start:
            sandbox |= {"state": "build_failed", "errorReason": self.fails_to_start}
        else:
            sandbox["state"] = "started"
            self._terminals[sandbox["id"]] = {}

    def _running(self, request: web.Request) -> dict[str, Terminal]:
        sandbox = self.sandboxes.get(request.match_info["id"])
        if sandbox is None or sandbox["state"] != "started" or sandbox["id"] not in self._terminals:
            raise web.HTTPBadRequest(reason="failed to get runner info: the sandbox is not running")
        return self._terminals[sandbox["id"]]

    async def _new_terminal(self, request: web.Request) -> web.Response:
        terminals, asked = self._running(request), await request.json()
        self.terminals.append(asked)
        if unknown := set(asked) - {"id", "cwd", "envs", "cols", "rows", "lazyStart"}:
            return _error(400, f"unknown field {unknown.pop()}")
        if not asked.get("id"):
            return web.json_response({"error": "session ID is required"}, status=400)
        if asked["id"] in terminals:
            return web.json_response({"error": f"PTY session with ID '{asked['id']}' already exists"}, status=409)
        if asked.get("cols", 80) > 1000 or asked.get("rows", 24) > 1000:
            return web.json_response({"error": "invalid value for cols - must be less than 1000"}, status=400)
        if not asked.get("lazyStart"):
            return web.json_response({"error": "this double starts terminals lazily only"}, status=400)
        sandbox = self.sandboxes[request.match_info["id"]]
        sandbox.setdefault("terminals", {})[asked["id"]] = asked
        return web.json_response({"sessionId": asked["id"]}, status=201)

    async def _connect(self, request: web.Request) -> web.StreamResponse:
        terminals = self._running(request)
        sandbox, session = self.sandboxes[request.match_info["id"]], request.match_info["session"]
        client = web.WebSocketResponse(max_msg_size=_READ_LIMIT)
        await client.prepare(request)
        asked = sandbox.get("terminals", {}).pop(session, None)
        if asked is None and session not in terminals:
            message = f"Failed to connect to PTY session: PTY session {session} not found"
            await client.send_str(json.dumps({"type": "control", "status": "error", "error": message}))
            await client.close()
            return client
        if asked is not None:
            terminals[session] = Terminal(self._command(sandbox), asked, self.message_seconds)
        self.connections += 1
        terminals[session].transport = request.transport
        await terminals[session].attach(client)
        return client

    def _command(self, sandbox: Mapping[str, Any]) -> list[str]:
        """A container over this machine's programs, which ends with its shell."""
        command = ["bwrap", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent"]
        command += ["--unshare-net"] if sandbox["networkBlockAll"] else []
        for name in ("usr", "bin", "sbin", "lib", "lib32", "lib64", *_ETC):
            path = Path("/") / name
            if path.is_symlink():
                command += ["--symlink", str(path.readlink()), f"/{name}"]
            elif path.exists():
                command += ["--ro-bind", str(path), f"/{name}"]
        command += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/root", "--tmpfs", "/home"]
        folders = {volume["id"]: volume["folder"] for volume in self.volumes.values()}
        for volume in sandbox["volumes"]:
            command += ["--bind", folders[volume["volumeId"]], volume["mountPath"]]
        command += ["--chdir", "/root", "--setenv", "HOME", "/root"]
        if self.hides:
            real = (Path("/usr/bin") / self.hides).resolve()
            command += ["--ro-bind", "/dev/null", str(real)]
        return [*command, "--", "setsid", "--ctty", "--wait", *self.shell, "-i", "-l"]
