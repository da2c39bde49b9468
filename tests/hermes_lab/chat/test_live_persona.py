"""The person and the personality in a live chat: a loopback server and the real sandbox."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from fakes.openai_server import FakeOpenAIServer

from hermes_lab.chat.home_knowledge import HomeKnowledge
from hermes_lab.chat.live import LiveChat, open_chat
from hermes_lab.commands.talk import Talk
from hermes_lab.config.home import HomeConfig
from hermes_lab.runners.terminal import Terminal
from hermes_lab.sessions import SessionKey, SessionStore

pytestmark = pytest.mark.anyio
CHANGED = "your profile or personality has changed since this session began"


@asynccontextmanager
async def chatting(home: Path, server: FakeOpenAIServer, **fields: Any) -> AsyncIterator[tuple[LiveChat, Talk]]:
    model = {"name": "fake", "base_url": server.base_url, "max_retries": 0}
    config = HomeConfig.model_validate({"model": model, "agent": {"toolsets": ["terminal"]}} | fields)
    store, terminal = SessionStore(home / "sessions.db"), Terminal(json=False)
    with closing(HomeKnowledge(home, config)) as knowledge:
        async with open_chat(config, knowledge, store, terminal, SessionKey("cli", "local")) as chat:
            yield chat, Talk(chat, terminal)


def sent(server: FakeOpenAIServer) -> str:
    """The system prompt of the last request."""
    return str(server.requests[-1]["messages"][0]["content"])


async def test_a_chosen_personality_holds_from_the_next_session(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    user = {"name": "Ann", "timezone": "Europe/Berlin", "preferences": {"language": "English"}}
    async with FakeOpenAIServer(["hello"]) as server, chatting(tmp_path, server, user=user) as (chat, talk):
        await chat.begin()
        assert await talk.one("/personality pirat") == 2
        assert "no personality 'pirat'" in capsys.readouterr().err
        assert await talk.one("/personality teacher") == 0
        assert "personality: teacher; it holds from the next session (/new)" in capsys.readouterr().err
        await talk.one("hi")
        first = sent(server)
        assert "You work for Ann.\nTime zone: Europe/Berlin. This session began on " in first
        assert "- language: English" in first
        assert "Personality:" not in first
        capsys.readouterr()
        await talk.one("/personality")
        shown = capsys.readouterr().err
        assert "personality: teacher, from the next session (/new)" in shown
        assert "concise" in shown
        await talk.one("/new")
        await talk.one("hi")
        assert "Personality:\nExplain step by step" in sent(server)
        capsys.readouterr()
        await talk.one("/personality")
        assert "personality: teacher\n" in capsys.readouterr().err
        (completed,) = talk.registry.complete("/personality tea", talk.context)
        assert completed.text == "teacher"


async def test_a_resumed_session_keeps_its_prompt_and_says_that_the_profile_has_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with FakeOpenAIServer(["hello"]) as server:
        async with chatting(tmp_path, server, user={"name": "Ann"}, personality="concise") as (chat, talk):
            await chat.begin("talk")
            await talk.one("hi")
            before = sent(server)
        for fields, changed in [
            ({"user": {"name": "Ann"}, "personality": "concise"}, 0),
            ({"user": {"name": "Ann"}, "personality": "teacher"}, 1),
            ({"user": {"name": "Bob"}, "personality": "concise"}, 1),
            ({}, 1),
        ]:
            capsys.readouterr()
            async with chatting(tmp_path, server, **fields) as (chat, talk):
                await chat.resume(chat.store.find("talk"))
                await talk.one("hi again")
                await talk.one("/model fake")
            assert sent(server) == before
            assert capsys.readouterr().err.count(CHANGED) == changed
