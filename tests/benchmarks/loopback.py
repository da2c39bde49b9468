"""A chat server in a process of its own that answers at once, or after a delay: the model of the benchmarks.

Its replies are the task of the benchmarks: three tool calls, then an answer. It counts assistant turns of the request
to know where a rollout is, so that it keeps no state.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

# Builtins of the shell alone, so that no child process of theirs is measured.
COMMANDS = ("echo hello > note.txt", 'read -r line < note.txt; echo "$line"', "[[ -s note.txt ]] && pwd")
TOOL_CALLS = len(COMMANDS)
REQUESTS = TOOL_CALLS + 1


def _replies(commands: Sequence[str]) -> list[bytes]:
    """The whole HTTP reply to the request of each turn."""
    replies = []
    for turn in range(REQUESTS):
        message: dict[str, object] = {"role": "assistant", "content": "Done."}
        if turn < TOOL_CALLS:
            arguments = json.dumps({"command": commands[turn]})
            call = {"id": f"c{turn}", "type": "function", "function": {"name": "terminal", "arguments": arguments}}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 200, "completion_tokens": 20}
        body = json.dumps({"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage}).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        replies.append(head.encode() + body)
    return replies


class _Connection(asyncio.Protocol):
    """HTTP/1.1 as far as one known client needs it: it must cost far less than what is measured."""

    replies: Sequence[bytes] = ()
    models = b'{"object":"list","data":[{"id":"fake"}]}'
    latency = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.data = b""

    def data_received(self, data: bytes) -> None:
        self.data += data
        head, found, body = self.data.partition(b"\r\n\r\n")
        if not found:
            return
        if head.startswith(b"GET"):
            length = len(self.models)
            self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (length, self.models))
            self.data = b""
            return
        _, _, rest = head.lower().partition(b"content-length:")
        if len(body) < int(rest.split(b"\r\n", 1)[0]):
            return
        self.data = b""
        reply = self.replies[body.count(b'"role":"assistant"')]
        asyncio.get_running_loop().call_later(self.latency, self.transport.write, reply)


async def _serve(latency: float, commands: Sequence[str]) -> None:
    _Connection.latency, _Connection.replies = latency, _replies(commands)
    server = await asyncio.get_running_loop().create_server(_Connection, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def serving(latency: float = 0.0, commands: Sequence[str] = COMMANDS) -> Iterator[str]:
    """The base URL of a running server."""
    process = subprocess.Popen([sys.executable, __file__, str(latency), *commands], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    asyncio.run(_serve(float(sys.argv[1]), sys.argv[2:]))
