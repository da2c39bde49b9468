"""A test double of Modal, which needs an account: the service as `modal` 1.6.4 speaks with it, on a port here.

Containers are processes here (`modal_container`), and images and GPUs are only names. What it refuses, and why:

- every request without the client's headers, with another version of the client, or with an unknown token
  (modal-labs/modal-client, py/test/conftest.py: `MockClientServicer.recv_request`); those of the second kind of sandbox
  without the short-lived token of AuthTokenGet, and programs without the router's token for that very task
  (sandbox/_impl_v2.py and sandbox/_task_command_router_client.py of the SDK)
- calls that it does not have: UNIMPLEMENTED, as gRPC does; fields of a definition that it does not have
- unknown ids: NOT_FOUND; a task that has ended is unknown to its router (ibid., `exec_wait`)
- sandboxes without an app, an image that was built, or a lifetime of 1 second to 24 hours; unknown types and numbers of
  GPUs (modal.com/docs/guide/gpu), and GPUs in the second kind of sandbox (sandbox/_impl_v2.py); less than 128 MiB; tags
  that `check_tag_dict` of the SDK does not allow; more containers than the account may have: RESOURCE_EXHAUSTED
- volumes that do not exist, unless they are to be created; images that the registry does not have: the build fails
- stdin beyond what it has: INVALID_ARGUMENT; stdin that it has is skipped, so that a request may come twice; more than
  16 MiB in a request (TASK_COMMAND_ROUTER_MAX_BUFFER_SIZE of the SDK)

Not kept: the limits of memory and CPU.
"""

import asyncio
import tempfile
import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from grpclib import GRPCError, Status
from grpclib.events import RecvRequest, listen
from grpclib.server import Server
from modal._utils.grpc_utils import custom_detail_codec
from modal_proto import api_pb2 as api
from modal_version import __version__

from fakes.modal_calls import Router, Service
from fakes.modal_container import STATUS, Container, new_id

TOKEN = ("ak-test", "as-secret")
_HEADERS = ("x-modal-python-version", "x-modal-client-version", "x-modal-client-type")


class _Connections(Server):
    """A server whose connections can be cut."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._protocols: list[Any] = []

    def _protocol_factory(self) -> Any:
        self._protocols.append(super()._protocol_factory())
        return self._protocols[-1]

    def cut(self) -> None:
        for protocol in self._protocols:
            transport = getattr(getattr(protocol, "connection", None), "_transport", None)
            if transport is not None:  # else it is closed
                transport.abort()
        self._protocols.clear()


class ModalDouble:
    """The double, in a thread of its own. `requests` are those that it took, `containers` all that it ever had."""

    def __init__(self, folder: Path) -> None:
        self.requests: list[tuple[str, Any]] = []
        self.containers: list[Container] = []
        self.registry = {"python:3.11-slim"}
        self.volumes: dict[str, str] = {}
        self.folders: dict[str, Path] = {}
        self.most = 1000
        self.answers_after = 0.0  # seconds from a new sandbox to the answer that tells of it
        self.without_python = False
        self.abrupt = False  # whether the streams of a container that ends break
        self.failures: dict[str, GRPCError] = {}
        self.url = ""
        self.apps: dict[tuple[str, str], str] = {}
        self.images: dict[str, tuple[str, bool]] = {}
        self.tokens: set[str] = set()
        self.router_tokens: dict[str, str] = {}
        self.router_url = ""
        self._folder = folder
        self._loop = asyncio.new_event_loop()

    def environment(self) -> Mapping[str, str]:
        """The variables of a client."""
        return {
            "MODAL_SERVER_URL": self.url,
            "MODAL_TOKEN_ID": TOKEN[0],
            "MODAL_TOKEN_SECRET": TOKEN[1],
            "MODAL_CONFIG_PATH": "/nonexistent/modal.toml",
        }

    def make_volume(self, name: str) -> Path:
        """The folder of a new volume."""
        id = self.volumes[name] = new_id("vo")
        self.folders[id] = Path(tempfile.mkdtemp(prefix="volume-", dir=self._folder))
        return self.folders[id]

    def living(self) -> list[Container]:
        return [each for each in self.containers if each.result is None]

    def end(self, container: Container, status: Any) -> None:
        self.call(container.end(status, 1))

    def reset(self) -> None:
        """Ends all containers, and forgets what was asked for and what was to fail."""
        for container in self.living():
            self.end(container, STATUS.GENERIC_STATUS_TERMINATED)
        self.requests.clear()
        self.containers.clear()
        self.failures.clear()
        self.most, self.answers_after, self.without_python, self.abrupt = 1000, 0.0, False, False

    def cut_connections(self) -> None:
        """Cuts all connections to programs; new ones are accepted."""
        self._loop.call_soon_threadsafe(self._routers.cut)

    def call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def start(self) -> None:
        self._server = _Connections([Service(self)], status_details_codec=custom_detail_codec)
        self._routers = _Connections([Router(self)], status_details_codec=custom_detail_codec)
        urls = []
        for server in (self._server, self._routers):
            listen(server, RecvRequest, self._check)
            await server.start("127.0.0.1", 0)
            assert server._server is not None
            urls.append(f"http://127.0.0.1:{server._server.sockets[0].getsockname()[1]}")
        self.url, self.router_url = urls

    async def stop(self) -> None:
        for container in self.living():
            await container.end(STATUS.GENERIC_STATUS_TERMINATED)
        for server in (self._server, self._routers):
            server.cut()
            server.close()
        await asyncio.sleep(0)
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _check(self, event: RecvRequest) -> None:
        name = event.method_name.rpartition("/")[2]
        headers = event.metadata
        if failure := self.failures.get(name):
            raise failure
        if "TaskCommandRouter" in event.method_name:
            if str(headers.get("authorization", "")).removeprefix("Bearer ") not in self.router_tokens:
                raise GRPCError(Status.UNAUTHENTICATED, "unknown router token")
            return
        for header in _HEADERS:
            if header not in headers:
                raise GRPCError(Status.FAILED_PRECONDITION, f"Missing {header} header")
        if headers["x-modal-client-version"] != __version__:
            raise GRPCError(Status.FAILED_PRECONDITION, "Old client")
        if headers["x-modal-client-type"] != str(api.CLIENT_TYPE_CLIENT):
            raise GRPCError(Status.FAILED_PRECONDITION, "Unknown client type")
        token = (headers.get("x-modal-token-id"), headers.get("x-modal-token-secret"))
        if token != TOKEN:
            raise GRPCError(Status.UNAUTHENTICATED, "Token ID or secret is wrong")
        if name.endswith("V2") and headers.get("x-modal-auth-token") not in self.tokens:
            raise GRPCError(Status.UNAUTHENTICATED, "x-modal-auth-token is missing or unknown")


@contextmanager
def running_modal() -> Iterator[ModalDouble]:
    """Runs the double."""
    with tempfile.TemporaryDirectory(prefix="modal-") as folder:
        double = ModalDouble(Path(folder))
        thread = threading.Thread(target=double._loop.run_forever, name="modal double")
        thread.start()
        try:
            double.call(double.start())
            yield double
        finally:
            double.call(double.stop())
            double._loop.call_soon_threadsafe(double._loop.stop)
            thread.join()
            double._loop.close()
