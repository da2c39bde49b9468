"""Gymnasium text spaces for observations and assistant turns."""

import json
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, Literal, get_args, overload

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import create_shared_memory, read_from_shared_memory, write_to_shared_memory

from hermes_lab.errors import ConfigError
from hermes_lab.models.hermes_format import render_calls
from hermes_lab.types import ToolCall

Actions = Literal["text", "structured"]


class TurnSpace(spaces.Text):
    """Any Unicode text up to `max_length` characters. Samples are drawn from `samples`, or are a short answer."""

    def __init__(self, max_length: int = 1_000_000, samples: Sequence[str] = ()) -> None:
        super().__init__(max_length=max_length, min_length=0)
        self.samples = tuple(samples)

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        del mask, probability
        if self.samples:
            return str(self.np_random.choice(self.samples))
        return "".join(self.np_random.choice(list("abcdefghij "), size=12)) + "."


def action_space(actions: Actions, tools: Sequence[str]) -> spaces.Space[Any]:
    """The space of assistant turns.

    `text`: a turn in the Hermes text format. `structured`: `tool`, a tool name or "" for an answer; `arguments`, a JSON
    object as text; `content`, the answer or the text before the call. Samples are answers and calls of `tools` without
    arguments. Raises `ConfigError` for any other value.
    """
    if actions not in get_args(Actions):
        raise ConfigError(f"actions: unknown {actions!r}; use {' or '.join(get_args(Actions))}")
    if actions == "text":
        return TurnSpace()
    tool, arguments = TurnSpace(samples=("", *tools)), TurnSpace(samples=("{}",))
    return spaces.Dict({"tool": tool, "arguments": arguments, "content": TurnSpace()})


def turn_text(action: str | Mapping[str, str]) -> str:
    """An action of either space in the Hermes text format. Invalid arguments are kept, so that the agent gets the same
    error message as a model."""
    if isinstance(action, str):
        return action
    tool, arguments, content = action["tool"], action["arguments"], action["content"]
    if not tool:
        return content
    try:
        given = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        given = None
    if isinstance(given, dict):
        return render_calls(content, [ToolCall("call_0", tool, given)])
    raw = f'<tool_call>\n{{"name": {json.dumps(tool)}, "arguments": {arguments}}}\n</tool_call>'
    return f"{content}\n{raw}" if content else raw


class SharedTexts(Sequence[str]):
    """The latest texts written by the workers of an `AsyncVectorEnv`; a deep copy is a snapshot.

    Gymnasium's own implementation decodes shared memory only once, at creation, and supports few characters.
    """

    def __init__(self, memory: Any, count: int) -> None:
        self._rows = np.frombuffer(memory.get_obj(), dtype=np.int32).reshape((count, -1))

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        if isinstance(index, slice):
            return tuple(self)[index]
        length = self._rows[index, 0]
        return str(self._rows[index, 1 : 1 + length].tobytes().decode("utf-32-le", "surrogatepass"))

    def __iter__(self) -> Iterator[str]:
        return (self[index] for index in range(len(self)))

    def __deepcopy__(self, memo: dict[int, Any]) -> tuple[str, ...]:
        return tuple(self)


@create_shared_memory.register(TurnSpace)
def _create(space: TurnSpace, n: int, ctx: ModuleType) -> Any:
    """Shared memory with the length and the characters for each environment."""
    return ctx.Array("i", n * (1 + space.max_length))


@read_from_shared_memory.register(TurnSpace)
def _read(space: TurnSpace, memory: Any, n: int = 1) -> SharedTexts:
    del space
    return SharedTexts(memory, n)


@write_to_shared_memory.register(TurnSpace)
def _write(space: TurnSpace, index: int, text: str, memory: Any) -> None:
    row = np.frombuffer(memory.get_obj(), dtype=np.int32).reshape((-1, 1 + space.max_length))[index]
    row[1 : 1 + len(text)] = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.int32)
    row[0] = len(text)
