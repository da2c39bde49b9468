"""`hermes-lab study`: from learning to reports, and continued where it stopped."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fakes.command import lab

from hermes_lab.analysis.comparison.verdict import verdict
from hermes_lab.config.sources import load_config
from hermes_lab.errors import ConfigError
from hermes_lab.manifest import read_manifest
from hermes_lab.records import read_attempts
from hermes_lab.runners.commands import study as study_module
from hermes_lab.runners.engine.execute import RunPlan
from hermes_lab.runners.experiments.study import MODEL_NAME, MODEL_URL, read_study
from hermes_lab.types import Episode

CONFIGS = Path(__file__).parents[2] / "configs"
WANTED = 2 * 3 * 4
"""Episodes of one run: arms x worlds x tasks."""


def study_command(*args: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return lab("study", *args, **environment)


def write_study(folder: Path) -> Path:
    file = folder / "study.yaml"
    file.write_text(
        f"out: {folder}/runs\n"
        f"shared: [{CONFIGS}/one-rule.yaml, 'learning.arms=[off,on]', learning.worlds=3]\n"
        "parts: {near: [suite.options.wording=near], varied: []}\n"
        "variants: {forgetful: [model.options.capture=0.0], attentive: []}\n"
        "compare: [forgetful, attentive]\n"
        "groups: {both wordings: [near, varied]}\n"
        "trainings: {both learners: [forgetful, attentive]}\n"
    )
    return file


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return write_study(tmp_path)


class Finished(NamedTuple):
    """A study that a budget stopped in its first run and the same command finished, with its `--json` output."""

    file: Path
    said: dict[str, Any]

    @property
    def folder(self) -> Path:
        return self.file.parent / "runs"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    file = write_study(tmp_path_factory.mktemp("study"))
    near = file.parent / "runs" / "near"
    stopped = study_command(file, "-c", "budget.tasks=10")
    assert stopped.returncode == 3
    assert (
        stopped.stderr.splitlines()[-1]
        == f"the study stopped at {near}/forgetful; run the same command again to continue"
    )
    assert not (near / "attentive").exists()
    done = study_command(file, "--json")
    assert done.returncode == 0, done.stderr
    return Finished(file, json.loads(done.stdout))


def test_the_plots_of_a_study_are_in_the_format_asked_for(finished: Finished) -> None:
    said = json.loads(study_command(finished.file, "--so-far", "--plots", "pdf", "--json").stdout)
    assert [Path(picture).name for picture in said["plots"]] == ["study.pdf", "groups.pdf"]
    assert all(Path(picture).read_bytes().startswith(b"%PDF") for picture in said["plots"])


def test_a_study_is_run_gone_on_with_and_answered(finished: Finished) -> None:
    runs = [finished.folder / part / who for part in ("near", "varied") for who in ("forgetful", "attentive")]
    said = finished.said
    answers = said["parts"]
    assert said["plots"] == [str(finished.folder / name) for name in ("study.png", "groups.png")]
    assert all(Path(picture).read_bytes().startswith(b"\x89PNG") for picture in said["plots"])
    for run in runs:
        assert len(list(read_attempts(run, Episode))) == WANTED
    assert read_manifest(runs[1]).config["suite"]["options"]["wording"] == "near"
    assert [answer["parts"] for answer in answers] == [["near"], ["varied"]]
    for answer, (first, last) in zip(answers, (runs[:2], runs[2:]), strict=True):
        assert {name: found["sentence"] for name, found in answer["verdicts"].items()} == {
            "forgetful": verdict(first).sentence,
            "attentive": verdict(last).sentence,
            "forgetful -> attentive": verdict(first, last).sentence,
        }
        page = Path(answer["report"])
        assert page == first.parent / "report.html"
        assert "<html" in page.read_text()[:200]
    again = study_command(finished.file)
    assert again.returncode == 0, again.stderr
    assert all(len(list(read_attempts(run, Episode))) == WANTED for run in runs)
    whole = answers[1]["verdicts"]["forgetful -> attentive"]["sentence"]
    assert f"  forgetful -> attentive: {whole}\n" in again.stdout
    (together,) = said["groups"]
    for who, rates in together["rates"].items():
        for arm, rate in rates.items():
            assert rate["count"] == sum(answer["rates"][who][arm]["count"] for answer in answers)
            assert rate["of"] == WANTED
            assert f"{rate['count']}/{WANTED} = " in again.stdout
    assert "both wordings (near, varied): solved at the first submission\n" in again.stdout
    assert f"in {2 * 3} worlds" in together["verdicts"]["attentive"]["sentence"]
    sentence = together["trainings"]["both learners"]["sentence"]
    assert sentence.startswith("Skills, over trainings: not measured: forgetful: `on` never learned")
    assert f"  both learners: {sentence}\n" in again.stdout


def test_a_study_that_was_begun_with_paths_of_the_working_directory_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(CONFIGS, "configs")
    short = ["learning.worlds=1", "learning.rounds=1", "learning.round_size=1", "learning.heldout.every=0"]
    options = [option for each in (*short, "learning.heldout.tasks=0", "run.concurrency=2") for option in ("-c", each)]
    before = ["configs/experiment.yaml", "learning.worlds=6", "learning.rounds=6", "learning.heldout.every=3"]
    before += ["suite.name=ledger", "model.options.capture=0.3", *options[1::2]]
    first = Path("runs/small/ledger/forgetful")
    sources = [option for each in before for option in ("-c", each)]
    begun = lab("experiment", *sources, "--out", first)
    assert begun.returncode == 0, begun.stderr
    ran = len(list(read_attempts(first, Episode)))
    done = study_command("configs/experiments/small.yaml", *options)
    assert done.returncode == 0, done.stderr
    assert len(list(read_attempts(first, Episode))) == ran
    assert len(list(Path("runs/small").glob("*/*/run.json"))) == 4


def test_a_study_of_the_package_is_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = lab("study", "configs/experiments/small.yaml", "--plan")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("runs/small/")


def test_a_plan_writes_nothing_and_names_every_run(study: Path, tmp_path: Path) -> None:
    said = study_command(study, "--plan", "-c", "learning.worlds=4")
    assert said.returncode == 0, said.stderr
    assert said.stdout.count("x 4 worlds") == 4
    plan = json.loads(study_command(study, "--plan", "--json").stdout)
    assert str(tmp_path / "runs" / "varied" / "forgetful") in plan["runs"]
    (together,) = plan["groups"]["both wordings"]
    (alone,) = plan["runs"][f"{tmp_path}/runs/near/attentive"]["power"]
    assert (together["worlds"], together["pairs"]) == (2 * 3, 2 * alone["pairs"])
    wider = json.loads(study_command(study, "--plan", "--json", "-c", "learning.worlds=6").stdout)
    assert together["sentence"] == wider["runs"][f"{tmp_path}/runs/near/attentive"]["power"][0]["sentence"]
    assert "both wordings:\n  power over all rounds: " in said.stdout
    learnt = json.loads(study_command(study, "--plan", "--json", "-c", "learning.heldout.tasks=2").stdout)
    both = learnt["groups"]["both wordings"]
    assert [(power["of"], power["pairs"]) for power in both] == [
        ("over all rounds", together["pairs"]),
        ("after learning", 2 * 3 * 2),
    ]
    assert not (tmp_path / "runs").exists()


def test_so_far_answers_from_the_runs_that_are_finished_and_runs_nothing(
    study: Path, finished: Finished, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    early = study_command(study, "--so-far")
    assert early.returncode == 2
    assert "no run of this study is finished" in early.stderr
    shutil.copytree(finished.folder, runs)
    whole = finished.said
    shutil.rmtree(runs / "varied" / "forgetful")
    episodes = next((runs / "near" / "attentive" / "episodes").glob("*.jsonl"))
    episodes.write_text("".join(episodes.read_text().splitlines(keepends=True)[:-1]))
    there = sorted(path for path in runs.rglob("episodes/*.jsonl"))
    said = json.loads(study_command(study, "--so-far", "--json").stdout)
    assert said["pending"] == [str(runs / "near" / "attentive"), str(runs / "varied" / "forgetful")]
    assert [list(part["rates"]) for part in said["parts"]] == [["forgetful"], ["attentive"]]
    assert said["parts"][1]["rates"]["attentive"] == whole["parts"][1]["rates"]["attentive"]
    assert said["groups"][0]["rates"]["forgetful"] == whole["parts"][0]["rates"]["forgetful"]
    assert sorted(path for path in runs.rglob("episodes/*.jsonl")) == there
    assert "not finished, left out: " in study_command(study, "--so-far").stdout


def with_an_error(run: Path) -> None:
    """The last episode that finished errored instead."""
    path = next((run / "episodes").glob("*.jsonl"))
    *kept, last = path.read_text().splitlines()
    error = {"kind": "model", "message": "400", "traceback": ""}
    changed = json.loads(last) | {"status": "errored", "error": error, "success": None, "score": None, "verdicts": []}
    path.write_text("\n".join([*kept, json.dumps(changed)]) + "\n")


def test_a_run_that_only_errors_left_incomplete_holds_up_no_other_and_has_results(
    study: Path, finished: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(finished.folder, tmp_path / "runs")
    broken = tmp_path / "runs" / "near" / "forgetful"
    with_an_error(broken)
    begun: list[Path] = []

    def run_plan(plan: RunPlan, **_: Any) -> int:
        """The episode errors again."""
        begun.append(plan.folder)
        return 3 if plan.folder == broken else 0

    monkeypatch.setattr(study_module, "run_plan", run_plan)
    assert study_module.study(study) == 3
    assert len(begun) == 4
    said = capsys.readouterr()
    assert f"incomplete, some episodes errored: {broken}; run the same command again to retry them" in said.err
    assert study_module.study(study, so_far=True, json=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["pending"] == []
    assert "forgetful" in found["parts"][0]["rates"]


def _groups_line(answer: subprocess.CompletedProcess[str]) -> bool:
    return "  exploratory: the groups were not registered before the first run\n" in answer.stdout


def test_groups_are_registered_before_the_first_run(finished: Finished) -> None:
    (group,) = finished.said["groups"]
    assert group["registered"]
    assert not any("registered" in part for part in finished.said["parts"])
    assert not _groups_line(study_command(finished.file, "--so-far"))


def test_groups_that_were_chosen_later_are_exploratory(study: Path, finished: Finished, tmp_path: Path) -> None:
    shutil.copytree(finished.folder, tmp_path / "runs", symlinks=True)
    written = study.read_text()
    study.write_text(written.replace("groups: {", "groups: {only one: [near], "))
    groups = json.loads(study_command(study, "--so-far", "--json").stdout)["groups"]
    assert [(group["name"], group["registered"]) for group in groups] == [("only one", False), ("both wordings", True)]
    study.write_text(written.replace("both wordings: [near, varied]", "both wordings: [near]"))
    assert _groups_line(study_command(study, "--so-far"))
    study.write_text(written)
    shutil.rmtree(tmp_path / "runs" / "near" / "attentive")
    assert not _groups_line(study_command(study, "--so-far")), "a run that is not finished changes no group"


def test_groups_with_a_run_to_which_worlds_were_added_are_exploratory(
    study: Path, finished: Finished, tmp_path: Path
) -> None:
    shutil.copytree(finished.folder, tmp_path / "runs", symlinks=True)
    study.write_text(study.read_text().replace("varied: []", "varied: [learning.worlds=4]"))
    answer = study_command(study, "--json")
    assert answer.returncode == 0, answer.stderr
    added = [str(tmp_path / "runs" / "varied" / variant) for variant in ("forgetful", "attentive")]
    (group,) = json.loads(answer.stdout)["groups"]
    assert (group["registered"], group["extended"]) == (False, added)
    said = study_command(study, "--so-far").stdout
    assert f"  exploratory: worlds were added to {', '.join(added)} after the groups were registered\n" in said
    assert said.count("the run was extended, which p and interval do not account for") >= 2


def test_groups_are_not_registered_once_an_episode_has_run(study: Path, finished: Finished, tmp_path: Path) -> None:
    shutil.copytree(finished.folder, tmp_path / "runs", symlinks=True)
    file = tmp_path / "runs" / "groups.json"
    file.unlink()
    assert _groups_line(study_command(study))
    assert not file.exists()


def test_registered_groups_that_were_edited_are_refused(study: Path, finished: Finished, tmp_path: Path) -> None:
    shutil.copytree(finished.folder, tmp_path / "runs", symlinks=True)
    file = tmp_path / "runs" / "groups.json"
    file.write_text(file.read_text().replace("both wordings", "all wordings"))
    refused = study_command(study, "--so-far")
    assert refused.returncode == 2
    assert f"error: {file}: was changed after it was registered" in refused.stderr
    file.write_text("{")
    assert f"error: {file}: not registered groups" in study_command(study, "--so-far").stderr


def test_a_mistake_in_the_last_part_is_told_before_the_first_is_run(study: Path, tmp_path: Path) -> None:
    study.write_text(study.read_text().replace("varied: []", "varied: [suite.options.wording=loud]"))
    failed = study_command(study)
    assert failed.returncode == 2
    (line,) = failed.stderr.splitlines()
    assert "suite.options.wording: give near, varied, far, not 'loud'" in line
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("given", [(), ("-c",)])
def test_a_study_given_to_experiment_is_refused_with_the_command_for_it(given: tuple[str, ...], study: Path) -> None:
    refused = lab("experiment", *given, study, "--plan", "--json")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == f"hermes-lab: error: {study} is a study; run it with `hermes-lab study {study}`\n"


def test_an_endpoint_of_the_environment_is_the_only_variant_in_a_folder_of_its_own(study: Path, tmp_path: Path) -> None:
    endpoint = {MODEL_URL: "http://127.0.0.1:9/v1", MODEL_NAME: "maker/large"}
    found = read_study(study, [], endpoint)
    assert [run.folder for run in found.runs] == [
        tmp_path / "runs-maker-large" / part / "maker-large" for part in ("near", "varied")
    ]
    sources = [str(tmp_path / "runs-maker-large" / "near" / "maker-large"), *found.runs[0].sources]
    assert "model.provider=openai" in sources
    assert "model.adapter=" in sources
    assert not any("capture" in source for source in sources)
    with pytest.raises(ConfigError, match=f"^{MODEL_NAME} is not set"):
        read_study(study, [], {MODEL_URL: "http://127.0.0.1:9/v1"})


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ("parts: {}", r"study.yaml:3: parts: give at least one"),
        ("parts: {../up: []}", r"study.yaml:3: parts: '../up' is not a valid folder name"),
        (
            "parts: {near: []}\nextra: 1",
            r"study.yaml:4: extra: unknown field; valid fields: out, shared, parts, variants",
        ),
        ("trainings: {all: [attentive]}", r"trainings.all: give at least two different variants"),
        ("trainings: {all: [attentive, other]}", r"trainings.all: no variant 'other'; choose from forgetful"),
        ("parts: {far: []}", r"groups.both wordings: no part 'near'; choose from far"),
        ("part: {near: []}", r"parts: is required \(also invalid: part\)"),
    ],
)
def test_a_file_that_is_none_is_told_by_line(study: Path, change: str, error: str) -> None:
    lines = study.read_text().splitlines()
    field = change.partition(":")[0]
    (*_, place) = [2, *(n for n, line in enumerate(lines) if line.startswith(f"{field}:"))]
    lines[place] = change
    study.write_text("\n".join(lines))
    with pytest.raises(ConfigError, match=error):
        read_study(study, [], {})


def test_an_override_is_of_the_file_or_of_every_run(study: Path, tmp_path: Path) -> None:
    found = read_study(study, [f"out={tmp_path}/other", "out.yaml", "learning.worlds=2"], {})
    assert found.folder == tmp_path / "other"
    assert all({"out.yaml", "learning.worlds=2"} <= set(run.sources) for run in found.runs)
    assert not any(source.startswith("out=") for run in found.runs for source in run.sources)


def test_an_override_holds_in_parts_and_variants_that_say_otherwise_too(study: Path) -> None:
    study.write_text(study.read_text().replace("varied: []", "varied: [learning.worlds=5, learning.rounds=3]"))
    found = read_study(study, ["learning.worlds=2", "model.options.capture=0.5"], {})
    configs = [load_config(run.sources) for run in found.runs]
    assert [(each.learning.worlds, each.model.options["capture"]) for each in configs] == [(2, 0.5)] * 4
    assert [each.learning.rounds for each in configs] == [4, 4, 3, 3]


def test_a_variant_can_run_some_parts_only(study: Path) -> None:
    written = study.read_text()
    study.write_text(written + "\nonly: {attentive: [varied]}\n")
    found = read_study(study, [], {})
    assert [(run.part, run.variant) for run in found.runs] == [
        ("near", "forgetful"),
        ("varied", "forgetful"),
        ("varied", "attentive"),
    ]
    plan = json.loads(lab("study", study, "--plan", "--json").stdout)
    study.write_text(written)
    assert json.loads(lab("study", study, "--plan", "--json").stdout)["groups"] == plan["groups"]
    for wrong, error in (
        ("{attentiv: [varied]}", r"only: no variant 'attentiv'; choose from forgetful, attentive"),
        ("{attentive: [far]}", r"only.attentive: no part 'far'; choose from near, varied"),
        ("{attentive: []}", r"only.attentive: give at least one part, or remove the variant"),
    ):
        study.write_text(f"{written}\nonly: {wrong}\n")
        with pytest.raises(ConfigError, match=error):
            read_study(study, [], {})


def test_variants_that_are_compared_must_be_there(study: Path) -> None:
    study.write_text(study.read_text().replace("[forgetful, attentive]", "[forgetful, tuned]"))
    with pytest.raises(ConfigError, match=r"compare: no variant 'tuned'; choose from forgetful, attentive$"):
        read_study(study, [], {})


def test_a_missing_adapter_of_a_later_variant_ends_a_study_before_its_first_run(tmp_path: Path) -> None:
    file = write_study(tmp_path)
    missing = f"model.provider=vllm, model.name=packaged, model.adapter={tmp_path}/nowhere"
    file.write_text(file.read_text().replace("attentive: []", f"attentive: [{missing}]"))
    refused = study_command(file)
    assert refused.returncode == 2
    said = f"error: variant attentive: model.adapter: '{tmp_path}/nowhere' is neither a folder nor `packaged`"
    assert said in refused.stderr
    assert not (tmp_path / "runs").exists()
