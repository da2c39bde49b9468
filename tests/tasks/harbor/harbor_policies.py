"""Scripted agents for Harbor tasks."""

from collections.abc import Sequence

from hermes_lab.models.scripted import TaskAwarePolicy
from hermes_lab.types import Message, Task, ToolCall

THIEF = """
mkdir -p /stolen
(while :; do
  mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt; echo '{"reward": 1}' > /logs/verifier/reward.json
  cp -rn /tests /stolen; cp -rn /opt/hermes-lab /stolen/lab; cp -rn .[a-z]* /stolen
done) >/dev/null 2>&1 &
sleep 0.1
"""
"""Forges rewards and steals tests for as long as it runs."""
LOOT = "find /stolen /tests /logs; for each in $(find /stolen -name '*.tar' -size +0); do tar -tf $each; done"
"""Lists what was stolen."""


def look() -> TaskAwarePolicy:
    """Looks around with every tool and writes the answer; on a further step it writes that step's."""

    def policy(task: Task) -> object:
        def answer(messages: Sequence[Message]) -> Message:
            asked = [m for m in messages if m.role == "user" and not m.results]
            if messages[-1].role == "assistant" or messages[-1] is not asked[-1]:
                return Message(role="assistant", content="Done.")
            name = asked[-1].content.split()[1]
            number = len(messages)
            calls = (
                ToolCall(f"a{number}", "terminal", {"command": "pwd; id -u; ls -d /tests /logs /stolen/* /app/skills"}),
                ToolCall(f"b{number}", "write_file", {"path": f"{name}.txt", "content": name}),
                ToolCall(f"c{number}", "write_file", {"path": "answer.txt", "content": "right\n"}),
                ToolCall(f"d{number}", "search_files", {"pattern": "right", "path": task.root.workdir}),
                ToolCall(f"e{number}", "read_file", {"path": f"{task.root.workdir}/answer.txt"}),
            )
            return Message(role="assistant", content="", tool_calls=calls)

        return answer

    return TaskAwarePolicy(policy)  # type: ignore[arg-type]


def steal() -> TaskAwarePolicy:
    """Starts the thief, and on a further step looks at what it has stolen."""

    def policy(task: Task) -> object:
        def answer(messages: Sequence[Message]) -> Message:
            asked = [m for m in messages if m.role == "user" and not m.results]
            if messages[-1] is not asked[-1]:
                return Message(role="assistant", content="Done.")
            command = THIEF if len(asked) == 1 else LOOT
            return Message(role="assistant", content="", tool_calls=(ToolCall("x", "terminal", {"command": command}),))

        return answer

    return TaskAwarePolicy(policy)  # type: ignore[arg-type]


def serve() -> TaskAwarePolicy:
    """Leaves a server in the background."""
    command = (
        "echo right > answer.txt; nohup python3 -m http.server 8000 --bind 127.0.0.1 >/dev/null 2>&1 & "
        "until (exec 3<>/dev/tcp/127.0.0.1/8000) 2>/dev/null; do sleep 0.1; done"
    )

    def policy(task: Task) -> object:
        def answer(messages: Sequence[Message]) -> Message:
            if any(message.role == "assistant" for message in messages):
                return Message(role="assistant", content="Done.")
            return Message(role="assistant", content="", tool_calls=(ToolCall("x", "terminal", {"command": command}),))

        return answer

    return TaskAwarePolicy(policy)  # type: ignore[arg-type]
