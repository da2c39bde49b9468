"""Learning episodes in a run folder: what is written, and that a killed run goes on to the same groups."""

import json
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from fakes import killable
from fakes.learning import LEDGER, worth
from fakes.learning_sampler import LearningSampler
from fakes.openai_server import FakeOpenAIServer, running

from hermes_lab.config.schema import RunConfig
from hermes_lab.config.sources import load_config
from hermes_lab.envs.groups import read_groups
from hermes_lab.envs.learning.lanes import Draw
from hermes_lab.envs.learning.records import LearningPlan, read_learned
from hermes_lab.errors import ConfigError, InfraError
from hermes_lab.manifest import read_manifest
from hermes_lab.records import episode_files, read_attempts, read_episodes
from hermes_lab.runners.engine.execute import Listener
from hermes_lab.runners.engine.snapshots import knowledge_of
from hermes_lab.runners.environments.collect import BatchSampler
from hermes_lab.runners.environments.learning import learn
from hermes_lab.runners.environments.lock import load_locked
from hermes_lab.runners.environments.runs import run_check, run_process
from hermes_lab.training.grpo_config import Batch
from hermes_lab.training.lock import load_lock
from hermes_lab.types import Episode

TASKS, FOLLOWUPS, REPEATS, FORKS, WORLDS = 2, 2, 2, 2, 2
PLAN = LearningPlan(
    worth(tasks=TASKS, followups=FOLLOWUPS, repeats=REPEATS), Draw("train", 0, 0, WORLDS, WORLDS), FORKS
)


def served(url: str, *overrides: str) -> RunConfig:
    return load_config(
        [
            *LEDGER,
            *("model.provider=openai", "model.name=packaged", f"model.base_url={url}", "model.token_ids=true"),
            *(
                "agent.tool_format=hermes",
                "agent.toolsets=[terminal, skill_view, skill_manage]",
                "agent.prompt=compact",
            ),
            *("run.concurrency=4", "model.max_retries=2", *overrides),
        ]
    )


def sampler() -> LearningSampler:
    return LearningSampler(TASKS + FOLLOWUPS, worlds=range(WORLDS))


def say(line: str) -> None:
    del line


def keys(run: Path) -> list[str]:
    """Of all records that are no failures; one that ran twice is there twice."""
    return sorted(episode.key for episode in read_attempts(run, Episode) if episode.status == "ok")


def result(run: Path) -> Any:
    """What must be the same however often the run was killed."""
    groups = [
        (group.kind, group.episodes, group.samples, group.token_ids, group.masks, group.rewards)
        for group in read_groups(run / "groups.jsonl")
    ]
    return keys(run), groups, (run / "values.jsonl").read_text(), (run / "learned.json").read_text()


def test_a_folder_has_every_rollout_once_and_the_groups_of_both_kinds(tmp_path: Path) -> None:
    with running(FakeOpenAIServer(sampler(), models=["packaged"])) as server:
        config = served(server.base_url)
        found = learn(config, PLAN, tmp_path / "run", say)
        asked = len(server.requests)
        again = learn(config, PLAN, tmp_path / "run", say)
        assert len(server.requests) == asked  # nothing was left to do
    assert again == found == read_learned(tmp_path / "run")
    episodes = list(read_episodes(tmp_path / "run"))
    assert len(episodes) == len(set(keys(tmp_path / "run"))) == len(keys(tmp_path / "run"))
    works = [episode for episode in episodes if episode.review]
    assert [len(work.forks) for work in works] == [FORKS - 1] * TASKS * WORLDS
    reviews = [group for group in found.groups if group.kind == "review"]
    solves = [group for group in found.groups if group.kind == "solve"]
    # The second task of a lane is solved with the skill of the first, so its reviews have nothing to write.
    assert [value.rollouts for value in found.values] == [FOLLOWUPS * REPEATS] * FORKS + [0] * FORKS + (
        [FOLLOWUPS * REPEATS] * FORKS + [0] * FORKS
    )
    assert len(reviews) == TASKS * WORLDS
    assert len(solves) == 2 * FOLLOWUPS * WORLDS
    assert {len(group.episodes) for group in solves} == {REPEATS}
    first = json.loads((tmp_path / "run" / "learned.json").read_text())["reviews"]
    assert (first["reviews"], first["wrote"]) == (len(found.values), FORKS * WORLDS)
    assert 0.4 < first["value"] < 0.5  # half of the reviews are worth nearly 1
    for episode in episodes:  # any of them can be run again
        assert knowledge_of(tmp_path / "run", episode).library.snapshot == episode.skills.snapshot
    assert read_manifest(tmp_path / "run").command == "reviews"


def test_another_plan_or_configuration_is_not_continued(tmp_path: Path) -> None:
    with running(FakeOpenAIServer(sampler(), models=["packaged"])) as server:
        config = served(server.base_url)
        learn(config, PLAN, tmp_path / "run", say)
        other = LearningPlan(worth(tasks=TASKS, followups=1, repeats=REPEATS), PLAN.draw, FORKS)
        for plan, changed, message in (
            (other, config, "tasks have changed"),
            (
                LearningPlan(PLAN.worth, PLAN.draw, FORKS + 1),
                config,
                r"other reviews of a task \(env\.group_size, .*: 2, now 3; give",
            ),
            (
                LearningPlan(worth(tasks=2, followups=2, repeats=2, body_cost=0.5), PLAN.draw, FORKS),
                config,
                r"was started with other reviews \(env\.reviews, or the lock's section reviews\): ",
            ),
            (PLAN, served(server.base_url, "agent.max_iterations=7"), "agent.max_iterations"),
        ):
            with pytest.raises(ConfigError, match=message):
                learn(changed, plan, tmp_path / "run", say)


def test_an_arm_that_does_not_learn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"learning\.arms: off, on"):
        learn(load_config(["suite.name=ledger"]), PLAN, tmp_path / "run", say)
    assert not (tmp_path / "run").exists()


def test_tasks_that_share_their_files_have_no_follow_ups(tmp_path: Path) -> None:
    rows = [{"id": f"t{n}", "prompt": f"Task {n}.", "files": {"a.txt": "the same"}} for n in range(40)]
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = load_config([f"suite.path={tmp_path / 'tasks.jsonl'}", "learning.arms=[on]"])
    with pytest.raises(ConfigError, match="4 different tasks are needed"):
        learn(config, LearningPlan(PLAN.worth, Draw("train", 0, 0, 1, 1), 2), tmp_path / "run", say)


def test_a_rollout_that_fails_is_tried_again_and_then_counted(tmp_path: Path) -> None:
    with running(FakeOpenAIServer([], models=["packaged"])) as server:

        def gone(body: dict[str, object]) -> str:
            raise RuntimeError  # a 500, every time

        server.script = gone
        config = served(server.base_url, "model.max_retries=0")
        with pytest.raises(InfraError, match=r"the work of all 2 learning episodes errored; the last: .*500"):
            learn(config, PLAN, tmp_path / "run", say)
        told: list[str] = []
        works = sampler()

        def one_world(body: dict[str, Any]) -> Any:
            if "World 1" in str(works.world_of(body)):
                raise RuntimeError
            return works(body)

        server.script = one_world
        found = learn(config, PLAN, tmp_path / "run", told.append)
        assert found.refused == {"with errored rollouts": TASKS}
        assert "warning: 1 rollout of learning episodes errored; the last: " in " ".join(told)
        assert any(line.startswith("2/2 learning episodes, ") and "2 errored" in line for line in told)
        server.script = sampler()
        found = learn(config, PLAN, tmp_path / "run", say)
    assert found.refused == {}
    assert len(found.values) == TASKS * WORLDS * FORKS


def test_the_sampler_of_a_training_collects_learning_episodes(tmp_path: Path) -> None:
    with running(FakeOpenAIServer(sampler(), models=["packaged"])) as server:
        config = served(server.base_url, f"learning.worlds={WORLDS}")
        lock = load_lock(Path("configs/locks/grpo-smoke.yaml"))
        locked = lock.model_copy(update={"rollout_server_url": server.base_url})
        collecting = BatchSampler(locked, tmp_path / "server.log", print, Listener())
        batch = Batch(config, WORLDS, FORKS, 0, tmp_path / "run", PLAN.worth)
        assert batch.draw == PLAN.draw
        collecting.collect(batch)
        collecting.close()
    assert len(read_learned(tmp_path / "run").values) == TASKS * WORLDS * FORKS


def test_env_process_writes_the_groups_and_is_continued_by_the_same_command(tmp_path: Path) -> None:
    out = tmp_path / "reviews.jsonl"
    with running(FakeOpenAIServer(LearningSampler(5, worlds=[2000, 2001]), models=["packaged"])) as server:
        sources = [
            *("configs/env/reviews.yaml", f"model.base_url={server.base_url}", "suite.name=ledger"),
            *("env.max_token_length=100000", "env.drop_equal_scores=false", "run.concurrency=4"),
        ]
        tally = run_process(sources, None, out, count=2, scored=True, html=True, say=say)
        written, asked = out.read_bytes(), len(server.requests)
        out.unlink()
        out.with_suffix(".html").unlink()
        run_process(sources, None, out, count=2, scored=True, html=True, say=say)
        assert len(server.requests) == asked
    assert out.read_bytes() == written
    assert [(group.kind, len(group.samples)) for group in read_groups(out)] == [("review", 4)] * 2
    assert (tally.groups, tally.sequences) == (2, 8)
    assert "mean value of a review +0.966" in str(tally)
    assert "skill_manage" in out.with_suffix(".html").read_text()


def test_env_check_measures_the_signal_of_reviews(tmp_path: Path) -> None:
    def every_third(number: int) -> bool:
        return number % 3 == 0

    script = LearningSampler(5, worlds=[2000, 2001], writes=every_third)
    with running(FakeOpenAIServer(script, models=["packaged"])) as server:
        sources = [
            *("configs/env/reviews.yaml", f"model.base_url={server.base_url}", "suite.name=ledger"),
            *("env.max_token_length=100000", "run.concurrency=4", "learning.worlds=2"),
        ]
        _, checked = run_check(sources, None, tmp_path / "one", count=2, say=say)
        _, long = run_check([*sources, "env.max_token_length=10"], None, tmp_path / "two", count=2, say=say)
    rows = dict(checked.rows())
    assert (checked.signal.groups, checked.signal.usable) == (2, 2)
    assert rows["usable"] == "2/2 (34-100 %) groups can be trained on"
    assert rows["knowledge"] == "reviews: 2/2 (34-100 %) groups usable"
    assert rows["reviews"].startswith("mean value of a review +")
    assert "advice" not in rows
    assert (long.signal.usable, long.signal.refused) == (0, {"longer than 10 tokens": 2})
    assert long.tips[0].startswith("env.max_token_length above 10, or less text")


def test_env_check_explains_reviews_and_follow_ups_apart(tmp_path: Path) -> None:
    """Half of the reviews write, and the follow-ups of the fake server are all the same: only these get advice."""

    def every_other(number: int) -> bool:
        return number % 2 == 0

    script = LearningSampler(5, worlds=[2000, 2001], writes=every_other)
    with running(FakeOpenAIServer(script, models=["packaged"])) as server:
        sources = [
            *("configs/env/reviews.yaml", f"model.base_url={server.base_url}", "suite.name=ledger"),
            *("env.max_token_length=100000", "run.concurrency=4", "learning.worlds=2", "env.objective=both"),
            *("env.group_size=2", "env.reviews.repeats=2"),
        ]
        _, checked = run_check(sources, None, tmp_path / "out", count=2, say=say)
    rows = dict(checked.rows())
    assert rows["reviews"].startswith("mean value of a review +")
    assert rows["rollouts"].startswith("16 of 32 rollouts solved")
    assert [each.kind for each in checked.found] == ["reviews", "rollouts"]
    assert checked.found[0].signal.usable == 2
    assert checked.found[1].signal.usable == 0
    assert checked.tips == checked.found[1].tips
    assert not any("reviews" in tip for tip in checked.tips)


def test_env_process_warns_before_all_learning_episodes_are_paid_for(tmp_path: Path) -> None:
    said: list[str] = []
    script = LearningSampler(60, worlds=[2000], writes=lambda _: False)
    with running(FakeOpenAIServer(script, models=["packaged"])) as server:
        sources = [
            *("configs/env/reviews.yaml", f"model.base_url={server.base_url}", "suite.name=ledger"),
            *("env.max_token_length=100000", "run.concurrency=1", "learning.worlds=1", "env.group_size=2"),
        ]
        run_process(sources, None, tmp_path / "o.jsonl", count=10, scored=True, html=False, say=said.append)
    warned = [n for n, line in enumerate(said) if line.startswith("warning: too few usable groups: 0/8")]
    assert len(warned) == 1
    assert any(line.startswith("10/10 learning episodes") for line in said[warned[0] :])


def test_a_lock_decides_what_a_review_is_paid() -> None:
    lock = Path("configs/locks/grpo-reviews-cpu.yaml")
    sources = ["env.objective=review", "learning.arms=[on]", "suite.name=ledger"]
    assert load_locked(sources, lock).env.reviews == load_lock(lock).reviews
    cheap = "env.reviews={tasks: 1, followups: 4, repeats: 1, listed_cost: 0.0, body_cost: 0.0}"
    with pytest.raises(ConfigError, match=r"env\.reviews=.*: reviews is locked at"):
        load_locked([*sources, cheap], lock)
    with pytest.raises(ConfigError, match="needs a lock with a section reviews"):
        load_locked([*sources, cheap], Path("configs/locks/grpo-cpu.yaml"))


def learn_there(url: str, folder: Path) -> None:
    """In a process of its own."""
    learn(served(url), PLAN, folder, say)


def lines(run: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in episode_files(run))


def killed(url: str, folder: Path, draws: random.Random) -> bool:
    """Starts the run, and kills it once it has a few more episodes; False if it ended before."""
    process = killable.process(learn_there, url, folder)
    before, more = lines(folder), draws.randrange(4)
    process.start()
    while process.is_alive() and lines(folder) < before + more:
        time.sleep(0.01)
    time.sleep(draws.random() * 0.3)  # anywhere between two episodes
    process.kill()  # it may have ended by itself
    process.join()
    return process.exitcode == -signal.SIGKILL


KILLS = int(os.environ.get("SIMULATIONS", "8"))
"""`make simulations` has 100."""


def test_a_run_that_is_killed_at_random_moments_makes_the_same_groups_and_none_twice(tmp_path: Path) -> None:
    draws = random.Random(KILLS)
    with running(FakeOpenAIServer(sampler(), models=["packaged"])) as server:
        learn_there(server.base_url, tmp_path / "whole")
        wanted, count, number = result(tmp_path / "whole"), 0, 0
        while count < KILLS:
            folder = tmp_path / f"run-{number}"
            if killed(server.base_url, folder, draws):
                count += 1
                assert len(keys(folder)) == len(set(keys(folder)))
                continue
            assert result(folder) == wanted
            number += 1
        learn_there(server.base_url, tmp_path / f"run-{number}")
    assert result(tmp_path / f"run-{number}") == wanted
