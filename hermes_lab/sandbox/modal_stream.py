"""A program in a container at Modal, by its stdin and stdout."""

from contextlib import suppress
from typing import Any

import anyio

_CHUNK = 1 << 20  # of stdin, in one request; Modal takes 16 MiB
_SEND_SECONDS = 120.0
_KEPT_ERRORS = 1 << 14
_ASK_SECONDS = 5.0
_TIMED_OUT, _TERMINATED = 124, 137  # the SDK's exit codes of such sandboxes


def said(error: BaseException) -> str:
    """What an error says, in one line."""
    return " ".join(str(error).split()) or type(error).__name__


class ModalStream:
    """See `ByteStream`. The SDK itself resumes a stream whose connection was cut, at the byte where it was: nothing is
    lost or sent twice. If it cannot, the stream has ended for good."""

    def __init__(self, sandbox: Any, process: Any, max_seconds: int) -> None:
        self._sandbox = sandbox
        self._process = process
        self._output = process.stdout.__aiter__()
        self._max_seconds = max_seconds
        self._stderr = ""
        self._broken = ""

    async def send(self, data: bytes) -> None:
        """See `ByteStream.send`. Once begun, it is not cancelled: the worker would get half a frame."""
        if self._broken:
            raise OSError(self._broken)
        view = memoryview(data)
        try:
            with anyio.CancelScope(shield=True):
                while view:
                    self._process.stdin.write(bytes(view[:_CHUNK]))
                    with anyio.fail_after(_SEND_SECONDS):
                        await self._process.stdin.drain.aio()
                    view = view[_CHUNK:]
        except TimeoutError:
            self._broken = f"no answer within {_SEND_SECONDS:g} seconds"
        except Exception as error:  # the SDK's own, and those of its transport
            self._broken = await self._ended() or said(error)
        if self._broken:
            raise OSError(self._broken)

    async def receive(self) -> bytes:
        """See `ByteStream.receive`."""
        try:
            data: bytes = await anext(self._output)
            return data
        except StopAsyncIteration:
            why = await self._ended()
            with suppress(Exception), anyio.move_on_after(1):
                self._stderr = (await self._process.stderr.read.aio())[-_KEPT_ERRORS:].decode(errors="replace")
        except Exception as error:  # the SDK's own, and those of its transport
            why = await self._ended() or said(error)
        if why:
            raise OSError(why)
        return b""

    async def _ended(self) -> str:
        """Why the container has ended, if it has."""
        code = None
        with suppress(Exception), anyio.move_on_after(_ASK_SECONDS):
            code = await self._sandbox.poll.aio()
        match code:
            case None:
                return ""
            case _ if code == _TIMED_OUT:
                return f"the container's time is over (sandbox.modal.max_seconds={self._max_seconds})"
            case _ if code == _TERMINATED:
                return "the container was ended: by Modal, for its memory, or by somebody else"
        return f"the container ended with exit code {code}"

    def errors(self) -> str:
        """See `ByteStream.errors`."""
        return self._stderr

    async def aclose(self) -> None:
        """See `ByteStream.aclose`. The worker ends with its container."""
