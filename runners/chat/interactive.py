"""An interactive chat on a terminal."""

import asyncio
import signal

import anyio

from hermes_lab.chat.live import LiveChat
from hermes_lab.chat.notices import Notices
from hermes_lab.commands.talk import Talk
from hermes_lab.errors import SandboxError
from hermes_lab.runners.chat.screen import Screen

_WATCH_SECONDS = 1.0


async def interact(chat: LiveChat, screen: Screen, notices: Notices) -> int:
    """Reads and works until the user leaves; returns the exit code."""
    talk = Talk(chat, screen)
    terminated = False
    screen.on_interrupt = talk.interrupt

    async def read() -> None:
        try:
            while True:
                await talk.typed(await screen.read())
        except EOFError:
            group.cancel_scope.cancel()

    async def work() -> None:
        await talk.work()
        group.cancel_scope.cancel()

    async def watch() -> None:
        while True:
            await anyio.sleep(_WATCH_SECONDS)
            if talk.working_seconds is not None:
                continue
            try:
                for notice in await notices.new(chat.context):
                    screen.note(notice)
            except SandboxError as error:
                screen.note(f"background commands cannot be followed: {error}")
                return

    def terminate() -> None:
        nonlocal terminated
        terminated = True
        group.cancel_scope.cancel()

    loop = asyncio.get_running_loop()
    ending = (signal.SIGTERM, signal.SIGHUP)  # the latter if the terminal is closed
    before = {number: signal.getsignal(number) for number in ending}
    for number in ending:
        loop.add_signal_handler(number, terminate)
    loop.add_signal_handler(signal.SIGINT, screen.interrupt)
    try:
        with screen.shown(lambda line: talk.registry.complete(line, talk.context)):
            async with anyio.create_task_group() as group:
                for task in (read, work, watch, screen.tick):
                    group.start_soon(task)
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
    return 130 if terminated else 0
