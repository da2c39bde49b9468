"""The calls of the test double of Modal: what `modal_service` says is refused here."""

import asyncio
import base64
import json
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from grpclib import GRPCError, Status
from modal_proto import api_grpc
from modal_proto import api_pb2 as api
from modal_proto import task_command_router_grpc as router_grpc
from modal_proto import task_command_router_pb2 as router

from fakes.modal_container import STATUS, Container, new_id

if TYPE_CHECKING:
    from fakes.modal_service import ModalDouble

_GPUS = {
    **dict.fromkeys(("T4", "L4", "L40S", "A100", "A100-40GB", "A100-80GB", "RTX-PRO-6000"), 8),
    **dict.fromkeys(("H100", "H100!", "H200", "B200", "B200+"), 8),
    **dict.fromkeys(("A10", "A10G"), 4),
}
_DEFINITION = {
    *("entrypoint_args", "image_id", "resources", "timeout_secs", "volume_mounts", "network_access", "open_ports"),
    *("idle_timeout_secs", "workdir", "runtime_debug", "verbose"),
}
_TAG = re.compile(r"[A-Za-z0-9._-]{1,63}")
_MOST_STDIN = 16 << 20
_PAGE = 2


def _servicer(base: type) -> type:
    """`base`, with methods that refuse what is not there."""

    async def refuse(self: Any, stream: Any) -> None:
        raise GRPCError(Status.UNIMPLEMENTED, "the double does not have this call")

    return type(f"_{base.__name__}", (base,), dict.fromkeys(base.__abstractmethods__, refuse))  # type: ignore[attr-defined]


def _jwt(**claims: Any) -> str:
    parts = ({"alg": "none"}, claims | {"exp": time.time() + 3600, "nonce": new_id("n")})
    return ".".join(
        [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts] + ["s"]
    )


def _refuse(condition: Any, status: Status, why: str) -> None:
    if condition:
        raise GRPCError(status, why)


class Service(_servicer(api_grpc.ModalClientBase)):  # type: ignore[misc]
    """The calls of the service itself."""

    def __init__(self, double: "ModalDouble") -> None:
        self._double = double

    async def _request(self, stream: Any, name: str) -> Any:
        request = await stream.recv_message()
        self._double.requests.append((name, request))
        return request

    async def AuthTokenGet(self, stream: Any) -> None:
        await self._request(stream, "AuthTokenGet")
        token = _jwt()
        self._double.tokens.add(token)
        await stream.send_message(api.AuthTokenGetResponse(token=token))

    async def EnvironmentGetOrCreate(self, stream: Any) -> None:
        request = await self._request(stream, "EnvironmentGetOrCreate")
        self._environment(request.deployment_name)
        settings = api.EnvironmentSettings(image_builder_version="2025.06")
        metadata = api.EnvironmentMetadata(name=request.deployment_name or "main", settings=settings)
        await stream.send_message(api.EnvironmentGetOrCreateResponse(environment_id=new_id("en"), metadata=metadata))

    def _environment(self, name: str) -> str:
        _refuse(name not in ("", "main"), Status.NOT_FOUND, f"Environment '{name}' not found")
        return "main"

    async def AppGetOrCreate(self, stream: Any) -> None:
        request = await self._request(stream, "AppGetOrCreate")
        key = self._environment(request.environment_name), request.app_name
        make = request.object_creation_type == api.OBJECT_CREATION_TYPE_CREATE_IF_MISSING
        _refuse(key not in self._double.apps and not make, Status.NOT_FOUND, f"App '{request.app_name}' not found")
        await stream.send_message(api.AppGetOrCreateResponse(app_id=self._double.apps.setdefault(key, new_id("ap"))))

    def _app(self, id: str) -> None:
        _refuse(id not in self._double.apps.values(), Status.NOT_FOUND, f"App '{id}' not found")

    async def ImageGetOrCreate(self, stream: Any) -> None:
        request = await self._request(stream, "ImageGetOrCreate")
        self._app(request.app_id)
        commands = list(request.image.dockerfile_commands)
        _refuse(len(commands) != 1, Status.INVALID_ARGUMENT, "the double builds images of one FROM alone")
        name = commands[0].removeprefix("FROM ")
        built = name in self._double.registry
        known = [id for id, (each, _) in self._double.images.items() if each == name and built]
        id = known[0] if known else new_id("im")
        self._double.images[id] = name, built
        result = api.GenericResult(status=STATUS.GENERIC_STATUS_SUCCESS) if known else None
        await stream.send_message(api.ImageGetOrCreateResponse(image_id=id, result=result))

    async def ImageJoinStreaming(self, stream: Any) -> None:
        request = await self._request(stream, "ImageJoinStreaming")
        _refuse(request.image_id not in self._double.images, Status.NOT_FOUND, f"Image {request.image_id} not found")
        name, built = self._double.images[request.image_id]
        await stream.send_message(api.ImageJoinStreamingResponse(task_logs=[api.TaskLogs(data=f"=> FROM {name}\n")]))
        result = api.GenericResult(status=STATUS.GENERIC_STATUS_SUCCESS)
        if not built:
            result = api.GenericResult(
                status=STATUS.GENERIC_STATUS_FAILURE, exception=f"{name}: manifest unknown in the registry"
            )
        await stream.send_message(api.ImageJoinStreamingResponse(result=result, eof=True, entry_id="2-0"))

    async def VolumeGetOrCreate(self, stream: Any) -> None:
        request = await self._request(stream, "VolumeGetOrCreate")
        self._environment(request.environment_name)
        name = request.deployment_name
        _refuse(request.object_creation_type, Status.INVALID_ARGUMENT, "the double creates no volumes")
        _refuse(name not in self._double.volumes, Status.NOT_FOUND, f"Volume '{name}' not found")
        metadata = api.VolumeMetadata(name=name, version=api.VOLUME_FS_VERSION_V1)
        await stream.send_message(
            api.VolumeGetOrCreateResponse(volume_id=self._double.volumes[name], metadata=metadata)
        )

    async def SandboxCreate(self, stream: Any) -> None:
        made = await self._make(await self._request(stream, "SandboxCreate"), second=False)
        metadata = api.SandboxHandleMetadata(app_id=made.app)
        await stream.send_message(api.SandboxCreateResponse(sandbox_id=made.id, metadata=metadata))

    async def SandboxCreateV2(self, stream: Any) -> None:
        request = await self._request(stream, "SandboxCreateV2")
        _refuse(request.definition.resources.gpu_config.gpu_type, Status.INVALID_ARGUMENT, "GPUs are not supported")
        made = await self._make(request, second=True)
        await asyncio.sleep(self._double.answers_after)
        response = api.SandboxCreateV2Response(
            sandbox_id=made.id,
            task_id=made.task,
            metadata=api.SandboxHandleMetadata(app_id=made.app),
            command_router_access=self._access(made),
        )
        await stream.send_message(response)

    def _access(self, made: Container) -> api.CommandRouterAccess:
        token = _jwt(task=made.task)
        self._double.router_tokens[token] = made.task
        return api.CommandRouterAccess(url=self._double.router_url, jwt=token)

    async def _make(self, request: Any, *, second: bool) -> Container:
        self._app(request.app_id)
        definition: api.Sandbox = request.definition
        invalid = Status.INVALID_ARGUMENT
        for field, _ in definition.ListFields():
            _refuse(field.name not in _DEFINITION, invalid, f"the double does not have {field.name}")
        _refuse(not self._double.images.get(definition.image_id, ("", False))[1], Status.NOT_FOUND, "Image not found")
        _refuse(not 1 <= definition.timeout_secs <= 86400, invalid, "timeout must be between 1 second and 24 hours")
        _refuse(not definition.HasField("network_access"), invalid, "network_access is missing")
        resources = definition.resources
        _refuse(0 < resources.memory_mb < 128, invalid, "memory must be at least 128 MiB")
        gpu = resources.gpu_config
        _refuse(gpu.gpu_type and gpu.gpu_type not in _GPUS, invalid, f"{gpu.gpu_type} is not a valid GPU type")
        _refuse(
            gpu.gpu_type and not 1 <= gpu.count <= _GPUS[gpu.gpu_type], invalid, f"{gpu.count} GPUs are not possible"
        )
        for tag in request.tags:
            _refuse(not _TAG.fullmatch(tag.tag_name) or not _TAG.fullmatch(tag.tag_value), invalid, "Invalid tag")
        for mount in definition.volume_mounts:
            _refuse(mount.volume_id not in self._double.folders, Status.NOT_FOUND, "Volume not found")
        _refuse(len(self._double.living()) >= self._double.most, Status.RESOURCE_EXHAUSTED, "container limit reached")
        made = Container(request, self._double.folders, second=second)
        self._double.containers.append(made)
        await made.start()
        return made

    def _find(self, id: str, *, second: bool) -> Container:
        found = [each for each in self._double.containers if each.id == id and each.second == second]
        _refuse(not found, Status.NOT_FOUND, f"Sandbox {id} not found")
        return found[0]

    async def SandboxGetTaskId(self, stream: Any) -> None:
        found = self._find((await self._request(stream, "SandboxGetTaskId")).sandbox_id, second=False)
        task, found.looked = (found.task if found.looked else ""), True  # it is scheduled meanwhile
        await stream.send_message(api.SandboxGetTaskIdResponse(task_id=task))

    async def SandboxGetTaskIdV2(self, stream: Any) -> None:
        found = self._find((await self._request(stream, "SandboxGetTaskIdV2")).sandbox_id, second=True)
        await stream.send_message(api.SandboxGetTaskIdResponse(task_id=found.task))

    async def SandboxGetCommandRouterAccess(self, stream: Any) -> None:
        id = (await self._request(stream, "SandboxGetCommandRouterAccess")).sandbox_id
        found = self._find(id, second=True)
        _refuse(found.result is not None, Status.FAILED_PRECONDITION, f"Sandbox {id} has ended")
        access = self._access(found)
        await stream.send_message(api.SandboxGetCommandRouterAccessResponse(url=access.url, jwt=access.jwt))

    async def TaskGetCommandRouterAccess(self, stream: Any) -> None:
        task = (await self._request(stream, "TaskGetCommandRouterAccess")).task_id
        found = [each for each in self._double.living() if each.task == task and not each.second]
        _refuse(not found, Status.NOT_FOUND, f"Task {task} not found")
        access = self._access(found[0])
        await stream.send_message(api.TaskGetCommandRouterAccessResponse(url=access.url, jwt=access.jwt))

    async def SandboxWait(self, stream: Any) -> None:
        await self._wait(stream, "SandboxWait", second=False)

    async def SandboxWaitV2(self, stream: Any) -> None:
        await self._wait(stream, "SandboxWaitV2", second=True)

    async def _wait(self, stream: Any, name: str, *, second: bool) -> None:
        request = await self._request(stream, name)
        found = self._find(request.sandbox_id, second=second)
        _refuse(request.timeout, Status.INVALID_ARGUMENT, "the double only answers at once")
        await stream.send_message(api.SandboxWaitResponse(result=found.result))

    async def SandboxTerminate(self, stream: Any) -> None:
        await self._terminate(stream, "SandboxTerminate", second=False)

    async def SandboxTerminateV2(self, stream: Any) -> None:
        await self._terminate(stream, "SandboxTerminateV2", second=True)

    async def _terminate(self, stream: Any, name: str, *, second: bool) -> None:
        found = self._find((await self._request(stream, name)).sandbox_id, second=second)
        before = found.result
        await found.end(STATUS.GENERIC_STATUS_TERMINATED)
        await stream.send_message(api.SandboxTerminateResponse(existing_result=before))

    async def SandboxListV2(self, stream: Any) -> None:
        """Both kinds, the newest first, a page at a time."""
        request = await self._request(stream, "SandboxListV2")
        _refuse(not request.app_id and not request.environment_name, Status.INVALID_ARGUMENT, "app_id is missing")
        found = [
            each
            for each in reversed(self._double.living())
            if each.app == request.app_id
            and all(each.tags.get(tag.tag_name) == tag.tag_value for tag in request.tags)
            and (not request.before_timestamp or each.created < request.before_timestamp)
        ][:_PAGE]
        metadata: Callable[[Container], Any] = lambda each: api.SandboxHandleMetadata(app_id=each.app)  # noqa: E731
        infos = [api.SandboxInfo(id=each.id, created_at=each.created, metadata=metadata(each)) for each in found]
        await stream.send_message(api.SandboxListResponse(sandboxes=infos))


class Router(_servicer(router_grpc.TaskCommandRouterBase)):  # type: ignore[misc]
    """The calls of the machine that has a container."""

    def __init__(self, double: "ModalDouble") -> None:
        self._double = double

    def _container(self, stream: Any, task: str) -> Container:
        token = str(stream.metadata["authorization"]).removeprefix("Bearer ")
        _refuse(self._double.router_tokens[token] != task, Status.PERMISSION_DENIED, "the token is for another task")
        found = [each for each in self._double.living() if each.task == task]
        _refuse(not found, Status.NOT_FOUND, f"Task {task} not found")
        return found[0]

    async def TaskExecStart(self, stream: Any) -> None:
        request = await stream.recv_message()
        container = self._container(stream, request.task_id)
        _refuse(not request.command_args or not request.exec_id, Status.INVALID_ARGUMENT, "command or id is missing")
        _refuse(request.HasField("pty_info") or request.timeout_secs, Status.INVALID_ARGUMENT, "not in the double")
        piped = router.TASK_EXEC_STDOUT_CONFIG_PIPE
        _refuse(request.stdout_config != piped or request.stderr_config != piped, Status.INVALID_ARGUMENT, "no pipes")
        environment: dict[str, str] = {}
        for source in request.secret_sources:
            _refuse(source.WhichOneof("source") == "secret_id", Status.NOT_FOUND, "Secret not found")
            environment |= dict(source.env.contents)
        if self._double.without_python:
            environment["PATH"] = "/nowhere"
        await container.run(request.exec_id, list(request.command_args), environment, request.workdir)
        await stream.send_message(router.TaskExecStartResponse())

    def _exec(self, stream: Any, request: Any) -> Any:
        found = self._container(stream, request.task_id).execs.get(request.exec_id)
        _refuse(found is None, Status.NOT_FOUND, f"Exec {request.exec_id} not found")
        return found

    async def TaskExecStdinWrite(self, stream: Any) -> None:
        request = await stream.recv_message()
        program = self._exec(stream, request)
        _refuse(len(request.data) > _MOST_STDIN, Status.RESOURCE_EXHAUSTED, "the message is too large")
        _refuse(request.offset > program.received, Status.INVALID_ARGUMENT, "offset beyond received bytes")
        fresh = request.data[program.received - request.offset :]
        _refuse(fresh and program.closed, Status.FAILED_PRECONDITION, "stdin is closed")
        program.received += len(fresh)
        try:
            program.process.stdin.write(fresh)
            await program.process.stdin.drain()
        except ConnectionError:  # it has ended, or does not read
            pass
        if request.eof and not program.closed:
            program.closed = True
            program.process.stdin.close()
        await stream.send_message(router.TaskExecStdinWriteResponse())

    async def TaskExecStdioRead(self, stream: Any) -> None:
        request = await stream.recv_message()
        program = self._exec(stream, request)
        number = 1 if request.file_descriptor == router.TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDOUT else 2
        offset = request.offset
        _refuse(offset > len(program.said[number]), Status.INVALID_ARGUMENT, "offset beyond what was said")
        while True:
            async with program.news:
                while len(program.said[number]) <= offset and number not in program.ended:
                    await program.news.wait()
                data = bytes(program.said[number][offset : offset + (1 << 16)])
            if not data:
                if self._double.abrupt:  # what is read from a container that ended is not promised
                    self._container(stream, request.task_id)
                return
            await stream.send_message(router.TaskExecStdioReadResponse(data=data))
            offset += len(data)
