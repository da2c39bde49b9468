"""A budget is kept: once it is spent nothing new begins, lanes have come equally far, and a larger one goes on."""

import json
from collections import Counter
from pathlib import Path

import anyio
import msgspec
import pytest
from fakes.command import lab
from fakes.openai_server import FakeOpenAIServer, Reply, running

from hermes_lab.agent.review import REVIEW_REQUEST
from hermes_lab.config.schema import BudgetConfig
from hermes_lab.records import read_attempts, read_episodes
from hermes_lab.runners.engine import budget as budget_module
from hermes_lab.runners.engine.batch import LEAD
from hermes_lab.runners.engine.budget import Budget
from hermes_lab.runners.engine.episode_summary import EpisodeSummary
from hermes_lab.runners.engine.scheduler import Scheduler
from hermes_lab.types import Episode

CONFIGS = Path(__file__).parents[2] / "configs"
SHAPE = [
    *("experiment", "-c", str(CONFIGS / "one-rule.yaml"), "-c", "learning.arms=[off,on]", "-c", "learning.worlds=3"),
    *("-c", "learning.heldout.tasks=1", "-c", "run.concurrency=4"),
]
WANTED = 2 * 3 * (4 + 2)


def finished(tokens: int = 0) -> EpisodeSummary:
    spent = {"usage": {"prompt_tokens": tokens}}
    fields = {"suite": "s", "task_id": "t", "lane": "on-r0-w0", "round": 0, "sample": 0, "status": "ok"}
    return msgspec.convert(fields | {"trajectory": spent}, EpisodeSummary)


def test_a_budget_of_tasks_leaves_paired_rounds_and_a_larger_one_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "run"
    first = lab(*SHAPE, "-c", "budget.tasks=20", "--out", out)
    assert first.returncode == 3
    assert first.stderr.splitlines()[-1] == (
        f"budget.tasks is spent (20 of 20): 20 of {WANTED} episodes are kept; raise the budget and use --resume"
    )
    assert "% of budget.tasks" in first.stderr
    assert len(list(read_attempts(out, Episode))) == 20
    learnt = Counter(e.lane for e in read_episodes(out) if e.phase == "learn")
    assert len(learnt) == 6
    assert max(learnt.values()) - min(learnt.values()) <= LEAD + 1, learnt  # LEAD rounds ahead, and then one more task
    planned = lab(*SHAPE, "-c", "budget.tasks=20", "--out", out, "--plan")
    assert "budget used: 20 of 20 tasks" in planned.stdout, planned.stderr
    spent = lab(*SHAPE, "-c", "budget.tasks=20", "--out", out, "--resume", "--json")
    assert (spent.returncode, json.loads(spent.stdout)["finished"]) == (3, 20)
    whole = lab(*SHAPE, "-c", "budget.tasks=0", "--out", out, "--resume")
    assert whole.returncode == 0, whole.stderr
    keys = [e.key for e in read_attempts(out, Episode)]
    assert len(keys) == len(set(keys)) == WANTED


def slow_to_look_back(body: dict[str, object]) -> Reply:
    return Reply("Done.", delay=0.5 if REVIEW_REQUEST in body["messages"][-1]["content"] else 0.0)


def test_a_fast_arm_does_not_run_away_from_a_slow_one(tmp_path: Path) -> None:
    file, out = tmp_path / "tasks.jsonl", tmp_path / "run"
    file.write_text("".join(f'{{"prompt": "Task {n}."}}\n' for n in range(8)))
    with running(FakeOpenAIServer(slow_to_look_back)) as server:
        args = ["-c", f"suite.path={file}", "-c", f"model.base_url={server.base_url}", "-c", "model.name=fake"]
        args += ["-c", "learning.rounds=8", "-c", "skills.review_every=0", "-c", "budget.tasks=9"]
        assert lab("experiment", *args, "--out", out).returncode == 3
        looked_back = sum(REVIEW_REQUEST in body["messages"][-1]["content"] for body in server.requests)
    done = Counter(e.lane for e in read_episodes(out))
    assert looked_back == done["on-r0-w0"] > 0
    assert done["off-r0-w0"] - done["on-r0-w0"] <= 2, done


def test_a_budget_of_tokens_that_nothing_counts_for_ends_the_run(tmp_path: Path) -> None:
    file, out = tmp_path / "tasks.jsonl", tmp_path / "run"
    file.write_text("".join(f'{{"prompt": "Task {n}."}}\n' for n in range(4)))
    with running(FakeOpenAIServer([Reply("Done.", counted=False)])) as server:
        args = ["-c", f"suite.path={file}", "-c", f"model.base_url={server.base_url}", "-c", "model.name=fake"]
        args += ["-c", "run.concurrency=1", "--out", out]
        first = lab("run", *args, "-c", "budget.tokens=1000000")
        assert first.returncode == 3
        assert first.stderr.splitlines()[-1] == (
            "budget.tokens cannot be enforced: 1 model call had no `usage`: 1 of 4 episodes are kept; "
            "set budget.tokens=0 and use --resume"
        )
        again = lab("run", *args, "-c", "budget.tokens=9000000", "--resume")
        assert (again.returncode, len(server.requests)) == (3, 1)
        assert lab("run", *args, "-c", "budget.tokens=0", "--resume").returncode == 0
        assert len(server.requests) == 4


def test_reviews_that_nothing_counts_end_a_budget_of_tokens_and_no_other() -> None:
    review = {"trajectory": {"usage": {"uncounted": 2}}}
    episode = msgspec.convert(msgspec.to_builtins(finished(7)) | {"review": review}, EpisodeSummary)
    tokens, others = Budget(BudgetConfig(tokens=99)), Budget(BudgetConfig(tasks=3, hours=1))
    for budget in (tokens, others):
        budget.add(finished(1))
        assert budget.allows()
        budget.add(episode)
    assert (tokens.allows(), others.allows()) == (False, True)
    assert (tokens.spent, others.spent) == ("budget.tokens cannot be enforced: 2 model calls had no `usage`", "")


def test_a_budget_of_tokens_counts_earlier_starts_and_needs_no_model_once_it_is_spent(tmp_path: Path) -> None:
    file, out = tmp_path / "tasks.jsonl", tmp_path / "run"
    file.write_text("".join(f'{{"prompt": "Task {n}."}}\n' for n in range(12)))
    with running(FakeOpenAIServer(["Done."])) as server:
        args = ["run", "-c", f"suite.path={file}", "-c", f"model.base_url={server.base_url}", "-c", "model.name=fake"]
        args += ["-c", "run.concurrency=1", "--out", str(out)]
        assert lab(*args, "-c", "budget.tokens=1").returncode == 3
        (episode,) = read_episodes(out)
        each = episode.trajectory.usage.prompt_tokens + episode.trajectory.usage.completion_tokens
        assert each > 100
        second = lab(*args, "-c", f"budget.tokens={3 * each}", "--resume")
        assert second.returncode == 3
        assert "budget.tokens is spent" in second.stderr
        assert ": 3 of 12 episodes are kept" in second.stderr
    nobody = lab(*args, "-c", f"budget.tokens={3 * each}", "--resume")
    assert (nobody.returncode, "budget.tokens is spent" in nobody.stderr) == (3, True)


def test_what_runs_when_the_budget_is_spent_is_finished_and_kept(tmp_path: Path) -> None:
    file, out = tmp_path / "tasks.jsonl", tmp_path / "run"
    file.write_text("".join(f'{{"prompt": "Task {n}."}}\n' for n in range(9)))
    with running(FakeOpenAIServer([Reply("Done.", delay=0.3)], gather=3)) as server:
        args = ["-c", f"suite.path={file}", "-c", f"model.base_url={server.base_url}", "-c", "model.name=fake"]
        done = lab("run", *args, "-c", "run.concurrency=3", "-c", "budget.tokens=1", "--out", out)
    assert (done.returncode, len(list(read_episodes(out)))) == (3, 3), done.stderr


def test_the_share_that_is_used_is_told_for_every_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(budget_module.time, "monotonic", lambda: now)
    budget = Budget(BudgetConfig(tokens=2000, hours=2))
    budget.add(finished(tokens=500))
    now += 3600
    assert {name: str(share) for name, share in budget.shares.items()} == {
        "tokens": "500 of 2,000",
        "hours": "1.00 of 2.00",
    }
    assert budget.begin()
    now += 3600
    assert not budget.begin()
    assert budget.spent == "budget.hours is spent (2.00 of 2.00)"
    assert not Budget().limited


def test_rollouts_that_run_count_as_tasks() -> None:
    budget = Budget(BudgetConfig(tasks=3))
    assert [budget.begin() for _ in range(4)] == [True, True, True, False]
    budget.end()  # it errored: no task was done
    assert budget.begin()


async def race(count: int, lead: int | None, seconds: dict[int, float]) -> list[tuple[int, int, int]]:
    """Lanes of one rollout a round, three rounds, and how long each lane's take. In the order in which they began: the
    lane, its round, and the fewest rounds that any lane had done."""
    scheduler, began, done = Scheduler(count, lead=lead), [], dict.fromkeys(seconds, 0)

    async def lane(number: int) -> None:
        for round_ in range(3):
            if round_:
                scheduler.move(round_ - 1, round_)
            await scheduler.acquire(round_, number)
            began.append((number, round_, min(done.values())))
            await anyio.sleep(seconds[number])
            done[number] += 1
            scheduler.release()
        scheduler.move(2, None)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for number in seconds:
                scheduler.join()
                group.start_soon(lane, number)
    return began


@pytest.mark.anyio
async def test_a_free_slot_goes_to_the_lane_that_is_least_far() -> None:
    began = await race(1, None, {0: 0.001, 1: 0.01, 2: 0.005})
    assert began == [(number, round_, round_) for round_ in range(3) for number in range(3)]


@pytest.mark.anyio
@pytest.mark.parametrize("lead", [0, 1])
async def test_no_lane_runs_away_where_a_budget_may_end_the_run(lead: int) -> None:
    began = await race(4, lead, {0: 0.0, 1: 0.05, 2: 0.0})
    assert len(began) == 9
    assert max(round_ - least for _, round_, least in began) == lead


@pytest.mark.anyio
async def test_a_lane_that_has_ended_holds_no_other_back() -> None:
    scheduler = Scheduler(2, lead=0)
    scheduler.join()
    scheduler.join()
    scheduler.move(0, 1)
    with anyio.move_on_after(0.05) as held:
        await scheduler.acquire(1)
    assert held.cancelled_caught
    scheduler.move(0, None)  # the other one ended in its first round
    with anyio.fail_after(60):
        await scheduler.acquire(1)
        await scheduler.acquire(1)
    with anyio.move_on_after(0.05) as full:
        await scheduler.acquire(1)
    assert full.cancelled_caught
    scheduler.release()
    with anyio.fail_after(60):
        await scheduler.acquire(1)
