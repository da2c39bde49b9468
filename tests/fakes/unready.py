"""Models that never answer."""

from itertools import count

from hermes_lab.models.scripted import Policy, TaskAwarePolicy
from hermes_lab.tasks.learner import learner
from hermes_lab.types import Message, Task, ToolCall


def never_answers() -> Policy:
    """Calls a tool at every turn, also when it is told to conclude."""
    call = ToolCall("c", "terminal", {"command": "true"})
    return lambda _: Message(role="assistant", content="", tool_calls=(call,))


def first_unready() -> TaskAwarePolicy:
    """Never answers in the first rollout, and is the lab's learner in the later ones."""
    begun, able = count(), learner()

    def for_task(task: Task) -> Policy:
        return never_answers() if next(begun) == 0 else able.for_task(task)

    return TaskAwarePolicy(for_task)
