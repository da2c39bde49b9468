"""The agent loop: call the model and run the requested tools until it answers or a budget ends."""

import json
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple, cast

import anyio
import msgspec

from hermes_lab.activity import Activity
from hermes_lab.agent.compress import Context, summary_in
from hermes_lab.agent.endings import final_response, stop_of
from hermes_lab.agent.repeats import Repeats
from hermes_lab.agent.tokens import TokenTrace
from hermes_lab.config.schema import AgentConfig, PriceConfig, RunConfig
from hermes_lab.errors import ContextFull, ModelError, NoRoomForReply, PromptTooLong
from hermes_lab.models.hermes_format import parse_reply, render_results
from hermes_lab.models.listener import Listener, answer_of
from hermes_lab.protocols import ModelClient, OnText, StreamingModel
from hermes_lab.tools.toolbox import Toolbox
from hermes_lab.transcript import CONCLUDE
from hermes_lab.types import Generation, Message, Recorded, Step, ToolCall, ToolResult, Trajectory, Usage
from hermes_lab.types.trajectory import Budget, StopReason, ToolFormat

_NOT_RUN = "not run: the budget is used up"
REPLAY_LOG = logging.getLogger("hermes_lab.replay")
"""Logs tool results that differ from the recorded ones during a replay."""


class Summariser(NamedTuple):
    """The model that writes summaries, and its price."""

    model: ModelClient
    price: PriceConfig


class Agent:
    """One conversation with one model. Repeated calls of `submit` continue it under the same budget.

    `messages` is the full conversation; `context` is the part that the model sees after compression by `summariser`.
    `cost` is the cost of all model calls at `model.price`. A child's spending also counts towards the budget of its
    `parent`; the parent's budget limits both. `activity` records what the agent is waiting for, and `activity.turn`
    counts the replies. With `on_text`, replies are streamed if the model can, else sent as one piece. Children and
    forks do not stream.
    """

    def __init__(
        self,
        model: ModelClient,
        toolbox: Toolbox,
        config: AgentConfig,
        messages: Sequence[Message],
        price: PriceConfig | None = None,
        parent: "Agent | None" = None,
        summariser: Summariser | None = None,
        activity: Activity | None = None,
        on_text: OnText | None = None,
    ) -> None:
        self._model = model
        self._toolbox = toolbox
        self._config = config
        self._price = price or PriceConfig()
        self._parent = parent
        self._on_text = on_text
        self._summariser = summariser or Summariser(model, self._price)
        self._deadline = time.monotonic() + config.max_seconds
        self._trace = TokenTrace()
        self.messages = list(messages)
        self.activity = activity or Activity()
        self.activity.messages = self.messages
        self.context = Context(self.messages, config)
        self.steps: list[Step] = []
        self.usage = Usage()
        self.cost = 0.0
        self._unenforced = ""

    async def submit(self, prompt: str) -> StopReason:
        """Works on `prompt` until the model answers without a tool call, or a budget ends.

        When a budget ends or calls repeat too often, the model gets one grace call to conclude. Model and sandbox
        failures raise `InfraError`; the agent's own mistakes are outcomes. The time limit stops running tools but never
        a model call: a hanging server is not the agent's failure.
        """
        self.messages.append(Message(role="user", content=prompt))
        try:
            stop = await self._work()
            if isinstance(stop, Generation):
                return stop_of(stop.message.content, stop.finish_reason, self._tool_names())
            self.messages.append(Message(role="user", content=CONCLUDE))
            last = await self._call_model()
            if calls := last.message.tool_calls:  # servers reject a conversation in which a call has no result
                self._answer([_unanswered(call, _NOT_RUN) for call in calls])
            return stop
        except ContextFull as error:
            self._undo_loads()
            if not self.steps and self._parent is None:  # a child's first prompt was written by its parent
                is_reply = isinstance(error, NoRoomForReply)
                raise PromptTooLong(str(error) if is_reply else f"the prompt does not fit the model: {error}") from None
            return "context_full"

    async def _work(self) -> Generation | StopReason:
        """Returns the final reply (without tool calls), or the reason why work stopped before it."""
        repeats = Repeats(self._config)
        for _ in range(self._config.max_iterations):
            if spent := self._exhausted_budget():
                return spent
            reply = await self._call_model()
            if not (calls := reply.message.tool_calls):
                return reply
            if spent := self._exhausted_budget():
                self._answer([_unanswered(call, _NOT_RUN) for call in calls])
                return spent
            self._answer(await self._run_tools(calls, reply.then, repeats))
            if reply.then and reply.then.spent:
                return cast(StopReason, reply.then.spent)
            if repeats.reached and reply.then is None:  # a replay stops where the recording did
                return "repeated"
        return "max_iterations"

    def _exhausted_budget(self) -> Budget | None:
        if time.monotonic() >= self._deadline:
            return "max_seconds"
        if self.usage.prompt_tokens + self.usage.completion_tokens >= self._config.max_tokens:
            return "max_tokens"
        if self._config.max_cost and self.cost >= self._config.max_cost:
            return "max_cost"
        return self._parent._exhausted_budget() if self._parent else None

    def _spend(self, usage: Usage, price: PriceConfig) -> None:
        """Counts the tokens of a model call.

        Raises `ModelError` once a limit cannot be enforced: a tool may have turned an earlier error into its result.
        """
        self.usage += usage
        self.cost += cost_of(usage, price)
        self._unenforced = self._unenforced or unenforced_limit(usage, price, self._config)
        if self._parent:
            self._parent._spend(usage, price)
        if self._unenforced:
            raise ModelError(self._unenforced)

    async def _run_tools(
        self, calls: Sequence[ToolCall], then: Recorded | None, repeats: Repeats
    ) -> Sequence[ToolResult]:
        """Runs the calls and returns their results; for a recorded reply, the recorded results.

        A replay must not depend on the clock, races or the machine, so differing live results are only logged.
        """
        if then is None or len(then.answers) != len(calls):
            return repeats.count(calls, await self._run_live(calls))
        executed = any(answer.executed for answer in then.answers)
        answers = repeats.count(calls, await self._run_again(calls, then.answers) if executed else then.answers)
        if executed:
            for was, now in zip(then.answers, answers, strict=True):
                if was.content != now.content:
                    REPLAY_LOG.info("%s answered %.200s and now %.200s", was.name, was.content, now.content)
        return then.answers

    async def _run_again(self, calls: Sequence[ToolCall], answers: Sequence[ToolResult]) -> Sequence[ToolResult]:
        """Runs the calls of a recording, except for those that MCP servers answered: what they do may reach outside of
        the sandbox."""
        own = [number for number, call in enumerate(calls) if not self._toolbox.is_served(call.name)]
        live = dict(zip(own, await self._run_live([calls[number] for number in own]) if own else (), strict=True))
        return [live.get(number, answer) for number, answer in enumerate(answers)]

    async def _run_live(self, calls: Sequence[ToolCall]) -> Sequence[ToolResult]:
        self.activity.wait_for("command")
        with anyio.move_on_after(self._deadline - time.monotonic()):
            return await self._toolbox.run_all(calls)
        return [_unanswered(call, "stopped: the time limit was reached", executed=True) for call in calls]

    async def _call_model(self) -> Generation:
        self.activity.turn = len(self.steps) + 1
        self.activity.wait_for("model")
        if self.context.is_large():
            await self.compress()
        try:
            return await self._generate()
        except ContextFull:
            if not await self.compress():
                raise
            return await self._generate()

    async def _generate(self) -> Generation:
        started = time.monotonic()
        reply = await self._told(self._on_text) if self._on_text else await self._reply(self._model.generate)
        self.messages.append(reply.message)
        seconds = time.monotonic() - started
        self.steps.append(Step(len(self.messages) - 1, reply.finish_reason, reply.usage, seconds, reply.retries))
        self._spend(reply.usage, self._price)
        self.context.record_usage(reply.usage)
        self._trace.add(reply)
        return reply

    async def _told(self, on_text: OnText) -> Generation:
        """Generates a reply, streaming it if the model can."""
        listener = Listener(on_text)
        model = self._model
        try:
            if isinstance(model, StreamingModel):
                reply = await self._reply(partial(model.stream, on_text=listener.tell))
            else:
                reply = await self._reply(model.generate)
        except ContextFull:  # the model may be asked again with a shorter conversation
            listener.restart()
            raise
        message = reply.message
        if self._config.tool_format == "hermes" and message.tool_calls:
            answer = parse_reply(message.content, self._tool_names()).content
        else:
            answer = answer_of(message.content, self.messages)
        listener.settle(answer, message.reasoning)
        return reply

    async def _reply(self, ask: Callable[..., Awaitable[Generation]]) -> Generation:
        if self._config.tool_format == "native":
            return await ask(self.context.visible(), self._toolbox.schemas)
        reply = await ask(self.context.visible(), ())
        return msgspec.structs.replace(reply, message=self._with_calls(reply.message))

    def _with_calls(self, message: Message) -> Message:
        """Parses the calls in the text. The content stays as sampled."""
        _, reasoning, calls = parse_reply(message.content, self._tool_names())
        return msgspec.structs.replace(message, tool_calls=calls, reasoning=reasoning or message.reasoning)

    def _tool_names(self) -> list[str]:
        return [schema["function"]["name"] for schema in self._toolbox.schemas]

    async def compress(self, target: int = 0) -> bool:
        """Summarises the middle turns. Returns False, with nothing changed, if there is no gain or no summary. See
        `Context.compress`."""
        done, used = await self.context.compress(self._summariser.model, target)
        self._spend(used, self._summariser.price)
        return done

    async def summarise(self, request: Sequence[Message]) -> str:
        """The summarising model's answer to `request`, "" if it is none. Its tokens count for this agent.

        Raises `ModelError` and `ContextFull` as a model does.
        """
        reply = await self._summariser.model.generate(request, ())
        self._spend(reply.usage, self._summariser.price)
        return summary_in(reply)

    def _answer(self, results: Sequence[ToolResult]) -> None:
        if skills := self._toolbox.context.skills:
            skills.confirm_loads(results)
        self.messages += result_messages(results, self._config.tool_format)

    def _undo_loads(self) -> None:
        """Unmarks skills loaded by the last calls, since their results did not fit the context."""
        if skills := self._toolbox.context.skills:
            last = max((n for n, message in enumerate(self.messages) if message.role == "assistant"), default=-1)
            skills.take_back(result for message in self.messages[last + 1 :] for result in message.results)

    def fork(self, toolbox: Toolbox, *, max_iterations: int, model: ModelClient | None = None) -> "Agent":
        """A new agent that continues a copy of this conversation under its own budget, with `model` or the same one."""
        config = self._config.model_copy(update={"max_iterations": max_iterations})
        fork = Agent(model or self._model, toolbox, config, self.messages, self._price, summariser=self._summariser)
        fork.context.compressions += self.context.compressions
        return fork

    def trajectory(self, stop: StopReason, since: int = 0) -> Trajectory:
        """The conversation so far, from message index `since` on."""
        return Trajectory(
            messages=tuple(self.messages[since:]),
            tools=self._toolbox.schemas,
            tool_format=self._config.tool_format,
            stop_reason=stop,
            steps=tuple(self.steps),
            branches=self._trace.branches(),
            usage=self.usage,
            final_response=final_response(self.messages, self.steps, stop, self._tool_names()),
            compressions=tuple(self.context.compressions),
        )


def summariser_of(config: RunConfig, auxiliary: ModelClient | None) -> Summariser | None:
    """The run's `auxiliary` model and its price, if there is one."""
    return Summariser(auxiliary, config.auxiliary.price) if auxiliary and config.auxiliary else None


def unenforced_limit(usage: Usage, price: PriceConfig, config: AgentConfig) -> str:
    """Says which configured limit cannot be enforced, as the server did not report the tokens of a call: it might never
    end anything. "" if there is none; the default of `agent.max_tokens` is no such limit, and tokens without a price
    cost nothing."""
    limit = "agent.max_cost" if config.max_cost and price != PriceConfig() else ""
    if config.max_tokens != AgentConfig.model_fields["max_tokens"].default:
        limit = "agent.max_tokens"
    if not (usage.uncounted and limit):
        return ""
    return (
        f"the reply has no `usage` with its prompt's tokens, so {limit} cannot be enforced: have the endpoint "
        f"report usage, or remove {limit}"
    )


def cost_of(usage: Usage, price: PriceConfig) -> float:
    """The cost of the tokens. Prices are per million tokens; cached prompt tokens use their own price if one is set."""
    cached = price.prompt if price.cached is None else price.cached
    written = price.prompt if price.cache_write is None else price.cache_write
    plain = max(usage.prompt_tokens - usage.cached_tokens - usage.cache_write_tokens, 0)
    prompt = plain * price.prompt + usage.cached_tokens * cached + usage.cache_write_tokens * written
    return (prompt + usage.completion_tokens * price.completion) / 1e6


def result_messages(results: Sequence[ToolResult], tool_format: ToolFormat) -> list[Message]:
    """The messages that carry tool results: one per result, or a single one in the Hermes text format."""
    if tool_format == "hermes":
        return [Message(role="user", content=render_results(results), results=tuple(results))]
    return [Message(role="tool", content=r.content, results=(r,), tool_call_id=r.call_id) for r in results]


def _unanswered(call: ToolCall, why: str, *, executed: bool = False) -> ToolResult:
    return ToolResult(call.id, call.name, json.dumps({"error": why}), ok=False, executed=executed)
