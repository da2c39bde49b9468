"""The jobs of configs/cron: a library that was broken is told with a picture, and proposals go live once measured."""

import os
import sys
from pathlib import Path
from subprocess import CompletedProcess

import anyio
import pytest
from fakes.command import lab
from fakes.wire import Wire

from hermes_lab.config.home_file import load_home_config
from hermes_lab.config.schema import SuiteConfig
from hermes_lab.gateway.daemon import Gateway
from hermes_lab.records import read_episodes
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library, load_snapshot
from hermes_lab.skills.storage.proposals import Proposals
from hermes_lab.skills.storage.store import SkillStore
from hermes_lab.tasks.registry import load_suite
from hermes_lab.tasks.subtasks import known_skill
from hermes_lab.types import Skill

CRON = Path(__file__).parents[2] / "configs" / "cron"

pytestmark = pytest.mark.timeout(300)


def broken(skill: Skill) -> Skill:
    """The skill without what it tells."""
    return skill_format.rewritten(skill, skill.description, "Do it well.")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with what a learner learned, the nightly jobs, and their baseline."""
    home = tmp_path / "home"
    monkeypatch.setenv("HERMES_HOME", str(home))
    home.mkdir()
    tasks = home / "nightly-tasks.yaml"
    tasks.write_text((CRON / "nightly-tasks.yaml").read_text().replace("tasks: 60", "tasks: 12"))
    learnt = tmp_path / "learnt"
    few = ("-c", "learning.heldout.tasks=0", "-c", "learning.rounds=24", "-c", "learning.arms=[on]")
    update = ("-c", "skills.update_similarity=1.0", "-c", "skills.review_every=0", "-c", "skills.library=''")
    made = lab("experiment", "-c", tasks, *few, *update, "--out", learnt, "--quiet")
    assert made.returncode == 0, made.stderr
    last = max(read_episodes(learnt), key=lambda episode: episode.experience)
    library = load_snapshot(learnt / "skills" / last.skills.snapshot)
    SkillStore(home / "skills").change(lambda _: library, origin="user", reason="deployed")
    baseline = lab("experiment", "-c", tasks, "--out", home / "nightly" / "baseline", "--quiet")
    assert baseline.returncode == 0, baseline.stderr
    settings = "gateway: {home: 'telegram:dm:1', platforms: [telegram]}\n"
    (home / "config.yaml").write_text(settings + (CRON / "nightly.yaml").read_text())
    return home


async def trigger(name: str) -> CompletedProcess[bytes]:
    command = [sys.executable, "-m", "hermes_lab", "cron", "trigger", name]
    return await anyio.run_process(command, env=os.environ, check=False)


async def test_a_broken_library_is_told_with_a_picture_and_a_healthy_one_passes(home: Path) -> None:
    wire = Wire("telegram", most=4_000)
    store = SkillStore(home / "skills")
    async with anyio.create_task_group() as group:
        group.start_soon(Gateway(load_home_config(home, ()), home, [wire]).run)
        healthy = await trigger("library")
        assert healthy.returncode == 0, healthy
        assert "no difference shown" in (await wire.replies(1, seconds=60))[0]
        store.change(lambda now: Library(map(broken, now.skills.values())), origin="user", reason="broken on purpose")
        worse = await trigger("library")
        assert worse.returncode == 1, worse
        with anyio.fail_after(60):
            while len([each for each in wire.sent if each.files]) < 2:  # noqa: ASYNC110 - another task
                await anyio.sleep(0.05)
        group.cancel_scope.cancel()
    said, picture = wire.sent[-2:]
    assert said.text.startswith("library: failed, exit code 1")
    assert "worse: -" in said.text
    assert picture.files[0].read_bytes().startswith(b"\x89PNG")


async def test_a_proposal_that_helps_goes_live_and_one_that_harms_does_not(home: Path) -> None:
    store = SkillStore(home / "skills")
    proposals = Proposals(store)
    helps = next(iter(store.load().skills.values()))
    plain = load_suite(SuiteConfig(name="ledger")).sites(split="train", world=0)[-1]  # type: ignore[attr-defined]
    harms = known_skill(plain, plain.drawn)  # tells a rule where none holds
    store.change(lambda now: now.without(helps.name), origin="user", reason="to be learned again")
    proposed = Library([helps, harms])
    proposals.store.change(lambda _: proposed, origin="review", reason="a conversation")
    done = await trigger("proposals")
    assert done.returncode == 0, done
    assert set(proposals.pending()) == {harms.name}
    assert helps.name in store.load().skills
    assert (await trigger("proposals")).returncode == 0
