"""`skills uplift` and `skills effects` as a user calls them, on a library of which it is known what each skill does."""

import json
import shutil
from functools import partial
from pathlib import Path

import anyio
import pytest
from fakes.command import lab
from typer.testing import CliRunner

from hermes_lab.analysis.libraries import load_initial_library
from hermes_lab.analysis.skill_effects.capture import captures
from hermes_lab.analysis.skill_effects.leaks import literals
from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.config.schema import SuiteConfig
from hermes_lab.config.sources import load_config
from hermes_lab.errors import ConfigError
from hermes_lab.lane import lane_key
from hermes_lab.records import episode_files, read_episodes
from hermes_lab.runners.cli import app
from hermes_lab.runners.experiments.experiment import plan_learn
from hermes_lab.runners.experiments.ground_truth import library_claims
from hermes_lab.runners.experiments.uplift import open_source, plan_uplift
from hermes_lab.sandbox import open_sandbox
from hermes_lab.skills.format import parse, render
from hermes_lab.skills.library import Library
from hermes_lab.skills.storage.proposals import Proposals
from hermes_lab.skills.storage.store import SkillStore
from hermes_lab.tasks.answers import answer_key
from hermes_lab.tasks.registry import load_suite
from hermes_lab.tasks.subtasks import known_skill
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.types import Task

HELDOUT = 6
WORLD = {"ruled": 1, "plain": 1}
BASE = [
    *("-c", "model.provider=scripted", "-c", "model.name=hermes_lab.tasks.learner:learner", "-c", "run.concurrency=4"),
    *("-c", "agent.toolsets=[terminal,file,skill_view,skill_manage]", "-c", "suite.name=ledger"),
    *("-c", f"suite.options={json.dumps(WORLD)}", "-c", "skills.review_every=0"),
]


def done(*args: str | Path) -> str:
    ran = lab(*args)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def looked(*args: str | Path) -> tuple[str, str]:
    """What a command that only looks prints to stdout and stderr; a process of its own is not needed for that."""
    result = CliRunner().invoke(app, [str(arg) for arg in args], standalone_mode=False)
    if result.exception:
        raise result.exception
    return result.stdout, result.stderr


def secret_of(suite: WorldSuite, task: Task) -> str:
    """A literal of the answer of a task."""
    key = anyio.run(answer_key, suite, task, partial(open_sandbox, SandboxConfig()))
    assert key is not None
    (secret,) = literals(*key.answer) - literals(*key.known)
    return secret


@pytest.fixture(scope="module")
def suite() -> WorldSuite:
    suite = load_suite(SuiteConfig(name="ledger", options=WORLD))
    assert isinstance(suite, WorldSuite)
    return suite


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, suite: WorldSuite) -> Path:
    """A frozen lane with a true rule's skill, one that tells a rule where none holds, and one about nothing that also
    tells a held-out answer; and a lane without skills."""
    folder = tmp_path_factory.mktemp("uplift")
    config = load_config([each for each in (*BASE, *heldout()) if each != "-c"])
    last = plan_learn(config, suite, Library())[0].heldout[0][-1]
    true, plain = suite.sites(split="train", world=0)
    known = [known_skill(site, site.drawn) for site in (true, plain)]
    memo = parse(render("memo", "Where the keys are", f"In the drawer. It came to {secret_of(suite, last)}."))
    Library([*known, memo]).save(folder / "library")
    library = ("-c", f"skills.library={folder / 'library'}", "-c", "learning.arms=[off, frozen]")
    done("experiment", *BASE, *heldout(), *library, "--out", folder / "run", "--quiet")
    return folder / "run"


def heldout() -> tuple[str, ...]:
    return ("-c", "learning.rounds=1", "-c", f"learning.heldout.tasks={HELDOUT}")


@pytest.fixture(scope="module")
def uplift(source: Path) -> Path:
    """Stopped by its budget in the middle, and resumed."""
    out = source.parent / "uplift"
    begun = lab("skills", "uplift", source, "--arm", "frozen", "--out", out, "-c", "budget.tasks=10")
    assert begun.returncode == 3, begun.stderr
    assert f"{4 * HELDOUT} episodes: 1 lane, 3 without a skill" in begun.stderr
    done("skills", "uplift", source, "--arm", "frozen", "--out", out, "--resume", "--quiet")
    assert len(episode_files(out)) == 2
    return out


def test_a_true_rule_helps_a_decoy_harms_and_the_irrelevant_does_nothing(uplift: Path, suite: WorldSuite) -> None:
    true, plain = suite.sites(split="train", world=0)
    found = {each["skill"]: each for each in json.loads(looked("skills", "uplift", uplift, "--json")[0])["uplift"]}
    helps, harms, idle = found[true.skill_name], found[plain.skill_name], found["memo"]
    about_true = sum(bool(e.task.triggers) for e in read_episodes(uplift) if e.lane == "all-r0-w0")
    assert 0 < about_true < HELDOUT
    assert (helps["pairs"], helps["helped"], helps["harmed"]) == (HELDOUT, about_true, 0)
    assert (harms["pairs"], harms["helped"], harms["harmed"]) == (HELDOUT, 0, HELDOUT - about_true)
    assert (idle["pairs"], idle["helped"], idle["harmed"]) == (HELDOUT, 0, 0)
    assert harms["harm_rate"]["rate"] == (HELDOUT - about_true) / HELDOUT
    assert list(found) == [true.skill_name, "memo", plain.skill_name]  # the best first


def test_lanes_differ_in_one_skill_and_nothing_is_learnt(uplift: Path, source: Path) -> None:
    episodes = list(read_episodes(uplift))
    assert len({e.key for e in episodes}) == len(episodes) == 4 * HELDOUT
    held_out = {e.task_id for e in read_episodes(source) if e.phase == "heldout"}
    listed = {e.lane: set(e.skills.listed) for e in episodes}
    for lane, names in listed.items():
        key = lane_key(lane)
        assert key is not None
        left = key.arm.removeprefix("without-")
        assert names == (listed["all-r0-w0"] if key.arm == "all" else listed["all-r0-w0"] - {left})
        assert {e.task_id for e in episodes if e.lane == lane} == held_out
    assert {(e.phase, e.review) for e in episodes} == {("heldout", None)}


def test_the_table_says_what_was_shown(uplift: Path) -> None:
    header, *rows, last = looked("skills", "uplift", uplift)[0].splitlines()
    assert last.startswith("of 3 skills 0 help, 0 harm, 3 with no effect shown")
    assert header.split() == [
        "SKILL",
        "PAIRS",
        "WITH",
        "WITHOUT",
        "HELPED",
        "HARMED",
        "UPLIFT",
        "P",
        "(HOLM)",
        "EFFECT",
    ]
    assert [row.rsplit("  ", 1)[1] for row in rows] == ["not shown"] * 3


def test_an_episode_of_an_uplift_can_be_replayed(uplift: Path) -> None:
    assert "byte for byte" in looked("replay", uplift, "--episode", "20")[0]


def test_about_takes_only_tasks_that_the_skill_met(source: Path, suite: WorldSuite) -> None:
    name = suite.sites(split="train", world=0)[0].skill_name
    out = source.parent / "about"
    done("skills", "uplift", f"{source}:frozen-r0-w0", "--skills", name, "--about", "--out", out, "--quiet")
    episodes = list(read_episodes(out))
    assert {e.lane for e in episodes} == {"all-r0-w0", f"without-{name}-r0-w0"}
    assert all(e.task.triggers for e in episodes)


def test_mistakes_get_one_line(source: Path, uplift: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    frozen = open_source(str(source), "frozen", [])
    with pytest.raises(ConfigError, match="did you mean memo"):
        plan_uplift(frozen, skills=["mem"])
    with pytest.raises(ConfigError, match="so there is nothing to rerun"):
        plan_uplift(open_source(str(source), "off", []))
    for text, arm, override, told in (
        (tmp_path / "nothing", "on", [], r"nothing: no run here \(no such folder\)"),
        (f"{source}:on-r0-w0", "on", [], "has no lane 'on-r0-w0'; choose from off-r0-w0, frozen-r0-w0"),
        (source, "on", [], "has no arm 'on'; choose --arm from off, frozen"),
        (source, "frozen", ["suite.seed=7"], "its tasks cannot be regenerated"),
        (uplift, "on", [], "is a `uplift` run"),
    ):
        with pytest.raises(ConfigError, match=told):
            open_source(str(text), arm, override)
    for args, told in (
        ((source, "--arm", "frozen"), "--out: give a folder"),
        ((tmp_path / "nope",), "nope: no run here (no such folder)"),
        ((uplift, "--out", out), "is an uplift run"),
        ((source, "--arm", "frozen", "--tasks", "3", "--out", uplift, "--resume"), "choose another --out"),
    ):
        with pytest.raises(ConfigError) as raised:
            looked("skills", "uplift", *args)
        assert told in str(raised.value)
        assert not out.exists()


def begun(source: Path, copy: Path, lines: int) -> Path:
    """A copy of a run of which only so many episodes are there."""
    shutil.copytree(source, copy, symlinks=True)
    (log, *others) = episode_files(copy)
    for other in others:
        other.unlink()
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:lines]))
    return copy


def test_of_an_unfinished_run_it_is_said_that_it_is_none(source: Path, uplift: Path, tmp_path: Path) -> None:
    half, half_uplift = begun(source, tmp_path / "half", 6), begun(uplift, tmp_path / "half-uplift", 6)
    for args, wanted in (
        (("skills", "effects", half, "--no-leaks"), 26),
        (("skills", "uplift", half_uplift), 4 * HELDOUT),
    ):
        _, said = looked(*args)
        (warning,) = (line for line in said.splitlines() if "episodes finished" in line)
        assert warning.startswith(f"{args[2]}: 6 of {wanted} episodes finished; the run is in progress or")
    assert "6 of 26 episodes finished" in open_source(str(half), "frozen", []).warning
    assert open_source(str(source), "frozen", []).warning == looked("skills", "effects", source, "--no-leaks")[1] == ""


def test_an_empty_run_is_one_line(source: Path, uplift: Path, tmp_path: Path) -> None:
    empty, empty_uplift = begun(source, tmp_path / "empty", 0), begun(uplift, tmp_path / "empty-uplift", 0)
    for args in (
        ("skills", "effects", empty),
        ("skills", "uplift", empty, "--out", tmp_path / "out"),
        ("skills", "uplift", empty_uplift),
        ("audit", empty),
    ):
        with pytest.raises(ConfigError, match=r"empty(-uplift)?: none of \d+ episodes has finished yet;"):
            looked(*args)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "command",
    [("summary",), ("audit",), ("skills", "effects"), ("skills", "uplift"), ("compare",), ("report",), ("fit",)],
)
def test_a_folder_without_a_run_is_told_alike_everywhere(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    for name, why in (("nope", "no such folder"), ("file", "not a folder"), ("folder", "no run.json")):
        with pytest.raises(ConfigError) as raised:
            looked(*command, tmp_path / name)
        assert str(raised.value) == f"{tmp_path / name}: no run here ({why})"


def test_effects_tell_what_was_caught_what_it_did_and_what_leaked(source: Path, suite: WorldSuite) -> None:
    found = json.loads(looked("skills", "effects", source, "--json")[0])
    true, plain = suite.sites(split="train", world=0)
    (*_, last) = found["captures"]
    assert (last["lane"], last["skills"], last["silent"], last["untrue"]) == ("frozen-r0-w0", 3, 1, [plain.skill_name])
    assert (last["precision"]["count"], last["precision"]["of"], last["recall"]["rate"]) == (1, 2, 1.0)
    chain = {each["skill"]: each for each in found["funnels"] if each["arm"] == "frozen"}
    assert chain[true.skill_name]["helped"] == chain[true.skill_name]["solved"] > 0
    assert chain[plain.skill_name]["hurt"] > 0 == chain[plain.skill_name]["helped"]
    ((lane, (leak,)),) = found["leaks"]["leaks"].items()
    assert (lane, leak["skill"]) == ("frozen-r0-w0", "memo")
    assert found["leaks"]["findable"] == found["leaks"]["answers"] == HELDOUT
    transfer = found["transfer"]["frozen"]
    assert transfer["bwt"] is None
    assert transfer["gain"]["value"] == 0.0  # a frozen library learns nothing
    assert found["cost"][0]["tokens"] is found["by_task_range"][0]["tokens"] is None  # a scripted model reports none
    told, _ = looked("skills", "effects", source)
    series, *cells = told.split("Cost, reviews included")[1].splitlines()[2].split("  ")
    assert [cell.strip() for cell in cells if cell.strip()][2:5] == ["-", "-", "-"], series
    assert "gain from learning +0 points (no interval)" in told
    assert f"frozen-r0-w0: memo contains {leak['literals'][0]} from {leak['task_id']}" in told
    assert f"state a wrong rule: frozen-r0-w0: {plain.skill_name}" in told


def test_there_is_no_cost_where_cached_tokens_have_a_price_of_their_own(source: Path, tmp_path: Path) -> None:
    """Rows do not count them: any sum would be wrong."""
    run = Path(shutil.copytree(source, tmp_path / "run", symlinks=True))
    for path in episode_files(run):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            line["trajectory"]["usage"] = {"prompt_tokens": 1_000_000, "completion_tokens": 500_000}
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    def money(**price: float) -> list[float | None]:
        manifest = json.loads((run / "run.json").read_text())
        manifest["config"]["model"]["price"] = price
        (run / "run.json").write_text(json.dumps(manifest))
        costs = json.loads(looked("skills", "effects", run, "--no-leaks", "--json")[0])["cost"]
        assert all(cost["tokens"] == 1_500_000 * cost["episodes"] for cost in costs)
        return [cost["money"] and cost["money"] / cost["episodes"] for cost in costs]

    assert money(prompt=1.0, completion=4.0) == [3.0, 3.0]
    assert "MONEY" in looked("skills", "effects", run, "--no-leaks")[0]
    assert money(prompt=1.0, completion=4.0, cached=0.1) == [None, None]
    assert "MONEY" not in looked("skills", "effects", run, "--no-leaks")[0]
    assert money(prompt=1.0, completion=4.0, cache_write=2.0) == [None, None]


def test_recall_rises_as_rules_are_met_and_written(tmp_path: Path) -> None:
    done(
        "experiment", *BASE, "-c", "learning.arms=[on]", "-c", "learning.rounds=4", "--out", tmp_path / "run", "--quiet"
    )
    told = library_claims(tmp_path / "run")
    assert told is not None
    course = captures(told)
    assert [each.round for each in course] == [0, 1, 2, 3, 4]
    assert (course[0].recall.successes, course[0].recall_met.trials) == (0, 0)
    assert course[-1].recall_met.value == course[-1].recall.value == 1.0
    assert [each.experience for each in course] == [0, 1, 2, 3, 4]
    assert all(each.precision.successes == each.precision.trials for each in course)


def test_a_suite_without_known_rules_has_no_capture(tmp_path: Path) -> None:
    rows = tmp_path / "mine.jsonl"
    rows.write_text('{"prompt": "Say 4", "expected_output": "4"}\n')
    model = (
        "-c",
        "model.provider=scripted",
        "-c",
        "model.name=hermes_lab.tasks.learner:noop",
        "-c",
        "learning.rounds=1",
    )
    done("experiment", "-c", f"suite.path={rows}", *model, "--out", tmp_path / "run", "--quiet")
    assert library_claims(tmp_path / "run") is None
    told, _ = looked("skills", "effects", tmp_path / "run")
    assert "not measured: the suite does not know its rules" in told
    assert "not measured: the run holds out no tasks" in told


def test_a_proposal_goes_live_only_if_its_measured_uplift_is_not_negative(
    uplift: Path, source: Path, suite: WorldSuite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    true, plain = (site.skill_name for site in suite.sites(split="train", world=0))
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    live = SkillStore(tmp_path / "skills")
    proposals = Proposals(live)
    measured = Library.load(source.parent / "library")
    edited = parse(measured.skills["memo"].text + "\nAnd more.\n")
    unseen = parse(render("unseen", "About nothing", "Do nothing."))
    proposals.store.change(
        lambda _: measured.with_skill(edited).with_skill(unseen), origin="review", reason="a conversation"
    )
    assert looked("skills", "promote")[0].count(" new ") == 4
    asked = json.loads(looked("skills", "promote", "--uplift", uplift, "--json")[0])
    assert asked["promoted"] == [true]
    assert asked["waiting"]["memo"] == "not measured: it has changed since"
    assert asked["waiting"]["unseen"] == "not measured: no task listed it"
    assert asked["waiting"][plain].startswith("-")
    assert set(live.load().skills) == {true}
    proposals.store.change(lambda now: now.with_skill(measured.skills["memo"]), origin="review", reason="as before")
    shown, said = looked("skills", "promote", "memo", "--uplift", uplift)
    assert "not measured: no task loaded it" in shown  # listed, and so without any difference
    assert "0 skills promoted, 3 still proposed" in said
    assert set(live.load().skills) == {true}
    with pytest.raises(ConfigError, match="is a `learn` run; give one of `hermes-lab skills uplift`"):
        looked("skills", "promote", "--uplift", source)
    with pytest.raises(ConfigError, match=f"{true}: no proposal; there are"):
        looked("skills", "promote", true)
    library = load_initial_library("+proposals")
    assert set(library.skills) == {true, plain, "memo", "unseen"}
