"""Step-by-step control of `run_episode`: the holder of a `SteppedRollout` acts as the model, one turn at a time."""

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from hermes_lab.config.schema import RunConfig
from hermes_lab.contexts import open_contexts
from hermes_lab.knowledge import Knowledge
from hermes_lab.models.weights import silent
from hermes_lab.protocols import Suite
from hermes_lab.rollout import RolloutSpec, run_episode
from hermes_lab.types import Episode, Generation, Message, ModelIdentity, Task

T = TypeVar("T")
Turn = tuple[Message, ...]


class SteppedModel:
    """A `ModelClient` that exposes every prompt and waits for the reply."""

    def __init__(self) -> None:
        self.identity = ModelIdentity(provider="env", name="env")
        self.prompts: asyncio.Queue[Turn] = asyncio.Queue()
        self.replies: asyncio.Queue[str] = asyncio.Queue()

    async def generate(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Generation:
        """Exposes the prompt; returns the reply passed to `SteppedRollout.act`."""
        del tools
        await self.prompts.put(tuple(messages))
        return Generation(Message(role="assistant", content=await self.replies.get()))

    async def aclose(self) -> None:
        """Nothing to close."""


class LoopThread:
    """An event loop in a thread, for synchronous callers. Its threads never keep the interpreter alive."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs `work` on the loop and waits for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """Stops the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class SteppedRollout:
    """One rollout, controlled from outside. All methods must run on the event loop in which it was created."""

    def __init__(self, config: RunConfig, suite: Suite, task: Task, knowledge: Knowledge) -> None:
        self._model = SteppedModel()
        self._task = asyncio.create_task(self._run(config, suite, task, knowledge))

    async def _run(self, config: RunConfig, suite: Suite, task: Task, knowledge: Knowledge) -> Episode:
        spec = RolloutSpec(task, lane="env", round=0, sample=0, experience=0, place=0, review="never")
        async with open_contexts(config, suite, [self._model], say=silent, warn=silent) as (context,):
            return await run_episode(context, spec, knowledge)

    @classmethod
    async def begin(cls, config: RunConfig, suite: Suite, task: Task, knowledge: Knowledge) -> "SteppedRollout":
        """Starts the rollout; `turn` waits for its first prompt."""
        return cls(config, suite, task, knowledge)

    async def turn(self) -> Turn | Episode:
        """The conversation that waits for a reply, or the finished episode."""
        prompt = asyncio.create_task(self._model.prompts.get())
        try:
            await asyncio.wait({prompt, self._task}, return_when=asyncio.FIRST_COMPLETED)
            return prompt.result() if prompt.done() else self._task.result()
        finally:
            prompt.cancel()

    async def act(self, reply: str) -> Turn | Episode:
        """Sends the assistant's turn, and waits for the next turn or the end."""
        await self._model.replies.put(reply)
        return await self.turn()

    async def aclose(self) -> None:
        """Cancels the rollout and closes its sandbox."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
