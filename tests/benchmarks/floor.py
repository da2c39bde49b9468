"""The least that a rollout can cost: requests by aiohttp, one bash over pipes, a JSON line."""

import asyncio
import functools
import json
import subprocess
import sys
import tempfile
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
from loopback import COMMANDS, REQUESTS


@functools.cache
def in_bwrap() -> tuple[str, ...]:
    """A command prefix for a new bubblewrap: namespaces, and no restriction besides; `{folder}` is what is writable.

    Without --as-pid-1 bwrap does not wait for what runs inside, whose CPU time would then be in no account.
    """
    # The harness's own choice of a bwrap, asked in another process: the floor loads nothing of the harness.
    find = "import os; from hermes_lab.sandbox.launch import find_bwrap; print(find_bwrap(os.environ.get('PATH', '')))"
    bwrap = subprocess.check_output([sys.executable, "-c", find], text=True).strip()
    isolation = "--unshare-all --as-pid-1 --die-with-parent --ro-bind / / --dev /dev --proc /proc"
    return (bwrap, *isolation.split(), "--bind", "{folder}", "{folder}")


async def bare(url: str, tasks: int, at_once: int, isolated: bool) -> None:
    """The task of the benchmarks without a harness: in a bare bash, or in one in a new bubblewrap."""
    wrap = in_bwrap() if isolated else ()
    slots = asyncio.Semaphore(at_once)
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as base:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=at_once)) as session:

            async def one(number: int) -> None:
                async with slots:
                    folder = Path(base) / str(number)
                    folder.mkdir()
                    lines.append(await _roll_out(session, url, folder, wrap))

            async with asyncio.TaskGroup() as group:
                for number in range(tasks):
                    group.create_task(one(number))
        (Path(base) / "log.jsonl").write_text("".join(lines))


async def _roll_out(session: aiohttp.ClientSession, url: str, folder: Path, wrap: Sequence[str]) -> str:
    command = [part.format(folder=folder) for part in wrap] + ["bash", "--norc"]
    bash = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, cwd=folder)
    assert bash.stdin is not None
    assert bash.stdout is not None
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for turn in range(REQUESTS):
        data = json.dumps({"model": "fake", "messages": messages}, separators=(",", ":"))
        async with session.post(f"{url}/chat/completions", data=data) as response:
            reply = json.loads(await response.read())
        messages.append(reply["choices"][0]["message"])
        if turn < len(COMMANDS):
            bash.stdin.write(f"{COMMANDS[turn]}; echo END $?\n".encode())
            output = await bash.stdout.readuntil(b"END 0\n")
            messages.append({"role": "tool", "content": output.decode()})
    bash.stdin.close()
    await bash.wait()
    return json.dumps(messages) + "\n"
