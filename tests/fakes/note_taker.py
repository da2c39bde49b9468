"""A learner that also keeps notes, so that every round depends on the skills and notes of the previous one."""

from collections.abc import Sequence

import msgspec

from hermes_lab.agent.review import REVIEW_REQUEST
from hermes_lab.models.scripted import Policy, TaskAwarePolicy
from hermes_lab.tasks.learner import learner
from hermes_lab.types import Message, Task, ToolCall


def note_taker() -> TaskAwarePolicy:
    """`learner`, whose reviews also write a note about the task, and a skill that all reviews of a round write, named
    after the existing notes."""
    return TaskAwarePolicy(_noting)


def _noting(task: Task) -> Policy:
    learn = learner().for_task(task)

    def policy(messages: Sequence[Message]) -> Message:
        reply = learn(messages)
        if REVIEW_REQUEST not in messages[-1].content:
            return reply
        book = f"day-book-{messages[0].content.count('I met this')}"
        writes = (
            ("memory", {"action": "add", "target": "memory", "content": f"I met this: {task.prompt[:80]}"}),
            ("skill_manage", {"action": "create", "name": book, "description": "Days", "content": task.prompt}),
        )
        calls = tuple(ToolCall(f"more_{number}", name, arguments) for number, (name, arguments) in enumerate(writes))
        return msgspec.structs.replace(reply, tool_calls=(*reply.tool_calls, *calls))

    return policy
