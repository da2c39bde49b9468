"""The web of a task reaches whoever works on it: the agent of an episode, and its children."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hermes_lab.config.digest import config_digest
from hermes_lab.config.schema import RunConfig, WebConfig
from hermes_lab.knowledge import Knowledge
from hermes_lab.models.scripted import ScriptedModel
from hermes_lab.rollout import RolloutContext, RolloutSpec, run_episode
from hermes_lab.sandbox import open_sandbox
from hermes_lab.skills.library import Library
from hermes_lab.types import Episode, Message, Page, Task, ToolCall, Verdict
from hermes_lab.web import open_web

pytestmark = pytest.mark.anyio
PAGES = (Page(url="https://a.example/ferry", title="Ferry", text="The ferry leaves at nine."),)
SEARCH = ("web_search", {"query": "ferry"})


class Nothing:
    """A suite that judges nothing."""

    name = "nothing"
    splits = ("train",)

    def load(self, **which: Any) -> list[Task]:
        raise NotImplementedError

    async def verify(self, task: Task, workspace: object, answer: str | None, attempt: int = 1) -> Verdict | None:
        return None


def say(text: str, *calls: tuple[str, dict[str, Any]]) -> Message:
    return Message("assistant", text, tuple(ToolCall(f"c{n}", *call) for n, call in enumerate(calls)))


async def episode(script: dict[str, tuple[str, dict[str, Any]]], pages: tuple[Page, ...], corpus: Path) -> Episode:
    """Each agent makes one call, by what it was told, and then answers."""

    def policy(messages: Sequence[Message]) -> Message:
        worked = any(message.role == "assistant" for message in messages)
        return say("Done.") if worked else say("", script[messages[1].content.splitlines()[0]])

    web = WebConfig(provider="corpus", corpus=str(corpus))
    config = RunConfig.model_validate({"agent": {"toolsets": ["web", "delegation"]}})
    task = Task(id="t", suite="nothing", prompt="Go.", pages=pages)
    model = ScriptedModel(policy, tool_format=config.agent.tool_format)
    lab = RolloutContext(
        config, config_digest(config), Nothing(), model, partial(open_sandbox, config.sandbox), web=open_web(web)
    )
    job = RolloutSpec(task, lane="run", round=0, sample=0, experience=0, place=0, review="never")
    return await run_episode(lab, job, Knowledge(Library()))


def answers(messages: Sequence[Message]) -> list[dict[str, Any]]:
    return [json.loads(result.content) for message in messages for result in message.results]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "ferry.md").write_text("# Ferry of the corpus\nIt leaves at ten.\n")
    return tmp_path


async def test_an_agent_searches_the_pages_of_its_task(corpus: Path) -> None:
    done = await episode({"Go.": SEARCH}, PAGES, corpus)
    assert done.trajectory
    (found,) = answers(done.trajectory.messages)
    assert [hit["url"] for hit in found["results"]] == ["https://a.example/ferry"]


async def test_without_pages_it_searches_what_is_configured(corpus: Path) -> None:
    done = await episode({"Go.": SEARCH}, (), corpus)
    assert done.trajectory
    (found,) = answers(done.trajectory.messages)
    assert [hit["url"] for hit in found["results"]] == ["file:ferry.md"]


@pytest.mark.parametrize(("pages", "url"), [(PAGES, "https://a.example/ferry"), ((), "file:ferry.md")])
async def test_a_child_has_the_web_of_its_parent(corpus: Path, pages: tuple[Page, ...], url: str) -> None:
    script = {"Go.": ("delegate_task", {"goal": "Search."}), "Search.": SEARCH}
    done = await episode(script, pages, corpus)
    (child,) = done.children
    assert child.trajectory
    (found,) = answers(child.trajectory.messages)
    assert [hit["url"] for hit in found["results"]] == [url]
