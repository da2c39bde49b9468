"""Held-out checks on the real command line: against the right snapshot, nothing learnt, and owed like the rest."""

import json
import shutil
from collections import defaultdict
from pathlib import Path

import pytest
from fakes.command import lab
from fakes.openai_server import FakeOpenAIServer, Reply, function_call, running
from typer.testing import CliRunner

from hermes_lab.records import episode_files, read_attempts, read_episodes
from hermes_lab.runners.cli import app
from hermes_lab.runners.engine.lane_history import read_history
from hermes_lab.types import Episode

CONFIGS = Path(__file__).parents[2] / "configs"
SHAPE = [
    *("experiment", "-c", str(CONFIGS / "one-rule.yaml"), "-c", "learning.arms=[off,on]", "-c", "learning.order=latin"),
    *("-c", "suite.options={ruled: 2, plain: 0}", "-c", "learning.blocks=2", "-c", "learning.replicates=2"),
    *("-c", "learning.heldout.tasks=1", "-c", "learning.heldout.every=1", "-c", "run.concurrency=8"),
]
CHECKS, HELD_OUT = 5, 2
WANTED = 2 * 2 * (4 + CHECKS * HELD_OUT)


def said(*args: str | Path) -> str:
    """What a command prints that only looks."""
    result = CliRunner().invoke(app, [str(arg) for arg in args], standalone_mode=False)
    if result.exception:
        raise result.exception
    return result.stdout


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("heldout") / "run"
    done = lab(*SHAPE, "--out", run, "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    return run


def rows(run: Path) -> list[tuple[object, ...]]:
    return sorted(
        (
            e.key,
            e.phase,
            e.block,
            e.success,
            e.experience,
            e.skills.snapshot,
            [m.content for m in e.trajectory.messages],
        )
        for e in read_episodes(run)
    )


def test_every_check_meets_the_snapshot_of_its_round_and_adds_nothing(run: Path) -> None:
    episodes = list(read_episodes(run))
    assert len(episodes) == WANTED
    began = defaultdict(set)
    for episode in episodes:
        began[episode.lane, episode.round].add((episode.skills.snapshot, episode.experience))
    for lane in ("on-r0-w0", "on-r1-w0"):
        merges = read_history(run, lane)
        snapshots = [merges[0].before, *(merge.after for merge in merges)]
        assert len(merges) == 4
        assert [began[lane, step] for step in range(5)] == [{(s, n)} for n, s in enumerate(snapshots)]
        merged = {write.episode for merge in merges for write in merge.merged}
        assert merged
        assert merged <= {episode.key for episode in episodes if episode.phase == "learn"}
    heldout = [episode for episode in episodes if episode.phase == "heldout"]
    assert len(heldout) == 4 * CHECKS * HELD_OUT
    assert not any(episode.review for episode in heldout)


def test_both_blocks_are_measured_every_time_and_learning_shows_in_the_last_check(run: Path) -> None:
    solved = defaultdict(list)
    for episode in read_episodes(run):
        if episode.phase == "heldout":
            solved[episode.lane.split("-")[0], episode.round, episode.block].append(episode.success)
    assert {len(outcomes) for outcomes in solved.values()} == {HELD_OUT}
    on, off = (sum(sum(solved[arm, 4, block]) for block in (0, 1)) for arm in ("on", "off"))
    assert on > off
    assert sum(solved["on", 4, 1]) > sum(solved["on", 2, 1]), "the second world is learnt in the second half"


def test_held_out_episodes_are_replayed_and_shown(run: Path) -> None:
    heldout = [e for e in read_episodes(run) if e.phase == "heldout"]
    for episode in (heldout[0], heldout[-1]):
        assert json.loads(said("replay", run, "--episode", episode.key, "--json"))["same"]
    shown = said("show", run, "--lane", "on-r0").splitlines()
    assert sum("held out: " in line for line in shown) == CHECKS * HELD_OUT
    merges = [number for number, line in enumerate(shown) if line.startswith("--")]
    assert "held out" in shown[merges[0] - 1], "a check stands before the border that ends its round"
    assert len(json.loads(said("skills", "health", run, "--json"))["libraries"]) == 4
    assert "ledger" in said("skills", "diff", f"{run}:off-r0-w0", f"{run}:on-r0-w0")
    assert "created" in said("skills", "history", f"{run}:on-r0-w0")


def test_an_owed_check_in_the_middle_meets_its_old_snapshot_again(run: Path, tmp_path: Path) -> None:
    """A line of a held-out episode is taken out of the log, as if it had errored; the lane had gone on."""
    copy = tmp_path / "run"
    shutil.copytree(run, copy, symlinks=True)
    lost = [e.key for e in read_episodes(run) if e.phase == "heldout" and e.lane == "on-r1-w0" and e.round in (1, 4)]
    assert len(lost) == 2 * HELD_OUT
    for path in episode_files(copy):
        lines = path.read_bytes().splitlines(keepends=True)
        kept = [line for line in lines if not any(f'"{key.split("|")[1]}"'.encode() in line for key in lost)]
        assert len(kept) < len(lines)
        path.write_bytes(b"".join(kept))
    done = lab(*SHAPE, "--out", copy, "--resume", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    assert rows(copy) == rows(run)


def meddler(fails: str) -> object:
    """A model that writes a skill of its own accord in every episode, and an endpoint that breaks on `fails`."""

    def answer(body: dict[str, object]) -> Reply:
        messages = body["messages"]
        if fails and fails in messages[1]["content"]:
            return Reply(status=400, body={"error": {"message": "broken"}})
        if messages[-1]["role"] != "user":
            return Reply("Done.")
        name = messages[1]["content"].split()[-1].strip(".")
        note = {"action": "create", "name": f"about-{name}", "description": "It counts", "content": "Count from one."}
        return Reply(tool_calls=[function_call("c", "skill_manage", note)])

    return answer


def test_what_a_held_out_episode_writes_is_not_kept_and_its_error_does_not_stop_the_lane(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text("".join(f'{{"prompt": "Do task{n}.", "expected_output": "Done."}}\n' for n in range(5)))
    out = tmp_path / "run"
    with running(FakeOpenAIServer(meddler("task4"))) as server:
        args = [
            *("experiment", "-c", f"suite.path={file}", "-c", f"model.base_url={server.base_url}"),
            *("-c", "model.name=fake"),
            *("-c", "learning.arms=[on]", "-c", "learning.rounds=3", "-c", "learning.heldout.tasks=2"),
            *("-c", "learning.heldout.every=1", "-c", "skills.learn_value=1", "-c", "learning.order=latin"),
        ]
        first = lab(*args, "--out", out)
        assert (first.returncode, "4 of 11 episodes did not finish" in first.stderr) == (3, True), first.stderr
        server.script = meddler("")
        again = lab(*args, "--out", out, "--resume")
        assert again.returncode == 0, again.stderr
    episodes = list(read_episodes(out))
    assert [e.status for e in episodes].count("ok") == len(episodes) == 11
    assert all(e.skills.writes for e in episodes), "each wrote one"
    learnt = {e.skills.writes[0].name for e in episodes if e.phase == "learn"}
    library = {path.name for path in (out / "lanes" / "on-r0-w0" / "home" / "skills").iterdir()}
    assert {name for name in library if not name.startswith(".")} == learnt
    assert len(learnt) == 3
    snapshots = {e.round: e.skills.snapshot for e in episodes if e.phase == "learn"}
    for episode in episodes:
        assert episode.skills.snapshot == snapshots.get(episode.round, episode.skills.snapshot)
    assert len({e.skills.snapshot for e in episodes}) == 4
    assert "(not kept)" in said("show", out)
    assert len(list(read_attempts(out, Episode))) == 11 + 4
