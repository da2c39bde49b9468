"""`hermes-lab fit` on runs whose curves are known."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from fakes.command import lab
from fakes.episodes import record, write_run
from typer.testing import CliRunner

from hermes_lab.config.schema import RunConfig
from hermes_lab.errors import ConfigError
from hermes_lab.manifest import RunManifest
from hermes_lab.records import write_json
from hermes_lab.runners.cli import app
from hermes_lab.types import Episode, EpisodeError, MemoryUse, MemoryWrite, TaskInfo, Trajectory, Verdict

DOMAINS = ("code", "data", "web")
NOTE = MemoryWrite("add", "memory", "review", "", "m", "", "after", "Check the totals.")


def episode(success: bool, n: int, lane: str, domain: str) -> Episode:
    return record(
        task_id=f"{domain}{n}",
        lane=lane,
        round=n,
        experience=n,
        task=TaskInfo(domain=domain, split="train"),
        score=float(success),
        success=success,
        verdicts=(Verdict(float(success), success),),
        trajectory=Trajectory((), (), "native", "answered"),
        memory=MemoryUse("notes", (NOTE,)) if lane.startswith("on") else MemoryUse(),
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 lanes of 40 tasks that learn, 8 in each of three domains; and as many that do not."""
    folder = tmp_path_factory.mktemp("fit") / "run"
    draw = np.random.default_rng(0)
    episodes = [
        episode(
            bool(draw.random() < 0.9 - (0.7 if arm == "on" else 0.4) * np.exp(-rate * n)), n, f"{arm}-r{r}-w{w}", domain
        )
        for arm, rate in (("on", 0.12), ("off", 0.0))
        for w, domain in enumerate(DOMAINS)
        for r in range(8)
        for n in range(40)
    ]

    config = RunConfig().model_dump(mode="json")
    manifest = RunManifest(
        command="learn",
        config=config,
        config_digest="",
        tasks_digest="",
        wanted=len(episodes),
        created_at="",
        versions={},
    )
    write_json(folder / "run.json", manifest)
    return write_run(folder, *episodes)


def fit(run: Path, *options: str) -> str:
    done = CliRunner().invoke(app, ["fit", str(run), *options])
    assert done.exit_code == 0, done.output
    return done.output


def test_plain_output_is_a_line_a_series_and_the_picture(run: Path) -> None:
    lines = fit(run).splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("skills off: not identified: the constant model is as good")
    assert lines[1].startswith("skills on: initial 0.")
    assert lines[1].endswith("over 24 lanes of 3 worlds")
    assert lines[2] == f"plot: {run / 'plots' / 'learning-curve.png'}"
    assert (run / "plots" / "learning-curve.png").is_file()


@pytest.mark.parametrize("kind", ["profile", "wald"])
def test_other_intervals_are_named_in_the_sentence_and_in_json(run: Path, kind: str) -> None:
    line = fit(run, "--interval", kind, "--draws", "200").splitlines()[1]
    assert line.endswith(f"over 24 lanes of 3 worlds, {kind} intervals")
    found = json.loads(fit(run, "--interval", kind, "--draws", "200", "--json"))["skills on"]
    plain = json.loads(fit(run, "--draws", "200", "--json"))["skills on"]
    assert (found["intervals"], plain["intervals"]) == (kind, "bootstrap")
    assert (found["runs"], found["over"]) == (24, "24 lanes of 3 worlds")
    for name, parameter in found["parameters"].items():
        assert parameter["value"] == plain["parameters"][name]["value"]
        assert parameter["interval"] != plain["parameters"][name]["interval"]


def test_threshold_is_told_where_the_curve_is_identified(run: Path) -> None:
    lines = fit(run, "--threshold", "0.8").splitlines()
    (told,) = [line for line in lines if line.startswith("skills on: 80 % after ")]
    assert told.endswith("of bootstrap draws")
    assert "skills off: 80 %: not measured, since the curve is not identified" in lines


def test_best_shows_the_forms_and_whether_one_is_told(run: Path) -> None:
    out = fit(run, "--curve", "best")
    assert out.startswith("skills off, curves compared:\nform ")
    assert "skills off: form undecided: no form beats a constant; the exponential is fitted instead" in out


def test_named_curve_is_fitted(run: Path) -> None:
    assert "change " in fit(run, "--curve", "changepoint").splitlines()[1]


def test_domains_have_a_curve_each_and_no_picture(run: Path) -> None:
    lines = fit(run, "--by", "domain", "--draws", "200").splitlines()
    assert [line.split(":")[0] for line in lines] == [f"skills {arm}, {d}" for arm in ("off", "on") for d in DOMAINS]


def test_pooled_domains_lean_on_each_other(run: Path) -> None:
    lines = fit(run, "--pool", "--draws", "200").splitlines()
    assert "the 3 groups" in lines[0]
    assert [line.strip().split(":")[0] for line in lines[1:4]] == list(DOMAINS)


def test_a_domain_that_not_all_lanes_reached_is_named_and_not_pooled(run: Path, tmp_path: Path) -> None:
    """The first lane of each arm ends after 10 tasks; a fourth domain begins with the 20th."""
    other = tmp_path / "run"
    shutil.copytree(run, other)
    for path in (other / "episodes").glob("*.jsonl"):
        made = map(json.loads, path.read_text().splitlines())
        kept = [each for each in made if not (each["lane"].endswith("-r0-w0") and each["experience"] >= 10)]
        for each in kept:
            each["task"]["domain"] = "late" if each["experience"] >= 20 else each["task"]["domain"]
        path.write_text("".join(json.dumps(each) + "\n" for each in kept))
    why = "not measured: no scored episode in the range of experience that all lanes reached"
    lines = fit(other, "--pool", "--draws", "0").splitlines()
    assert [line for line in lines if "late" in line] == [f"skills off, late: {why}", f"skills on, late: {why}"]
    assert f"skills on, late: {why}" in json.loads(fit(other, "--pool", "--draws", "0", "--json"))["warnings"]


def test_json_holds_the_fit_the_threshold_and_the_forms(run: Path) -> None:
    found = json.loads(fit(run, "--json", "--threshold", "0.95", "--curve", "best", "--draws", "200"))
    on = found["skills on"]
    assert set(on["parameters"]) >= {"initial", "asymptote"}
    assert on["forms"]["forms"][0]["form"] == on["forms"]["best"]
    assert on["threshold"]["interval"][1] is None  # infinite
    assert found["plot"].endswith("learning-curve.png")


@pytest.mark.parametrize(("suffix", "start"), [("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_the_plot_is_in_the_format_of_its_suffix(run: Path, tmp_path: Path, suffix: str, start: bytes) -> None:
    done = lab("fit", run, "--draws", "0", "--plot", tmp_path / f"a.{suffix}")
    assert done.returncode == 0
    assert f"plot: {tmp_path}/a.{suffix}" in done.stdout
    assert (tmp_path / f"a.{suffix}").read_bytes().startswith(start)


def test_a_plot_that_cannot_be_written_is_refused_before_the_fit(run: Path, tmp_path: Path) -> None:
    for options, message in (
        (("--plot", tmp_path / "a.gif"), "no picture format; give a file that ends in .png, .svg, .pdf"),
        (("--plot", tmp_path / "a.pdf", "--by", "domain"), "--plot: a plot has one curve per series"),
    ):
        done = lab("fit", run, *options)
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr
    pooled = json.loads(fit(run, "--json", "--pool", "--draws", "200"))["pooled"]
    assert set(pooled["skills on"]["groups"]) == set(DOMAINS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--curve", "spline"), "curve: no curve 'spline'; choose from apex, changepoint"),
        (("--phase", "heldout"), "no held-out episode is scored; set learning.heldout.tasks"),
        (("--pool", "--curve", "best"), "all groups share one form; choose it with --curve"),
        (("--pool", "--by", "family"), "partial pooling needs at least 3 groups"),
        (("--pool", "--executor", "ray"), "pooled curves are fitted in this process"),
        (("--pool", "--interval", "wald"), "pooled curves have their own intervals"),
        (("--draws", "10"), "draws: give at least 200, or 0 for no intervals, not 10"),
        (("--curve", "changepoint", "--interval", "profile"), "the likelihood is not smooth in change"),
    ],
)
def test_bad_requests_are_one_clear_line(run: Path, options: tuple[str, ...], message: str) -> None:
    done = CliRunner().invoke(app, ["fit", str(run), *options])
    assert isinstance(done.exception, ConfigError)
    assert message in str(done.exception)


def test_without_draws_there_is_no_interval_and_nothing_is_identified(run: Path) -> None:
    on = json.loads(fit(run, "--draws", "0", "--json"))["skills on"]
    assert (on["identified"], on["reason"]) == (False, "no bootstrap draws, so no band and no threshold")
    assert on["parameters"]["rate"]["interval"] is None


def test_a_bootstrap_on_a_cluster_has_the_numbers_of_one_here(run: Path) -> None:
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    asked = ("--json", "--draws", "900", "--threshold", "0.7")
    assert json.loads(fit(run, *asked, "--executor", "ray")) == json.loads(fit(run, *asked))


def test_runs_with_other_settings_that_share_a_curve_are_named(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(run, other)
    for path in (other / "episodes").glob("*.jsonl"):
        path.write_text(re.sub('"started_at":"[^"]*"', '"started_at":"2027-01-01T00:00:00Z"', path.read_text()))
    manifest = json.loads((other / "run.json").read_text())
    manifest["config"]["agent"]["max_iterations"] = 3
    manifest["config"]["suite"]["seed"] = 5
    (other / "run.json").write_text(json.dumps(manifest))
    said = f"{run} and {other} differ in agent.max_iterations, but share their curves; fit each alone"
    assert said in fit(run, str(other), "--draws", "0").splitlines()
    assert said in json.loads(fit(run, str(other), "--draws", "0", "--json"))["warnings"]


@pytest.mark.parametrize("options", [("--draws", "0"), ("--pool", "--draws", "0")])
def test_an_unfinished_run_whose_rules_change_says_so_in_text_and_json(
    run: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    drifting = tmp_path / "drifting"
    shutil.copytree(run, drifting)
    manifest = json.loads((drifting / "run.json").read_text())
    manifest["wanted"] += 10
    manifest["config"]["suite"]["options"] = {"drift_at": 2}
    manifest["config"]["learning"]["rounds"] = 40
    (drifting / "run.json").write_text(json.dumps(manifest))
    unfinished = (
        f"{drifting}: 1920 of 1930 episodes finished; the run is in progress or was interrupted and --resume "
        "continues it"
    )
    said = [unfinished, f"{drifting}: the rules change at task 2, so a single curve does not describe this run"]
    assert set(said) <= set(fit(drifting, *options).splitlines())
    warnings = json.loads(fit(drifting, *options, "--json"))["warnings"]
    assert [warning for warning in warnings if warning in said] == said


def test_a_run_in_which_every_episode_errored_says_so(run: Path, tmp_path: Path) -> None:
    """Its tasks have a verifier."""
    errored = [
        record(task_id=f"t{n}", lane="on-r0-w0", status="errored", error=EpisodeError("model", why, ""))
        for n, why in enumerate(("no route to host", "no route to host", "timeout"))
    ]
    folder = write_run(tmp_path / "errored", *errored)
    shutil.copy(run / "run.json", folder)
    done = lab("fit", folder)
    assert done.returncode == 2
    assert f"{folder}: 3 of 3 episodes errored (most often model: no route to host); --resume runs them" in done.stderr
