from collections.abc import Callable

import pytest

from hermes_lab.errors import ConfigError
from hermes_lab.protocols import Sandbox
from hermes_lab.tasks.adapters import textworld
from hermes_lab.tasks.adapters._oracle import prove
from tests.tasks.adapters.conftest import needs

pytestmark = [pytest.mark.anyio, needs("textworld", "textworld"), needs("jericho", "textworld")]


async def test_the_walkthrough_wins(open_sandbox: Callable[[], Sandbox]) -> None:
    suite = textworld.load(quest_length=3)
    proof = await prove(suite, suite.load(split="train", count=2, seed=0, world=0), open_sandbox)
    assert (proof.failures, proof.solved, proof.calls) == ((), 2, 6)


async def test_a_game_is_lost_until_its_last_move(open_sandbox: Callable[[], Sandbox]) -> None:
    suite = textworld.load(quest_length=2)
    (task,) = suite.load(split="heldout", count=1, seed=0, world=0)
    stage = await suite.open_session(task)
    (act,) = stage.tools
    first, last = (action.arguments["command"] for action in textworld.script(task)[0].calls)
    async with open_sandbox() as sandbox:
        assert (await suite.verify(task, sandbox, "I won.")).score == 0.0
        assert (await stage.verify(sandbox, "I won.")).score == 0.0
        for refused in ("quit", "look then restart", "look. quit", "\0", "", "save"):
            assert "error" in act.handler(None, command=refused)
        assert "-= " in act.handler(None, command="look")["feedback"]
        act.handler(None, command=first)
        assert (await stage.verify(sandbox, "I won.")).score == 0.0
        assert act.handler(None, command=last)["ended"] is True
        verdict = await stage.verify(sandbox, None)
        assert (verdict.score, verdict.criteria) == (1.0, {"won": 1.0, "points": 1.0})
        assert act.handler(None, command="look") == {"error": "the game has ended"}
    await stage.aclose()
    assert not is_there(stage)


def is_there(stage: textworld.TextWorldStage) -> bool:
    return stage._folder.exists()


def test_tasks_are_seeded_and_endless() -> None:
    suite = textworld.load()
    games = [t.truth["game"] for split in suite.splits for t in suite.load(split=split, count=50, seed=0, world=0)]
    assert len(set(games)) == 150
    with pytest.raises(ConfigError, match="endless"):
        suite.load(split="train", count=0, seed=0, world=0)
    with pytest.raises(ConfigError, match="at least 1"):
        textworld.load(rooms=0)
