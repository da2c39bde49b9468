"""The plan of an experiment: registered before its first episode, kept on resume, and said beside every comparison."""

import json
import shutil
from pathlib import Path

import msgspec
import pytest
from fakes.command import lab

import hermes_lab as library
from hermes_lab.manifest import read_manifest
from hermes_lab.records import read_attempts
from hermes_lab.registration import FILE, content_digest, read_plan
from hermes_lab.types import Episode

CONFIGS = Path(__file__).parents[2] / "configs"
SMALL = [
    *("experiment", "-c", str(CONFIGS / "one-rule.yaml"), "-c", "learning.arms=[off,on,placebo]"),
    *("-c", "learning.rounds=2", "-c", "run.concurrency=4"),
]
STOP = [
    *("experiment", "-c", str(CONFIGS / "one-rule.yaml"), "-c", "learning.arms=[off,on]", "-c", "learning.worlds=16"),
    *("-c", "run.concurrency=2", "-c", "learning.stop.when=shown"),
]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An experiment that its stopping rule has ended."""
    out = tmp_path_factory.mktemp("runs") / "stopped"
    ran = lab(*STOP, "--out", out)
    assert ran.returncode == 0, ran.stderr
    assert "a difference is shown; " in ran.stderr.splitlines()[-1]
    return out


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished experiment with one look at the end."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    ran = lab(*SMALL, "-c", "learning.worlds=6", "--out", out)
    assert ran.returncode == 0, ran.stderr
    return out


def rewritten(run: Path, **fields: object) -> None:
    """Replaces fields of the plan, with a digest that fits."""
    content = json.loads((run / FILE).read_text()) | fields
    (run / FILE).write_text(json.dumps(content | {"digest": content_digest(content)}))


def copy_of(run: Path, to: Path) -> Path:
    return Path(shutil.copytree(run, to, symlinks=True))


def test_the_plan_says_what_is_compared_and_how_and_was_there_before_the_first_episode(whole: Path) -> None:
    plan = read_plan(whole)
    assert plan is not None
    primary = plan.primary
    assert primary is not None
    assert (primary.question, primary.before, primary.after) == ("skills", "off", "on")
    assert (primary.over, primary.units, primary.pairs, primary.phase) == ("worlds", 6, 2, "learn")
    assert plan.analysis.startswith("one mid-p sign-flip test of whole worlds at the end, two-sided at 5 %")
    assert plan.episodes == 36
    first = min(episode.started_at for episode in read_attempts(whole, Episode))
    assert plan.registered_at[:19] <= first[:19]
    assert plan.digest == content_digest(msgspec.to_builtins(plan))


def test_held_out_tasks_are_the_registered_outcome_if_there_are_some(tmp_path: Path) -> None:
    shape = ["-c", "learning.heldout.tasks=2", "-c", "learning.arms=[placebo,on]"]
    assert lab(*SMALL, *shape, "--out", tmp_path / "run").returncode == 0
    plan = read_plan(tmp_path / "run")
    assert plan is not None
    assert plan.primary is not None
    assert (plan.primary.phase, plan.primary.round, plan.primary.pairs) == ("heldout", 2, 2)
    assert (plan.primary.question, plan.primary.before, plan.primary.over) == ("arms", "placebo", "tasks")
    said = lab("compare", tmp_path / "run").stdout
    assert "): placebo -> on, solved at the first submission on held-out tasks after learning, over 1 lane of" in said


def test_one_arm_registers_no_comparison(tmp_path: Path) -> None:
    assert lab(*SMALL, "-c", "learning.arms=[on]", "--out", tmp_path / "run").returncode == 0
    plan = read_plan(tmp_path / "run")
    assert plan is not None
    assert plan.primary is None


def test_compare_says_which_comparison_was_registered_and_what_is_exploratory(whole: Path) -> None:
    skills, contents = lab("compare", whole).stdout, lab("compare", whole, "--arms", "placebo,on").stdout
    assert "registered before the first episode (20" in skills
    assert "over 6 worlds of 2 pairs" in skills
    assert "registered analysis: one mid-p sign-flip test" in skills
    assert "exploratory, since not registered: all other arms, metrics and parts" in skills
    assert "at any look" not in skills  # the run is finished
    assert "exploratory: the registered comparison is off -> on (" in contents
    report = json.loads(lab("compare", whole, "--json").stdout)
    assert report["registered"]["primary"]
    assert report["registered"]["plan"]["primary"]["units"] == 6


def test_a_run_without_a_plan_and_one_with_a_late_plan_say_so(whole: Path, tmp_path: Path) -> None:
    old = copy_of(whole, tmp_path / "old")
    (old / FILE).unlink()
    assert "exploratory: the run registered no plan" in lab("compare", old).stdout
    late = copy_of(whole, tmp_path / "late")
    rewritten(late, registered_at="2199-01-01T00:00:00+00:00")
    assert "exploratory: the plan was registered after the first episode had started" in lab("compare", late).stdout


def test_a_plan_that_was_changed_or_is_none_is_one_line(whole: Path, tmp_path: Path) -> None:
    run = copy_of(whole, tmp_path / "changed")
    (run / FILE).write_text((run / FILE).read_text().replace('"learn"', '"heldout"'))
    ran = lab("compare", run)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert "was changed after it was registered" in ran.stderr
    (run / FILE).write_text("[]")
    ran = lab("compare", run)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert "not a registered plan" in ran.stderr


def test_a_resumed_run_keeps_its_plan_and_refuses_another(whole: Path, tmp_path: Path) -> None:
    run = copy_of(whole, tmp_path / "run")
    before = (run / FILE).read_bytes()
    assert lab(*SMALL, "-c", "learning.worlds=6", "--out", run, "--resume").returncode == 0
    assert (run / FILE).read_bytes() == before
    ran = lab(*SMALL, "-c", "learning.worlds=6", "-c", "learning.expect.effect=0.3", "--out", run, "--resume")
    assert ran.returncode == 2
    assert "plan.json: registers effect=0.16, now 0.3; choose another --out" in ran.stderr
    ran = lab(*SMALL, "-c", "learning.worlds=6", "-c", "learning.stop.when=shown", "--out", run, "--resume")
    assert ran.returncode == 2
    assert "was started with learning.stop.when=never, now shown" in ran.stderr
    (run / FILE).unlink()
    assert lab(*SMALL, "-c", "learning.worlds=6", "--out", run, "--resume").returncode == 0
    assert not (run / FILE).exists()  # a plan that is written after the episodes is none


def test_a_finished_experiment_takes_more_worlds_and_is_exploratory_from_then_on(whole: Path, tmp_path: Path) -> None:
    run, straight = copy_of(whole, tmp_path / "run"), tmp_path / "straight"
    plan, before = (run / FILE).read_bytes(), {each.key: each for each in read_attempts(run, Episode)}
    ran = lab(*SMALL, "-c", "learning.worlds=9", "--out", run, "--resume")
    assert ran.returncode == 0, ran.stderr
    assert f"{run}: extended from 6 worlds to 9; its comparisons are exploratory from now on" in ran.stderr
    assert (run / FILE).read_bytes() == plan
    after = {each.key: each for each in read_attempts(run, Episode)}
    assert (len(after), {key: after[key] for key in before}) == (54, before)
    assert {each.config_digest for each in after.values()} == {read_manifest(run).config_digest}
    assert lab(*SMALL, "-c", "learning.worlds=9", "--out", straight).returncode == 0
    outcomes = {each.key: (each.success, each.skills.snapshot) for each in after.values()}
    assert outcomes == {each.key: (each.success, each.skills.snapshot) for each in read_attempts(straight, Episode)}
    said = lab("compare", run).stdout
    assert "exploratory: the run was extended to 54 episodes after its plan was registered for 36 (20" in said
    assert " in 9 worlds" in said.splitlines()[0]
    assert said.splitlines()[0].endswith("; the run was extended, which p and interval do not account for")
    assert "registered before" not in said
    assert not json.loads(lab("compare", run, "--json").stdout)["registered"]["primary"]
    assert "Exploratory: the run was extended to 54 episodes" in library.report(run).read_text()
    assert lab(*SMALL, "-c", "learning.worlds=9", "--out", run, "--resume").returncode == 0
    assert len(list(read_attempts(run, Episode))) == 54
    ran = lab(*SMALL, "-c", "learning.worlds=6", "--out", run, "--resume")
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert "was extended to learning.worlds=9, now 6; resume with the same value, or choose another --out" in ran.stderr


def test_worlds_are_added_from_another_folder_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The paths of the skills are then spelled in another way."""
    (tmp_path / "here").mkdir()
    skill = tmp_path / "skills" / "sums" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: sums\ndescription: How sums are made.\n---\nAdd.\n")
    shape = [*SMALL, "-c", "learning.arms=[off,frozen]", "--out", tmp_path / "run"]
    monkeypatch.chdir(tmp_path / "here")
    assert lab(*shape, "-c", "learning.worlds=2", "-c", "skills.library=../skills").returncode == 0
    monkeypatch.chdir(tmp_path)
    ran = lab(*shape, "-c", "learning.worlds=3", "-c", "skills.library=skills", "--resume")
    assert ran.returncode == 0, ran.stderr
    assert "extended from 2 worlds to 3" in ran.stderr
    skill.write_text(skill.read_text() + "Subtract.\n")
    ran = lab(*shape, "-c", "learning.worlds=4", "-c", "skills.library=skills", "--resume")
    assert ran.returncode == 2
    assert "was started with skills.library=../skills, now skills" in ran.stderr  # whose text is another now
    assert read_manifest(tmp_path / "run").config["learning"]["worlds"] == 3


def test_a_run_whose_plan_was_changed_is_not_extended(whole: Path, tmp_path: Path) -> None:
    run = copy_of(whole, tmp_path / "run")
    (run / FILE).write_text((run / FILE).read_text().replace('"learn"', '"heldout"'))
    manifest = (run / "run.json").read_bytes()
    ran = lab(*SMALL, "-c", "learning.worlds=8", "--out", run, "--resume")
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert "was changed after it was registered" in ran.stderr
    assert (run / "run.json").read_bytes() == manifest


def test_an_experiment_that_is_extended_under_way_has_no_look(whole: Path, tmp_path: Path) -> None:
    run = copy_of(whole, tmp_path / "run")
    shape = [*SMALL, "-c", "learning.worlds=8", "-c", "budget.tasks=40", "--out", str(run), "--resume"]
    assert lab(*shape).returncode == 3
    said = lab("compare", run).stdout
    assert "at any look" not in said
    assert "the run is under way (40 of 48 episodes); the run was extended, which p and interval do not" in said


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["-c", "learning.rounds=3"], "was started with learning.rounds=2, now 3"),
        (["-c", "suite.seed=1"], "was started with suite.seed=0, now 1"),
        (["-c", "learning.worlds=5"], "was started with learning.worlds=6, now 5"),
    ],
)
def test_nothing_but_more_worlds_extends_an_experiment(whole: Path, tmp_path: Path, more: list[str], said: str) -> None:
    run = copy_of(whole, tmp_path / "run")
    manifest = (run / "run.json").read_bytes()
    ran = lab(*SMALL, "-c", "learning.worlds=8", *more, "--out", run, "--resume")
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert said in ran.stderr
    assert (run / "run.json").read_bytes() == manifest


def test_a_run_with_a_stopping_rule_or_other_tasks_is_not_extended(stopped: Path, whole: Path, tmp_path: Path) -> None:
    ran = lab(*SMALL, "-c", "learning.worlds=8", "--out", whole)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert (
        "learning.worlds=6, now 8; add --resume (in Python, resume=True) to extend it, or choose another" in ran.stderr
    )
    ran = lab(*STOP, "-c", "learning.worlds=20", "--out", copy_of(stopped, tmp_path / "stopped"), "--resume")
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert "its stopping rule is over 16 worlds, so it cannot be extended to 20; choose another --out" in ran.stderr
    run = copy_of(whole, tmp_path / "run")
    manifest = json.loads((run / "run.json").read_text())
    changed = manifest["tasks_digest"].replace("0", "1")
    (run / "run.json").write_text(json.dumps(manifest | {"tasks_digest": changed}))
    ran = lab(*SMALL, "-c", "learning.worlds=8", "--out", run, "--resume")
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert "the suite's tasks have changed since the run started" in ran.stderr


def test_a_run_under_way_has_a_verdict_that_may_be_looked_at_or_none(tmp_path: Path) -> None:
    out = tmp_path / "run"
    shape = [*SMALL, "-c", "learning.arms=[off,on]", "-c", "learning.worlds=8", "-c", "learning.rounds=4"]
    assert lab(*shape, "-c", "budget.tasks=20", "--out", out).returncode == 3
    said = lab("compare", out).stdout
    assert said.startswith(
        "not measured: no world is complete yet (20 of 64 episodes), and a test at this point would not be valid"
    )
    assert ", p = " not in said
    assert not json.loads(lab("compare", out, "--json").stdout)["verdict"]["shown"]
    assert lab(*shape, "-c", "budget.tasks=62", "--out", out, "--resume").returncode == 3
    said = lab("compare", out).stdout
    assert " at any look, over " in said.splitlines()[0]
    assert "the run is under way (62 of 64 episodes)" in said.splitlines()[0]
    found = json.loads(lab("compare", out, "--json").stdout)
    assert found["registered"]["look"]["units"] >= 1
    success = next(each for each in found["comparisons"] if each["metric"] == "success")
    assert success["p_value"] == found["verdict"]["p_value"] == found["registered"]["look"]["p_value"]
    assert lab(*shape, "--out", out, "--resume").returncode == 0
    assert "at any look" not in lab("compare", out).stdout


def errored(run: Path, *lanes: str, behind: bool) -> None:
    """The last episode of these lanes errored, or the first one, which the last needs."""
    for path in (run / "episodes").glob("*.jsonl"):
        kept = []
        for episode in map(json.loads, path.read_text().splitlines()):
            if episode["lane"] in lanes and episode["round"] == (0 if behind else 1):
                episode |= {"status": "errored", "error": {"kind": "model", "message": "400", "traceback": ""}}
                episode |= {"success": None, "score": None, "verdicts": []}
            elif behind and episode["lane"] in lanes:
                continue
            kept.append(json.dumps(episode) + "\n")
        path.write_text("".join(kept))


@pytest.mark.parametrize(
    ("behind", "missing", "over"), [(False, 1, "11 pairs in 6 worlds"), (True, 2, "10 pairs in 5 lanes of 5 worlds")]
)
def test_an_episode_that_stays_errored_costs_its_pair_and_not_the_verdict(
    whole: Path, tmp_path: Path, behind: bool, missing: int, over: str
) -> None:
    run = copy_of(whole, tmp_path / "run")
    errored(run, "on-r0-w1", behind=behind)
    found = library.compare(run)
    assert not found.sentence.startswith("not measured")
    assert f", over {over}" in found.sentence
    assert (
        f"; {missing} of 36 episodes errored or could not follow one that did; their pairs are left out (--resume "
        "retries them)"
    ) in found.sentence
    assert "under way" not in str(found)
    assert "at any look" not in str(found)


def test_a_run_with_an_errored_episode_and_others_that_may_still_finish_is_under_way(
    whole: Path, tmp_path: Path
) -> None:
    run = copy_of(whole, tmp_path / "run")
    errored(run, "on-r0-w1", behind=True)
    for path in (run / "episodes").glob("*.jsonl"):
        lines = [line for line in path.read_text().splitlines(True) if json.loads(line)["lane"] != "placebo-r0-w5"]
        path.write_text("".join(lines))
    assert "the run is under way (32 of 36 episodes)" in library.compare(run).sentence


def test_an_experiment_ends_once_a_difference_is_shown_and_is_not_continued(stopped: Path) -> None:
    episodes = len(list(read_attempts(stopped, Episode)))
    assert episodes < 128 * 0.75
    again = lab(*STOP, "--out", stopped, "--resume", "--json")
    assert again.returncode == 0, again.stderr
    assert len(list(read_attempts(stopped, Episode))) == episodes
    content = json.loads(again.stdout)
    assert content["stopped"].endswith("of 16 worlds: a difference is shown")
    assert content["finished"] == episodes
    changed = lab(*STOP, "-c", "learning.stop.when=never", "--out", stopped, "--resume")
    assert changed.returncode == 2
    assert "was started with learning.stop.when=shown, now never" in changed.stderr


def test_a_stopped_experiment_says_so_everywhere(stopped: Path) -> None:
    assert "ended early" in lab("summary", stopped).stdout
    said = lab("compare", stopped)
    verdict = said.stdout.splitlines()[0]
    assert verdict.startswith("Skills: better by +")
    assert "at any look, over " in verdict
    assert "of 16 worlds: a difference is shown" in verdict
    assert "is not finished" not in said.stdout + said.stderr
    assert "ended early, decided after" in lab("fit", stopped).stdout
    found = library.compare(stopped)
    assert found.shown
    assert found.comparison is not None
    headline = found.comparison.headline
    assert found.p_value == headline.p_value == headline.p_adjusted < 0.05
    assert headline.looked.startswith("the first ")
    assert headline.interval == found.interval
    backwards = library.compare(stopped, arms=("on", "off"))
    assert (backwards.p_value, backwards.difference) == (found.p_value, -(found.difference or 0))
    assert "do not account for" not in str(backwards)
    page = library.report(stopped).read_text()
    assert "a difference is shown" in page
    assert "Registered before the first episode" in page
    assert "the run is not finished" not in page
    run = library.experiment(
        str(CONFIGS / "one-rule.yaml"),
        *(each for each in STOP if "=" in each),
        out=stopped,
        resume=True,
        progress=False,
    )
    assert run.complete


def test_other_comparisons_of_a_stopped_experiment_say_that_they_ignore_it(stopped: Path, tmp_path: Path) -> None:
    other = copy_of(stopped, tmp_path / "other")
    for path in (other / "episodes").glob("*.jsonl"):  # started at other times, a copy is another run
        path.write_text(path.read_text().replace('"started_at":"20', '"started_at":"21'))
    said = lab("compare", stopped, other).stdout
    assert f"{stopped} ended early: decided after" in said
    why = "the run was free to end early by its registered comparison, which p and interval do not account for"
    assert f"; {stopped}: {why}" in said.splitlines()[0]
    out = tmp_path / "rescored"
    assert lab("rescore", stopped, "--out", out).returncode == 0
    said = lab("compare", out).stdout
    assert "exploratory: the run was rescored after its plan was registered" in said
    assert "is not finished" not in said


def test_causes_of_a_run_under_way_are_over_the_worlds_of_its_verdict(tmp_path: Path) -> None:
    """The last world has no episode of arm off yet."""
    run = tmp_path / "run"
    shape = ["-c", "learning.arms=[off,on,placebo,oracle]", "-c", "learning.worlds=12", "-c", "learning.rounds=4"]
    assert lab(*SMALL, *shape, "--out", run).returncode == 0
    assert not any("early looks" in cause for cause in library.compare(run).causes)
    for path in (run / "episodes").glob("*.jsonl"):
        kept = [line for line in path.read_text().splitlines(True) if json.loads(line)["lane"] != "off-r0-w11"]
        path.write_text("".join(kept))
    found = library.compare(run)
    assert found.comparison is not None
    assert found.comparison.headline.looked == "the first 11 of 12 worlds"
    assert found.causes
    assert all(cause.endswith("; does not account for early looks") for cause in found.causes)
    (placebo,) = (cause for cause in found.causes if "placebo" in cause)
    assert placebo.count("/44 (") == 2


def test_a_curve_of_a_stopped_experiment_leaves_out_the_lanes_that_it_cut_short(stopped: Path, tmp_path: Path) -> None:
    every = library.load(stopped)
    last = every["lane"].iloc[-1]
    stopped = copy_of(stopped, tmp_path / "run")
    for path in (stopped / "episodes").glob("*.jsonl"):  # where all lanes were in the same round, none was
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        cut = [row for row in rows if (row["lane"], row["round"]) != (last, 3)]
        path.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in cut))
    every = library.load(stopped)
    reached = every.groupby("lane")["experience"].max()
    assert reached[last] < reached.max()
    for fit in library.fit(stopped, draws=0).values():
        assert fit.counts.n_N.tolist() == [0, 1, 2, 3]
    for name, fit in library.fit(every, draws=0).items():
        assert fit.episodes == library.fit(stopped, draws=0)[name].episodes, "the same for a frame as for its run"
    found = json.loads(lab("fit", stopped, "--json", "--draws", "0").stdout)
    assert found["skills on"]["episodes"] == 4 * int((reached[reached.index.str.startswith("on-")] == 3).sum())


def test_a_stopping_rule_without_its_plan_is_an_error(stopped: Path, tmp_path: Path) -> None:
    run = copy_of(stopped, tmp_path / "run")
    (run / FILE).unlink()
    for command in (["compare", run], [*STOP, "--out", run, "--resume"]):
        ran = lab(*command)
        assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
        assert "plan.json: missing, although learning.stop.when is shown; restore the file" in ran.stderr


def test_a_hole_in_the_first_world_leaves_no_verdict(stopped: Path, tmp_path: Path) -> None:
    run = copy_of(stopped, tmp_path / "run")
    for path in (run / "episodes").glob("*.jsonl"):
        lines = [line for line in path.read_text().splitlines(keepends=True) if '"lane":"off-r0-w0"' not in line]
        path.write_text("".join(lines))
    said = lab("compare", run).stdout
    assert said.startswith("not measured: no world is complete yet")
    assert ", p = " not in said


def test_an_experiment_that_is_decided_by_its_last_world_did_not_end_early(tmp_path: Path) -> None:
    out = tmp_path / "run"
    shape = [*STOP, "-c", "learning.worlds=6"]
    assert lab(*shape, "--out", out).returncode == 0
    assert "ended early" not in lab("summary", out).stdout
    assert "undecided after all 6 worlds" in lab("compare", out).stdout.splitlines()[0]
    assert len(list(read_attempts(out, Episode))) == 48


def test_whole_worlds_run_in_their_order(stopped: Path) -> None:
    finished = [episode.lane.rsplit("-w")[1] for episode in read_attempts(stopped, Episode)]
    for place, world in enumerate(map(int, finished)):
        assert world <= min(map(int, finished[place:])) + 1  # two run at once


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (["learning.worlds=5"], "needs at least 6 independent worlds or lanes: raise learning.worlds to 6 or more"),
        (["learning.arms=[on]"], "there is nothing to compare; give two learning.arms"),
        (["learning.expect.effect=0"], "set learning.expect.effect, the effect to look for"),
        (
            ["learning.worlds=3", "learning.replicates=2", "learning.order=random"],
            "needs at least 6 independent worlds or lanes",
        ),
    ],
)
def test_a_stopping_rule_that_cannot_work_is_refused(tmp_path: Path, fields: list[str], message: str) -> None:
    given = [part for field in fields for part in ("-c", field)]
    ran = lab(*STOP, *given, "--out", tmp_path / "run")
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
    assert message in ran.stderr
    assert not (tmp_path / "run").exists()


def test_the_plan_says_what_early_looks_cost_and_when_they_come_too_late() -> None:
    said = lab(*STOP, "--plan").stdout
    assert "power with early looks: 0." in said
    assert "worlds have power 0.8" in said
    assert "analysis: an anytime-valid sign-flip test of whole worlds after each world, in order" in said
    assert "run at once" not in said
    wide = lab(*STOP, "-c", "run.concurrency=64", "--plan").stdout
    assert "warning: 16 of 16 worlds run at once (run.concurrency is 64)" in wide
    assert "analysis: one mid-p sign-flip test of tasks at the end" in lab(*SMALL, "--plan").stdout
