"""`import hermes_lab as lab`: what scripts and notebooks use."""

import asyncio
import importlib
import json
import re
import shutil
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
import pytest
from fakes.command import lab as command
from fakes.openai_server import FakeOpenAIServer, Reply, function_call, running
from nbclient import NotebookClient

import hermes_lab as lab
from hermes_lab.analysis.curves import CURVES
from hermes_lab.analysis.curves.exponential import Exponential
from hermes_lab.analysis.fitting.forms import choose_series
from hermes_lab.runners import api

LEARNER: dict[str, Any] = {
    "model": {"provider": "scripted", "name": "hermes_lab.tasks.learner:learner"},
    "sandbox": {"backend": "local", "allow_local": True},
    "suite": {"name": "ledger"},
}
SMALL: dict[str, Any] = LEARNER | {
    "skills": {"review_every": 0},
    "suite": {"name": "ledger", "options": {"ruled": 1, "plain": 0}},
    "learning": {"arms": ["off", "on"], "worlds": 6, "rounds": 2, "heldout": {"tasks": 1, "every": 2}},
}


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> api.Run:
    return lab.experiment(SMALL, out=tmp_path_factory.mktemp("api") / "run", progress=False)


# ---- the package


def test_importing_the_package_loads_no_library() -> None:
    code = "import sys, hermes_lab; print([name for name in sys.argv[1:] if name in sys.modules])"
    heavy = ("torch", "pandas", "numpy", "pydantic", "matplotlib", "rich", "hermes_lab.runners")
    done = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_public_name_can_be_imported_and_is_listed() -> None:
    for name in lab.__all__:
        assert getattr(lab, name) is not None
    assert {*lab.__all__, "run", "experiment", "plan", "load", "fit", "plot", "compare", "report"} <= set(dir(lab))
    with pytest.raises(AttributeError, match="no attribute 'runs'"):
        importlib.import_module("hermes_lab").runs  # noqa: B018


# ---- sources


def test_sources_are_merged_left_to_right(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("suite: {name: ledger, count: 3}\nrun: {samples: 2}\nmodel: {name: of-the-file}\n")
    file = tmp_path / "a.yaml"
    merged = lab.load_config(file, "suite.count=4", {"suite": {"count": 5}, "model": {"name": "mine"}})
    assert (merged.suite.count, merged.run.samples, merged.model.name) == (5, 2, "mine")
    assert lab.load_config({"suite": {"count": 5}}, str(file), "model.name=x").suite.count == 3
    assert lab.load_config("model.name=x", {"suite": {"count": 5}}, "suite.count=6").suite.count == 6


def test_a_whole_configuration_replaces_what_stands_before_it_and_can_be_overridden() -> None:
    whole = lab.load_config(LEARNER, "suite.count=3")
    assert isinstance(whole, lab.RunConfig)
    merged = lab.load_config("run.samples=9", whole, {"suite": {"count": 4}})
    assert (merged.suite.count, merged.run.samples) == (4, 1)
    assert lab.load_config(whole) == whole


def test_mappings_take_values_of_all_kinds() -> None:
    merged = lab.load_config(
        {
            "model": {"name": "true", "sampling": {"temperature": None, "max_tokens": 7}, "headers": {"X-A": "1"}},
            "suite": {"path": Path("tasks.jsonl")},
            "learning": {"arms": ["off", "on"]},
            "agent.toolsets": ("terminal",),
            "web": {},
        }
    )
    assert (merged.model.name, merged.model.headers) == ("true", {"X-A": "1"})
    assert (merged.model.sampling.temperature, merged.model.sampling.max_tokens) == (None, 7)
    assert merged.suite.path == "tasks.jsonl"
    assert (merged.learning.arms, merged.agent.toolsets) == (("off", "on"), ("terminal",))


@pytest.mark.parametrize(
    ("sources", "says"),
    [
        (["nowhere.yaml"], "nowhere.yaml: cannot be read"),
        ([{"modle": {"name": "x"}}], "modle"),
        ([{"run": {"samples": 0}}], "run.samples"),
        ([LEARNER, "suite.name=lodger", "run.out=run"], "lodger"),
        ([LEARNER], "run.out: no folder for the run"),
    ],
)
def test_mistakes_are_configuration_errors(sources: list[Any], says: str) -> None:
    with pytest.raises(lab.ConfigError, match=says):
        lab.run(*sources)


# ---- runs


def test_run_writes_what_the_command_writes_and_resumes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = lab.run(LEARNER, "suite.count=2", out=tmp_path / "run", progress=False)
    assert run.complete
    assert run.folder == tmp_path / "run"
    assert capfd.readouterr() == ("", "")
    assert run.summary == json.loads(command("summary", run.folder, "--json").stdout)
    assert str(run) == repr(run) == f"{run.folder}: 2 of 2 episodes finished, 0 errored, 0 of 2 solved"
    assert Path(run) == run.folder
    with pytest.raises(lab.ConfigError, match="resume=True"):
        lab.run(LEARNER, "suite.count=2", out=run.folder, progress=False)
    assert lab.run(LEARNER, "suite.count=2", out=run, resume=True, progress=False) == run


def test_progress_is_lines_on_stderr_where_there_is_no_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lab.experiment(LEARNER, "learning.rounds=1", "learning.worlds=1", out=tmp_path / "run")
    shown = capfd.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("plan: ")
    assert "2/2 episodes in" in shown.err


def test_failed_episodes_are_counted_and_raise_nothing(tmp_path: Path) -> None:
    with running(FakeOpenAIServer([Reply(status=400, body={"error": {"message": "mad"}})])) as server:
        model = {"base_url": server.base_url, "name": "fake", "max_retries": 0}
        run = lab.run(LEARNER | {"model": model}, "suite.count=1", out=tmp_path / "run", progress=False)
    assert not run.complete
    assert run.problem.startswith("1 of 1 episodes are missing (model: ")
    assert run.problem.endswith("; resume=True runs them")
    assert run.problem in str(run)


def test_an_endpoint_that_is_down_is_an_infrastructure_error(tmp_path: Path) -> None:
    model = {"base_url": "http://127.0.0.1:9/v1", "name": "none", "max_retries": 0}
    with pytest.raises(lab.InfraError, match="cannot connect"):
        lab.run(LEARNER | {"model": model}, "suite.count=1", out=tmp_path / "run", progress=False)


def test_an_error_that_is_raised_on_purpose_has_a_short_traceback(tmp_path: Path) -> None:
    """With two servers it comes out of a task group."""
    asked = {"name": "fake", "max_retries": 0}
    with running(FakeOpenAIServer(["x"])) as one, running(FakeOpenAIServer(["x"])) as two:
        for urls, second in [
            (["http://127.0.0.1:9/v1"], {}),
            ([one.base_url, two.base_url], {"auxiliary": {**asked, "base_url": "http://127.0.0.1:9/v1"}}),
        ]:
            model = {**asked, "base_url": ",".join(urls)}
            sources = LEARNER | {"model": model} | second
            with pytest.raises(lab.InfraError, match="cannot connect") as caught:
                lab.run(sources, "suite.count=1", out=tmp_path / "run", progress=False)
            assert {Path(entry.path).name for entry in caught.traceback[1:]} == {"api.py"}
            assert len("".join(traceback.format_exception(caught.value)).splitlines()) < 20


@pytest.mark.parametrize("grouped", [False, True])
def test_a_mistake_in_code_keeps_its_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grouped: bool) -> None:
    def fails(*_: object, **__: object) -> None:
        mistake = ZeroDivisionError("a mistake")
        raise ExceptionGroup("tasks", [lab.InfraError("gone"), mistake]) if grouped else mistake

    monkeypatch.setattr(api, "execute_tracked", fails)
    with pytest.raises(ExceptionGroup if grouped else ZeroDivisionError) as caught:
        lab.run(LEARNER, "suite.count=1", out=tmp_path / "run", progress=False)
    assert caught.traceback[-1].name == "fails"
    assert "a mistake" in "".join(traceback.format_exception(caught.value))


def test_inside_a_running_event_loop(tmp_path: Path) -> None:
    async def main() -> api.Run:
        return lab.run(LEARNER, "suite.count=1", out=tmp_path / "run", progress=False)

    assert asyncio.run(main()).complete
    with pytest.raises(lab.ConfigError, match="already holds a run"):
        asyncio.run(main())


def test_plan_writes_nothing_and_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plan = lab.plan(SMALL)
    assert (plan.lanes, plan.episodes) == (12, 48)
    assert str(plan).splitlines()[0] == "plan: 2 arms (off, on) x 1 replicate x 6 worlds = 12 lanes"
    assert list(tmp_path.iterdir()) == []


# ---- analysis


def test_load_separates_phases(experiment: api.Run) -> None:
    learn, heldout, everything = (lab.load(experiment, phase=phase) for phase in ("learn", "heldout", "all"))
    assert set(learn["phase"]) == {"learn"}
    assert set(heldout["phase"]) == {"heldout"}
    assert len(everything) == len(learn) + len(heldout) == experiment.summary["finished"]
    assert list(lab.load(experiment, columns=["arm", "success"]).columns) == ["arm", "success"]
    assert len(lab.load(experiment, columns=["arm"])) == len(learn)
    with pytest.raises(lab.ConfigError, match="give a run folder"):
        lab.load()
    with pytest.raises(lab.ConfigError):
        lab.load("nowhere")


def test_episodes_are_those_of_the_run_with_their_trajectories(experiment: api.Run, tmp_path: Path) -> None:
    found = list(lab.episodes(experiment))
    assert len(found) == experiment.summary["finished"]
    assert all(isinstance(each, lab.Episode) and each.trajectory.messages for each in found)
    with pytest.raises(lab.ConfigError):
        lab.episodes(tmp_path)


def test_fit_gives_a_fit_for_each_series(experiment: api.Run) -> None:
    fits = lab.fit(experiment, draws=200)
    assert list(fits) == ["skills off", "skills on"]
    assert "not identified" in fits["skills off"].sentence()
    assert set(lab.fit(lab.load(experiment), by="family", draws=0)) == {"skills off, ledger", "skills on, ledger"}


@pytest.mark.parametrize("use", [lab.fit, lab.plot])
def test_frames_that_mix_phases_or_lack_columns_are_refused(
    use: Callable[[pd.DataFrame], Any], experiment: api.Run
) -> None:
    with pytest.raises(lab.ConfigError, match="mixes learning and held-out episodes"):
        use(lab.load(experiment, phase="all"))
    with pytest.raises(lab.ConfigError, match="lacks arm, experience"):
        use(lab.load(experiment, columns=["phase", "success"]))


def test_what_cannot_be_fitted_is_refused(experiment: api.Run) -> None:
    with pytest.raises(lab.ConfigError, match=r"no curve 'cubic'; choose from .*exponential"):
        lab.fit(experiment, curve="cubic")
    with pytest.raises(lab.ConfigError, match=r"curve: give a name, or an object that implements Curve, not a float"):
        lab.fit(experiment, curve=0.5)  # type: ignore[arg-type]
    with pytest.raises(lab.ConfigError, match=r"curve: give an instance, such as Exponential\(\), not the class"):
        lab.fit(experiment, curve=Exponential)  # type: ignore[arg-type]
    with pytest.raises(lab.ConfigError, match="no episode is scored"):
        lab.fit(lab.load(experiment).assign(success=pd.NA))


def test_plot_draws_into_given_axes_or_its_own(experiment: api.Run) -> None:
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    episodes = lab.load(experiment)
    own = lab.plot(episodes, lab.fit(episodes, draws=200), threshold=0.8)
    assert own.get_ylabel() == "solved at the first submission"
    _, ax = plt.subplots()
    assert lab.plot(lab.load(experiment, phase="heldout"), ax=ax) is ax
    assert ax.get_ylabel() == "held-out tasks solved at the first submission"
    lab.plot(episodes, ax=ax, out=experiment.folder / "curve.svg")
    assert b"solved at the first submission" in (experiment.folder / "curve.svg").read_bytes()
    with pytest.raises(lab.ConfigError, match=r"curve\.gif: no picture format"):
        lab.plot(episodes, out="curve.gif")
    plt.close("all")


def test_compare_prints_what_the_command_prints(experiment: api.Run) -> None:
    found = lab.compare(experiment)
    assert found.question == "skills"
    assert str(found) == command("compare", experiment.folder).stdout.rstrip("\n")
    chosen = lab.compare(experiment, arms=("on", "off"))
    assert str(chosen) == command("compare", experiment.folder, "--arms", "on,off").stdout.rstrip("\n")
    assert found.sentence == str(found).splitlines()[0]


def test_compare_has_the_warnings_of_its_runs(experiment: api.Run, tmp_path: Path) -> None:
    cut = shutil.copytree(experiment.folder, tmp_path / "cut")
    for path in (cut / "episodes").glob("*.jsonl"):
        path.write_text(re.sub('"stop_reason":"[^"]*"', '"stop_reason":"length"', path.read_text()))
    found = lab.compare(cut)
    (warning,) = (each for each in found.warnings if "ended with a reply truncated at" in each)
    assert warning.startswith(f"{cut}: ")
    assert str(found).splitlines()[-len(found.warnings) :] == [f"warning: {each}" for each in found.warnings]
    told = command("compare", cut)
    assert str(found).splitlines() == [*told.stdout.splitlines(), *told.stderr.splitlines()]
    assert lab.compare(experiment).warnings == ()


def test_further_arms_are_compared_with_the_first(tmp_path: Path) -> None:
    arms = ("off", "on", "oracle")
    run = lab.experiment(SMALL, {"learning": {"arms": list(arms)}}, out=tmp_path / "run", progress=False)
    found = lab.compare(run, arms=arms)
    assert [(each.comparison.before, each.comparison.after) for each in (found, *found.others) if each.comparison] == [
        ("off", "on"),
        ("off", "oracle"),
    ]
    assert str(found) == command("compare", run.folder, "--arms", ",".join(arms)).stdout.rstrip("\n")


def test_compare_of_two_runs(experiment: api.Run, tmp_path: Path) -> None:
    other = shutil.copytree(experiment.folder, tmp_path / "other")
    for path in (other / "episodes").glob("*.jsonl"):
        path.write_text(re.sub('"started_at":"[^"]*"', '"started_at":"2027-01-01T00:00:00Z"', path.read_text()))
    assert lab.compare(experiment, other, arms=("on",)).difference == 0
    assert lab.compare(experiment, other).question == "runs"


def test_a_run_that_is_given_twice_is_refused(experiment: api.Run) -> None:
    for use in (lab.load, lab.compare, lab.report):
        with pytest.raises(lab.ConfigError, match="the same run is given twice"):
            use(experiment, experiment.folder)


@pytest.mark.parametrize(
    ("use", "says"),
    [
        (lambda run: lab.load(run, phase="held-out"), "phase: give one of learn, heldout, all, not 'held-out'"),
        (lambda run: lab.load(run, columns="arm"), r"columns: give a list of names, such as \['arm'\]"),
        (lambda run: lab.load([run]), "give run folders, not a list"),
        (lambda run: lab.load(), "give a run folder"),
        (lambda run: lab.fit(run, by="nope"), "by: give one of series, domain, family"),
        (lambda run: lab.fit(run, draws=-1), "draws: give at least 200, or 0 for no intervals, not -1"),
        (lambda run: lab.fit(None), "give a run, or a frame from `load`, not a NoneType"),
        (lambda run: lab.plot(run, threshold=80), "threshold: give a success rate between 0 and 1"),
        (lambda run: lab.plot(lab.load(run)[:0]), "there is no episode to plot"),
        (lambda run: lab.compare(run, arms=("on", "on")), "two different arms of one run"),
        (lambda run: lab.compare(run, arms="on"), r"arms: give a list with .*, such as \['placebo', 'on'\], not 'on'"),
        (lambda run: lab.compare(lab.load(run)), "give run folders, not a DataFrame"),
        (lambda run: lab.report(), "give a run folder"),
        (lambda run: lab.report(run, out=run.folder), "is a folder; give a file"),
        (lambda run: lab.report(run, trajectories=-1), "trajectories: give at least 0"),
    ],
)
def test_wrong_arguments_are_named(use: Callable[[api.Run], Any], says: str, experiment: api.Run) -> None:
    with pytest.raises(lab.ConfigError, match=says):
        use(experiment)


def test_several_suites_are_no_learning_curve(experiment: api.Run) -> None:
    episodes = lab.load(experiment)
    mixed = pd.concat([episodes, episodes.assign(suite="other")])
    with pytest.raises(lab.ConfigError, match="episodes of several suites, ledger, other"):
        lab.fit(mixed)


def test_runs_with_other_settings_that_share_a_curve_are_warned_of(experiment: api.Run, tmp_path: Path) -> None:
    other = shutil.copytree(experiment.folder, tmp_path / "other")
    for path in (other / "episodes").glob("*.jsonl"):
        path.write_text(re.sub('"started_at":"[^"]*"', '"started_at":"2027-01-01T00:00:00Z"', path.read_text()))
    manifest = json.loads((other / "run.json").read_text())
    manifest["config"]["suite"]["seed"] += 1
    (other / "run.json").write_text(json.dumps(manifest))
    lab.fit(lab.load(experiment, other), draws=0)  # other tasks of the same suite
    manifest["config"]["agent"]["max_iterations"] += 1
    (other / "run.json").write_text(json.dumps(manifest))
    with pytest.warns(UserWarning, match=f"^{experiment.folder} and {other} differ in agent.max_iterations, but share"):
        lab.fit(lab.load(experiment, other), draws=0)


def test_a_curve_can_be_an_object_or_the_best_one(experiment: api.Run) -> None:
    constant = CURVES["constant"]
    assert {fit.curve for fit in lab.fit(experiment, curve=constant, draws=0).values()} == {constant}
    episodes = lab.load(experiment)
    for name, forms in choose_series(episodes).items():
        assert lab.fit(episodes, curve="best", draws=0)[name].curve.name == forms.chosen.name


def test_a_fit_shows_what_was_found(experiment: api.Run) -> None:
    assert repr(lab.fit(experiment, draws=0)["skills off"]).startswith("exponential: not identified: ")


@pytest.mark.parametrize(
    ("runs", "arms", "says"),
    [(1, ("on",), "two different arms"), (1, "on", "two different arms"), (2, ("off", "on"), "one arm of two runs")],
)
def test_arms_that_do_not_fit_are_refused(runs: int, arms: Any, says: str, experiment: api.Run, tmp_path: Path) -> None:
    with pytest.raises(lab.ConfigError, match=says):
        lab.compare(*[experiment, tmp_path][:runs], arms=arms)


def test_one_arm_cannot_be_compared(tmp_path: Path) -> None:
    run = lab.run(LEARNER, "suite.count=1", out=tmp_path / "run", progress=False)
    with pytest.raises(lab.ConfigError, match="has one arm"):
        lab.compare(run)


def test_report_is_one_file(experiment: api.Run, tmp_path: Path) -> None:
    assert lab.report(experiment) == experiment.folder / "report.html"
    assert lab.report(experiment, out=tmp_path / "r.html", trajectories=1) == tmp_path / "r.html"
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")


# ---- notebooks


def cells(*sources: str) -> Any:
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])


class Recorder(NotebookClient):
    """Keeps every version of what a notebook displays."""

    def __init__(self, notebook: Any, folder: Path, **options: Any) -> None:
        resources = {"metadata": {"path": str(folder)}}
        super().__init__(
            notebook, kernel_name="python3", timeout=300, startup_timeout=300, resources=resources, **options
        )
        self.displayed: list[str] = []

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        if msg["msg_type"] in ("display_data", "update_display_data"):
            self.displayed.append(msg["content"]["data"]["text/plain"])
        return super().process_message(msg, cell, cell_index)


def test_progress_in_a_notebook_is_one_display_that_is_updated(tmp_path: Path) -> None:
    isolated = {name: fields for name, fields in SMALL.items() if name != "sandbox"}  # else a warning is shown
    started = f"import hermes_lab as lab\nrun = lab.experiment({isolated!r}, 'learning.worlds=2', out='run')"
    notebook = cells(started, "run")
    client = Recorder(notebook, tmp_path)
    client.execute()
    plan, table = notebook.cells[0].outputs
    assert (plan.output_type, plan.name) == ("stream", "stdout")
    assert plan.text.startswith("plan: 2 arms (off, on)")
    assert table.output_type == "display_data"
    assert table.data["text/plain"].startswith("16/16 episodes in ")
    assert "\x1b" not in table.data["text/plain"]
    assert client.displayed[0].startswith("0/16 episodes in 0:00")
    assert client.displayed[-1] == table.data["text/plain"]
    assert notebook.cells[1].outputs[0].data["text/plain"].startswith("run: 16 of 16 episodes finished")


async def test_ctrl_c_in_a_notebook_leaves_nothing_running_and_resume_finishes(tmp_path: Path) -> None:
    seconds = "8641"
    (tmp_path / "tasks.jsonl").write_text("".join(f'{{"prompt": "{n}", "verify": "true"}}\n' for n in range(4)))

    def reply(body: dict[str, Any]) -> Reply:
        last = body["messages"][-1]
        if last["role"] == "user" and last["content"] in "23" and slow:
            return Reply(tool_calls=[function_call("call", "terminal", {"command": f"sleep {seconds}"})])
        return Reply("Done.")

    slow = True
    async with FakeOpenAIServer(reply) as server:
        model = {"base_url": server.base_url, "name": "fake"}
        run = f"lab.run({{'model': {model!r}, 'suite': {{'path': 'tasks.jsonl'}}}}, out='run'"
        notebook = cells(
            f"import psutil, hermes_lab as lab\n{run})",
            "print(psutil.Process().children(recursive=True))",
            f"print([p for p in psutil.process_iter(['cmdline']) if '{seconds}' in str(p.info['cmdline'])])",
            f"print({run}, resume=True, progress=False))",
        )
        client = Recorder(notebook, tmp_path, allow_errors=True)
        executed = asyncio.create_task(client.async_execute())
        log = tmp_path / "run" / "episodes"
        while not executed.done() and (len(server.requests) < 4 or _lines(log) < 2):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)  # until the command runs
        slow = False
        await client.km.interrupt_kernel()
        await client.km.interrupt_kernel()  # an impatient second one tears nothing
        await executed
    interrupted, children, sleeping, resumed = (cell.outputs for cell in notebook.cells)
    error = next(output for output in interrupted if output.output_type == "error")
    assert (error.ename, error.evalue) == ("Interrupted", "interrupted: 2 of 4 episodes are kept")
    assert [children[0].text, sleeping[0].text] == ["[]\n", "[]\n"]
    assert resumed[0].text == "run: 4 of 4 episodes finished, 0 errored, 4 of 4 solved\n"


def _lines(folder: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("*")) if folder.is_dir() else 0


def test_a_plot_refuses_fits_of_other_episodes(experiment: api.Run) -> None:
    learnt = api.load(experiment)
    fits = api.fit(learnt, draws=0)
    with pytest.raises(lab.ConfigError, match="was fitted to other episodes than those of the frame; fit this frame"):
        api.plot(learnt[learnt["experience"] > 0], fits)
    with pytest.raises(lab.ConfigError, match="the frame has no series 'skills off, "):
        api.plot(learnt, api.fit(learnt, by="domain", draws=0))
