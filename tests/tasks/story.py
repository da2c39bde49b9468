"""An episode in a second's thousandth: no sandbox, but the real suites, skills and reviews."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from hermes_lab.agent.review import REVIEW_REQUEST
from hermes_lab.config.schema import SkillsConfig
from hermes_lab.errors import ToolError
from hermes_lab.models.hermes_format import render_results
from hermes_lab.models.scripted import TaskAwarePolicy
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.learning.review_policy import review_gate
from hermes_lab.skills.library import Library
from hermes_lab.skills.session import SkillSession
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Criterion, Rule, criterion
from hermes_lab.tasks.feedback import write_feedback
from hermes_lab.tasks.subtasks import Subtask, subtasks_of
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.types import Message, SkillEdit, Task, ToolCall, ToolResult


@dataclass
class Story:
    """Work is judged by whose moves were made: those of somebody who believes the rule in force are right."""

    suite: WorldSuite
    task: Task
    library: Library
    hermes: bool = False
    messages: list[Message] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    successes: list[bool] = field(default_factory=list)
    feedback: list[str] = field(default_factory=list)

    def run(self, policy: TaskAwarePolicy) -> "Story":
        self._turn = policy.for_task(self.task)
        self._session = SkillSession(
            self.library, origin="review", episode="", model="", gate=review_gate(SkillsConfig(update_similarity=1.0))
        )
        self._states: dict[str, str | None] = {}
        index = f"\n\n<skills>\n{self.library.index()}\n</skills>" if self.library.listed else ""
        self.messages.append(Message(role="system", content=f"You are Hermes.{index}"))
        prompt = self.task.prompt
        for attempt in range(1, self.task.attempts + 1):
            self._submit(prompt)
            judged = [self._judge(subtask) for subtask in subtasks_of(self.task.truth)]
            self.successes.append(all(each.score == 1.0 for each in judged))
            if self.successes[-1]:
                break
            draws = Draws(self.task.id, attempt)
            prompt = write_feedback(
                subtasks_of(self.task.truth), [[each] for each in judged], self.suite.spec, attempt, draws
            )
            self.feedback.append(prompt)
        self._submit(f"The submission was judged.\n\n{REVIEW_REQUEST}")
        self.library = self._session.library
        return self

    @property
    def names(self) -> list[str]:
        return [call.name for call in self.calls]

    @property
    def said(self) -> list[str]:
        return [message.content for message in self.messages if message.role == "assistant"]

    @property
    def writes(self) -> list[str]:
        return [write.action for write in self._session.writes]

    def _submit(self, text: str) -> None:
        self.messages.append(Message(role="user", content=text))
        begun = len(self.calls)
        for _ in range(60):
            reply = self._turn(self.messages)
            self.messages.append(reply)
            if not reply.tool_calls:
                assert reply.content
                break
            self._answer(reply.tool_calls)
        else:
            raise AssertionError("the policy does not come to an end")
        for subtask in subtasks_of(self.task.truth):
            for belief in (None, *subtask.candidates):
                if _made(subtask, belief, self.calls[begun:]):
                    self._states[subtask.site.entity.name] = belief.instruction if belief else None

    def _judge(self, subtask: Subtask) -> Criterion:
        rule = subtask.site.rule
        right = self._states.get(subtask.site.entity.name, "nothing done") == (rule.instruction if rule else None)
        return criterion("right", right, "it is not right", ruled=True)

    def _answer(self, calls: Sequence[ToolCall]) -> None:
        results = [self._do(call) for call in calls]
        if self.hermes:
            self.messages.append(Message(role="user", content=render_results(results), results=tuple(results)))
            return
        for result in results:
            self.messages.append(
                Message(role="tool", content=result.content, results=(result,), tool_call_id=result.call_id)
            )

    def _do(self, call: ToolCall) -> ToolResult:
        self.calls.append(call)
        answer: dict[str, object] = {"output": "", "exit_code": 0}
        try:
            if call.name == "skill_view":
                skill = self._session.view(call.arguments["name"])
                answer = {"name": skill.name, "content": skill_format.shown(skill)}
            elif call.name == "skill_manage":
                self._session.manage(msgspec.convert(call.arguments, SkillEdit))
        except ToolError as error:
            return ToolResult(call.id, call.name, json.dumps({"error": str(error)}), ok=False)
        return ToolResult(call.id, call.name, json.dumps(answer))


def _made(subtask: Subtask, belief: Rule | None, calls: Sequence[ToolCall]) -> bool:
    wanted = [(action.tool, dict(action.arguments)) for action in subtask.solve(belief)]
    made = [(call.name, call.arguments) for call in calls]
    return any(made[n : n + len(wanted)] == wanted for n in range(len(made)))
