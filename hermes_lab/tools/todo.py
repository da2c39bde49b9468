"""The `todo` tool: the agent's task list for one episode."""

from collections import Counter
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from hermes_lab.errors import ToolError
from hermes_lab.tools.registry import ToolContext, tool

_MOST_ITEMS = 100


class Item(BaseModel):
    """A task. Content and status may be omitted from an item that changes an existing one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Annotated[str, Field(min_length=1, max_length=64)]
    content: Annotated[str, Field(min_length=1, max_length=1_000)] | None = None
    status: Literal["pending", "in_progress", "completed", "cancelled"] | None = None


class TodoList:
    """The items of an episode's list, in order (`ToolContext.state`)."""

    def __init__(self) -> None:
        self.items: dict[str, Item] = {}


@tool(toolset="todo")
async def todo(
    ctx: ToolContext,
    todos: Annotated[list[Item], Field(max_length=_MOST_ITEMS)] | None = None,
    merge: bool = False,
) -> dict[str, Any]:
    """Keep a list of tasks for work with several steps. Always returns the whole list.

    Args:
        todos: The new list, in order; omit it to read the list.
        merge: Change and add these items by id; keep the others.
    """
    state = ctx.state(TodoList)
    if todos is not None:
        state.items = _updated(todos, state.items if merge else {})
    return {"todos": [item.model_dump() for item in state.items.values()]}


def _updated(todos: list[Item], before: dict[str, Item]) -> dict[str, Item]:
    twice = [id for id, count in Counter(item.id for item in todos).items() if count > 1]
    if twice:
        raise ToolError(f"todos: the id {twice[0]!r} occurs twice")
    items = dict(before)
    for item in todos:
        old = before.get(item.id)
        content = item.content or (old.content if old else None)
        if content is None:
            raise ToolError(f"todos: the item {item.id!r} has no content")
        status = item.status or (old.status if old else None) or "pending"
        items[item.id] = Item(id=item.id, content=content, status=status)
    if len(items) > _MOST_ITEMS:
        raise ToolError(f"todos: more than {_MOST_ITEMS} items")
    return items
