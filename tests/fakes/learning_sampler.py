"""A deterministic vLLM for learning episodes of the ledger suite: it solves a task if a skill about its site is listed,
or after a rejection, and its reviews write the rule down."""

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from fakes.openai_server import Reply
from hermes_lab.agent.review import REVIEW_REQUEST
from hermes_lab.config.schema import SuiteConfig
from hermes_lab.models.hermes_format import render_calls
from hermes_lab.skills import format as skill_format
from hermes_lab.tasks import load_suite
from hermes_lab.tasks.subtasks import known_skill, subtasks_of
from hermes_lab.transcript import SUMMARISE, SUMMARY
from hermes_lab.types import ToolCall


def always(number: int) -> bool:
    """Every review writes."""
    return True


_TOO_LONG = {"error": {"message": "maximum context length is 10 tokens", "code": "context_length_exceeded"}}


def narrow_reviews(count: int, worlds: Sequence[int] = (0,)) -> Callable[[dict[str, Any]], Reply]:
    """A `LearningSampler` whose context ends with the request for a review. All summaries differ; a review that
    continues one writes nothing."""
    sampler, number = LearningSampler(count, worlds=worlds), itertools.count()

    def answer(body: dict[str, Any]) -> Reply:
        texts = [message["content"] for message in body["messages"]]
        if texts[0] == SUMMARISE:
            return Reply(f"Summary {next(number)}.")
        if not any(REVIEW_REQUEST in text for text in texts):
            return sampler(body)
        if not any(text.startswith(SUMMARY) for text in texts):
            return Reply(status=400, body=_TOO_LONG)
        return Reply("Nothing to save.")

    return answer


class LearningSampler:
    """The script of a `FakeOpenAIServer` that knows `count` tasks of these seeds and worlds.

    The reviews of each task are numbered as they begin, and `writes` says which of them write a skill.
    """

    def __init__(
        self,
        count: int,
        *,
        seeds: Sequence[int] = (0,),
        worlds: Sequence[int] = (0,),
        options: dict[str, Any] | None = None,
        writes: Callable[[int], bool] = always,
    ) -> None:
        suite = load_suite(SuiteConfig(name="ledger", options=options or {"ruled": 1, "plain": 0}))
        self._tasks = {
            task.prompt: task
            for world in worlds
            for seed in seeds
            for task in suite.load(split="train", count=count, seed=seed, world=world)
        }
        self._writes = writes
        self._reviews: Counter[str] = Counter()

    def world_of(self, body: dict[str, Any]) -> str:
        """`World 1`, of the task that a request is about."""
        prompts = [each["content"] for each in body["messages"] if each["role"] == "user"]
        return f"World {self._tasks[prompts[0]].world}"

    def __call__(self, body: dict[str, Any]) -> Reply:
        messages = body["messages"]
        asked = [
            n for n, each in enumerate(messages) if each["role"] == "user" and "<tool_response>" not in each["content"]
        ]
        requests = [messages[n]["content"] for n in asked]
        said = sum(each["role"] == "assistant" for each in messages[asked[-1] :])
        (subtask,) = subtasks_of(self._tasks[requests[0]].truth)
        if REVIEW_REQUEST in requests[-1]:
            return Reply(self._review(requests[0], subtask, said, was_rejected=len(requests) > 2))
        listed = f'"{subtask.site.skill_name}"' in messages[0]["content"]
        actions = subtask.solve(subtask.site.rule if listed or len(requests) > 1 else None)
        if said == len(actions):
            return Reply("Done.")
        return Reply(render_calls("", [ToolCall("c", "terminal", dict(actions[said].arguments))]))

    def _review(self, prompt: str, subtask: Any, said: int, *, was_rejected: bool) -> str:
        if said:
            return "Saved."
        self._reviews[prompt] += 1
        if not was_rejected or not self._writes(self._reviews[prompt] - 1):
            return "Nothing to save."
        skill = known_skill(subtask.site, subtask.site.drawn)
        arguments = {"action": "create", "name": skill.name, "description": skill.description}
        return render_calls("", [ToolCall("c", "skill_manage", arguments | {"content": skill_format.body(skill)})])
