"""The agent: call the model, run the tools it asks for, again, until it answers or a budget ends."""

import time
from collections.abc import Sequence

import anyio
import msgspec

from hermes_lab.agent.tokens import TokenTrace
from hermes_lab.config import AgentConfig
from hermes_lab.errors import ContextFull, ModelError
from hermes_lab.models.hermes_format import parse_reply, render_results
from hermes_lab.protocols import ModelClient
from hermes_lab.tools.registry import Toolbox
from hermes_lab.types import Generation, Message, Step, ToolResult, Trajectory, Usage
from hermes_lab.types.trajectory import StopReason

CONCLUDE = "The budget for tools is used up. Answer now, without tools."


class Agent:
    """One conversation with one model. `submit` may be called again: the conversation, and its budget, go on."""

    def __init__(self, model: ModelClient, toolbox: Toolbox, config: AgentConfig, messages: Sequence[Message]) -> None:
        self._model = model
        self._toolbox = toolbox
        self._config = config
        self._deadline = time.monotonic() + config.max_seconds
        self._trace = TokenTrace()
        self.messages = list(messages)
        self.steps: list[Step] = []
        self.usage = Usage()

    async def submit(self, prompt: str) -> StopReason:
        """Works on `prompt` until the model answers without a tool call, or a budget ends.

        Model and sandbox failures are raised as `InfraError`s; whatever the agent itself does wrong is an outcome. The
        clock ends running tools, but never a model call: a server that hangs is not the agent's failure.
        """
        self.messages.append(Message(role="user", content=prompt))
        try:
            return await self._work()
        except ContextFull as error:
            if not self.steps:
                raise ModelError(f"not even the first prompt fits the model: {error}") from None
            return "context_full"

    async def _work(self) -> StopReason:
        for _ in range(self._config.max_iterations):
            if time.monotonic() >= self._deadline:
                return "max_seconds"
            reply = await self._call_model()
            if not reply.message.tool_calls:
                return _how_it_ended(reply)
            if self.usage.prompt_tokens + self.usage.completion_tokens >= self._config.max_tokens:
                return "max_tokens"
            with anyio.move_on_after(self._deadline - time.monotonic()) as clock:
                self._append_results([await self._toolbox.run(call) for call in reply.message.tool_calls])
            if clock.cancelled_caught:
                return "max_seconds"
        self.messages.append(Message(role="user", content=CONCLUDE))
        await self._call_model()
        return "max_iterations"

    async def _call_model(self) -> Generation:
        native = self._config.tool_format == "native"
        started = time.monotonic()
        reply = await self._model.generate(self.messages, self._toolbox.schemas if native else ())
        if not native:
            reply = msgspec.structs.replace(reply, message=_read_calls(reply.message))
        self.messages.append(reply.message)
        self.steps.append(Step(len(self.messages) - 1, reply.finish_reason, reply.usage, time.monotonic() - started))
        self.usage += reply.usage
        self._trace.add(reply)
        return reply

    def _append_results(self, results: Sequence[ToolResult]) -> None:
        if self._config.tool_format == "native":
            self.messages += [
                Message(role="tool", content=r.content, results=(r,), tool_call_id=r.call_id) for r in results
            ]
        else:
            self.messages.append(Message(role="user", content=render_results(results), results=tuple(results)))

    def fork(self, toolbox: Toolbox, *, max_iterations: int) -> "Agent":
        """A new agent that continues a copy of this conversation, with a budget of its own."""
        config = self._config.model_copy(update={"max_iterations": max_iterations})
        return Agent(self._model, toolbox, config, self.messages)

    def trajectory(self, stop: StopReason, since: int = 0) -> Trajectory:
        """What happened so far; `since` leaves out the messages before that index."""
        last = self.messages[-1]
        concluded = stop in ("answered", "max_iterations") and last.role == "assistant" and not last.tool_calls
        return Trajectory(
            messages=tuple(self.messages[since:]),
            tools=self._toolbox.schemas,
            tool_format=self._config.tool_format,
            stop_reason=stop,
            steps=tuple(self.steps),
            branches=self._trace.branches(),
            usage=self.usage,
            final_response=last.content if concluded else None,
        )


def _how_it_ended(reply: Generation) -> StopReason:
    """A reply without tool calls is an answer only when it was not cut off and says something."""
    if reply.finish_reason == "length":
        return "length"
    return "answered" if reply.message.content.strip() else "empty"


def _read_calls(message: Message) -> Message:
    """The calls that stand in the text; the text itself stays as it was sampled."""
    _, reasoning, calls = parse_reply(message.content)
    return msgspec.structs.replace(message, tool_calls=calls, reasoning=reasoning or message.reasoning)
