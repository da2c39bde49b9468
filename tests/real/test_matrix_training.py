"""A conversation on Matrix, with a real Synapse, from its first message to a training step."""

import json
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from fakes.synapse import PROGRAM, Synapse, User
from fakes.training import TRAINING, smoke_lock

from hermes_lab.config.home_file import load_home_config
from hermes_lab.gateway.daemon import Gateway
from hermes_lab.gateway.platforms import open_platform
from hermes_lab.models.cards import read_card
from hermes_lab.records import read_episodes
from hermes_lab.training.config import TrainConfig

pytestmark = [
    *TRAINING,
    pytest.mark.skipif(not PROGRAM.exists(), reason="Synapse is not installed (make programs)"),
]


@pytest.fixture
def synapse(tmp_path: Path) -> Iterator[Synapse]:
    (tmp_path / "synapse").mkdir()
    server = Synapse(tmp_path / "synapse")
    try:
        server.start()
        yield server
    finally:
        server.stop()


def test_a_conversation_becomes_a_training_step(
    synapse: Synapse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hermes_lab.training.sft import train_sft

    home = tmp_path / "home"
    monkeypatch.setenv("HERMES_HOME", str(home))
    bot, ann = User(synapse, "hermes"), User(synapse, "ann")
    monkeypatch.setenv("MATRIX_PASSWORD", bot.password)
    anyio.run(_talk, home, synapse.url, bot, ann)
    lock = smoke_lock(tmp_path, "sft", total_steps=1, batch_size=1, warmup_steps=0)
    config = TrainConfig(lock=lock, data=(str(home / "chats"),), adapters=str(tmp_path / "adapters"))
    card = read_card(train_sft(config, print, "hermes-lab train sft"))
    assert (card.rows, card.steps) == (2, 1)


async def _talk(home: Path, url: str, bot: User, ann: User) -> None:
    """Two turns with a thumb up, and one that nobody judges."""
    gateway = {"platforms": ["matrix"], "matrix": {"homeserver": url, "user": bot.id, "allow": [ann.id]}}
    sources = (
        f"gateway={json.dumps(gateway)}",
        "model={provider: scripted, name: 'fakes.tool_caller:tool_caller'}",
        "agent={toolsets: [terminal], prompt: compact}",
        "chat.consent=true",
    )
    config = load_home_config(home, sources)
    async with anyio.create_task_group() as group:
        group.start_soon(Gateway(config, home, [open_platform("matrix", config.gateway)], sources).run)
        room = await ann.room(bot.id)
        for number, text in enumerate((_call("echo $((6 * 7))"), _call("date -u +%Y"), "Not judged"), 1):
            await ann.say(room, text)
            reply = (await ann.hears(room, bot.id, number))[-1]
            if number < 3:
                await ann.react(room, reply["event_id"], "👍")
        with anyio.fail_after(60):
            while sum(episode.success is True for episode in read_episodes(home / "chats")) < 2:  # noqa: ASYNC110
                await anyio.sleep(0.1)
        group.cancel_scope.cancel()


def _call(command: str) -> str:
    return f"CALL terminal {json.dumps({'command': command})}\nTell me."
