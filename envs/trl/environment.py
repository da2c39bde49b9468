"""An `environment_factory` for TRL's GRPO trainer: the agent's tools in our sandbox, scored by the verifier."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from hermes_lab.config.schema import RunConfig
from hermes_lab.envs.knowledge import TaskKnowledge
from hermes_lab.envs.stepwise import LoopThread, SteppedRollout
from hermes_lab.envs.trl.rollout import suite_tasks
from hermes_lab.errors import ConfigError, HermesLabError
from hermes_lab.harness.check import check_own_loop
from hermes_lab.models.hermes_format import render_calls
from hermes_lab.protocols import Suite
from hermes_lab.skills.library import Library
from hermes_lab.suites import JudgedSuite, SessionSuite
from hermes_lab.tasks import load_suite
from hermes_lab.tools.registry import known_tools
from hermes_lab.tools.toolbox import check_toolsets
from hermes_lab.types import Episode, Message, Task, ToolCall

_OVER = '{"error": "not run: the episode is over"}'
_SCALARS: Mapping[str, Any] = {"string": str, "integer": int, "number": float, "boolean": bool, "object": dict}
_RESERVED = ("reset", "get_reward")


def make_environment(config: RunConfig, *, library: Library | None = None) -> type:
    """A class for `environment_factory` whose public methods are the tools of `config.agent`.

    TRL samples the turns itself and passes only tool calls to an environment, one at a time. The final answer's text is
    therefore unknown; verifiers get "Done.". Raises `ConfigError` if tasks have their own tools or are graded
    by a model.
    """
    check_own_loop(config, "an environment with single steps")
    agent = config.agent.model_copy(update={"tool_format": "hermes"})
    config = config.model_copy(update={"agent": agent})
    suite = load_suite(config.suite, config.sandbox)
    if isinstance(suite, SessionSuite):
        raise ConfigError(
            f"suite.name: tasks of {suite.name} have their own tools, which a class cannot offer; use make_rollout_func"
        )
    tasks = suite_tasks(config)
    _refuse_rubrics(suite, tasks.values())
    schemas = _schemas(config)
    if taken := [schema["name"] for schema in schemas if schema["name"] in _RESERVED]:
        raise ConfigError(f"agent.toolsets: TRL calls {taken[0]} itself; disable that tool")
    shared = {
        "_config": config,
        "_suite": suite,
        "_tasks": tasks,
        "_knowledge": TaskKnowledge(config, suite, library),
        "_loop": LoopThread(),
    }
    tools = {schema["name"]: _method(schema) for schema in schemas}
    return type("HermesLabEnvironment", (_Environment,), {"__doc__": _Environment.__doc__, **shared, **tools})


def environment_rows(config: RunConfig, *, library: Library | None = None) -> list[dict[str, Any]]:
    """One row per task, for `datasets.Dataset.from_list`: the system prompt, and a user turn to which `reset` adds the
    task. Tools are rendered by TRL's chat template."""
    check_own_loop(config, "an environment with single steps")
    agent = config.agent.model_copy(update={"tool_format": "native"})
    config = config.model_copy(update={"agent": agent})
    suite = load_suite(config.suite, config.sandbox)
    knowledge, loop = TaskKnowledge(config, suite, library), LoopThread()

    async def system_prompt(task: Task) -> str:
        """The system prompt of a rollout, which is closed before its first turn."""
        rollout = await SteppedRollout.begin(config, suite, task, knowledge.of(task))
        try:
            turn = await rollout.turn()
        finally:
            await rollout.aclose()
        if isinstance(turn, Episode):
            raise HermesLabError(f"{task.id}: {turn.error.message if turn.error else 'could not begin'}")
        return turn[0].content

    rows = []
    for task in suite_tasks(config).values():
        turns = [
            {"role": "system", "content": loop.call(system_prompt(task))},
            {"role": "user", "content": ""},
        ]
        rows.append({"prompt": turns, "task_id": task.id})
    loop.close()
    return rows


class _Environment:
    """One task at a time in a fresh sandbox; TRL creates one per completion of a batch and reuses it."""

    _config: RunConfig
    _suite: Any
    _tasks: dict[str, Any]
    _knowledge: TaskKnowledge
    _loop: LoopThread

    def __init__(self) -> None:
        self._rollout: SteppedRollout | None = None
        self._episode: Episode | None = None

    def reset(self, task_id: str = "", **_: Any) -> str:
        """Begins the task of a row, and gives its prompt."""
        if task_id not in self._tasks:
            raise ConfigError(
                f"task_id: no task {task_id!r} in this configuration; make the rows with environment_rows of the same"
            )
        if self._rollout is not None:
            self._loop.call(self._rollout.aclose())
        self._episode = None
        task = self._tasks[task_id]
        knowledge = self._knowledge.of(task)
        self._rollout = self._loop.call(SteppedRollout.begin(self._config, self._suite, task, knowledge))
        turn = self._loop.call(self._rollout.turn())
        if isinstance(turn, Episode):
            self._episode = turn
            return str(task.prompt)
        return turn[-1].content

    def get_reward(self) -> float | None:
        """Submits the work and gives the episode's reward; None, which TRL leaves out, where the sandbox failed."""
        while self._episode is None:
            self._act("Done.")
        return self._episode.reward.value if self._episode.reward else None

    def _call(self, name: str, arguments: dict[str, Any]) -> str:
        if self._episode is not None:
            return _OVER
        turns = self._act(render_calls("", [ToolCall("call_0", name, arguments)]))
        results = next((turn.results for turn in reversed(turns) if turn.results), ())
        return results[-1].content if results else _OVER

    def _act(self, reply: str) -> tuple[Message, ...]:
        if self._rollout is None:
            raise ConfigError("environment: call reset first")
        turn = self._loop.call(self._rollout.act(reply))
        if isinstance(turn, Episode):
            self._episode, self._rollout = turn, None
            return turn.trajectory.messages if turn.trajectory else ()
        return turn


def _refuse_rubrics(suite: Suite, tasks: Iterable[Task]) -> None:
    """A judge would grade "Done." instead of the answer."""
    if not isinstance(suite, JudgedSuite):
        return
    if judged := next((task for task in tasks if suite.judge_rubric(task)), None):
        raise ConfigError(
            f"suite: task {judged.id} is graded by a model, and TRL passes no answer to an environment; "
            "use make_rollout_func"
        )


def _schemas(config: RunConfig) -> list[dict[str, Any]]:
    agent = config.agent
    if agent.distribution:
        raise ConfigError("agent.distribution: a class has the same tools for every task; use agent.toolsets")
    names = check_toolsets(agent.toolsets, agent.disabled_tools)
    if "delegate_task" in names:
        raise ConfigError(
            "agent.toolsets: delegate_task is not supported in an environment with a single actor; disable it"
        )
    known = known_tools()
    return [known[name].beside(names, agent.prompt).schema["function"] for name in sorted(names)]


def _method(schema: Mapping[str, Any]) -> Callable[..., str]:
    """A method with a signature and docstring from which TRL regenerates `schema`."""
    properties = schema["parameters"].get("properties", {})
    required = schema["parameters"].get("required", ())
    name = schema["name"]

    def method(self: _Environment, **arguments: Any) -> str:
        return self._call(name, arguments)

    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [
        inspect.Parameter(
            key,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=_hint(value),
            default=inspect.Parameter.empty if key in required else value.get("default"),
        )
        for key, value in sorted(properties.items(), key=lambda item: item[0] not in required)
    ]
    method.__name__ = method.__qualname__ = name
    # No return type: it would appear in every prompt, unlike in our own.
    method.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    method.__signature__ = inspect.Signature([own, *parameters])  # type: ignore[attr-defined]
    method.__doc__ = _docstring(schema["description"], properties)
    return method


def _docstring(description: str, properties: Mapping[str, Any]) -> str:
    """A Google-style docstring, one line per argument; each needs a description."""
    lines = [" ".join(description.split())]
    if properties:
        described = {key: value.get("description") or f"The {key}." for key, value in properties.items()}
        lines += ["", "Args:", *(f"    {key}: {' '.join(text.split())}" for key, text in described.items())]
    return "\n".join(lines)


def _hint(schema: Mapping[str, Any]) -> Any:
    if "enum" in schema:
        return Literal[tuple(schema["enum"])]
    if schema.get("type") == "array":
        return list[_hint(schema.get("items", {}))]  # type: ignore[misc]
    return _SCALARS.get(schema.get("type", ""), Any)
