"""`hermes-lab config`: what a configuration is, what can be in one, and everything that is wrong with one."""

import json
import re
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
import yaml
from fakes.command import lab
from pydantic import BaseModel

from hermes_lab.config.fields import sections_of
from hermes_lab.config.schema import RunConfig
from hermes_lab.config.sources import load_config
from hermes_lab.runners.config_files import documented, kinds

ROOT = Path(__file__).parents[2]
CONFIGS = sorted(ROOT.glob("configs/**/*.yaml"))


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


# docs


def leaves(schema: type[BaseModel], at: str = "") -> set[str]:
    """The paths of all fields, found without `sections_of`; a second model is one field."""
    found = set()
    for name, field in schema.model_fields.items():
        path = f"{at}{name}"
        if get_origin(field.annotation) is dict:
            kind = get_args(field.annotation)[1]
            found |= {path, *(leaves(kind, f"{path}.NAME.") if hasattr(kind, "model_fields") else ())}
            continue
        items = get_args(field.annotation)
        if get_origin(field.annotation) is tuple and hasattr(items[0], "model_fields"):
            found |= {path, *leaves(items[0], f"{path}.NUMBER.")}
            continue
        arms = (field.annotation, *get_args(field.annotation))
        inner = next((arm for arm in arms if isinstance(arm, type) and issubclass(arm, BaseModel)), None)
        optional = type(None) in arms
        if inner is None or optional:
            found.add(path)
        if inner is not None and path != "auxiliary":
            found |= leaves(inner, f"{path}.")
    return found


@pytest.mark.parametrize("name", list(kinds()))
def test_every_field_is_documented_with_a_meaning(name: str) -> None:
    kind = kinds()[name]
    rows = [row for section in sections_of(kind.schema) for row in section.fields]
    assert {row.path for row in rows} == leaves(kind.schema)
    assert len(rows) == len({row.path for row in rows})
    for row in rows:
        assert row.meaning, row.path
        assert row.type, row.path
    assert all(section.meaning for section in documented(kind))


@pytest.mark.parametrize("name", list(kinds()))
def test_a_number_whose_text_names_a_unit_has_it_in_its_row(name: str) -> None:
    words = re.compile(r"\b(seconds|days|hours|characters|MB)\b|_(seconds|mb|days|hours|chars)\b|\btimeout\b")
    for section in sections_of(kinds()[name].schema):
        for row in section.fields:
            if re.match(r"integer|number", row.type) and words.search(f"{row.path} {row.meaning}".replace(".", " ")):
                assert row.unit, row.path


def test_a_row_says_what_the_schema_says() -> None:
    rows = {row.path: row for section in sections_of(RunConfig) for row in section.fields}
    assert rows["model.timeout"]._replace(meaning="") == ("model.timeout", "number > 0", "600.0", "seconds", "")
    assert rows["model.sampling.max_tokens"].type == "integer > 0, or null"
    assert rows["learning.arms"][1:3] == ("list of off | on | frozen | oracle | placebo", "[off, on]")
    assert rows["suite.path"].type == "path"
    study = {row.path: row for section in sections_of(kinds()["study"].schema) for row in section.fields}
    assert study["out"].default == "required"
    assert study["parts"].type == "mapping of names to list of YAML file or key=value"
    assert study["compare"][1:3] == ("list of 2: text, or null", "null")


def test_the_page_is_what_the_code_gives() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    assert page == lab("config", "docs", "--markdown").stdout, (
        "run: hermes-lab config docs --markdown > docs/configuration.md"
    )


def test_one_section_or_kind_can_be_asked_for() -> None:
    text = lab("config", "docs", "budget").stdout
    assert "budget.hours   0.0  (number >= 0; hours)" in text
    assert "model.name" not in text
    assert set(json.loads(lab("config", "docs", "--kind", "study", "--json").stdout)) == {"study"}
    assert lab("config", "docs", "nothing").stderr == (
        "hermes-lab: error: no field 'nothing'; `hermes-lab config docs` lists all\n"
    )


# show


def test_each_value_that_is_not_the_default_says_where_it_was_set(tmp_path: Path) -> None:
    file = written(
        tmp_path / "a.yaml", "model:\n  provider: scripted\n  name: tasks.learner:learner\nrun:\n  seed: 3\n"
    )
    shown = lab("config", "show", "-c", file, "-c", "run.seed=4", "-c", "suite.name=ledger", "--changed").stdout
    assert shown == (
        f"model:\n  provider: scripted  # {file}:2\n  name: tasks.learner:learner  # {file}:3\n"
        "suite:\n  name: ledger  # command line\nrun:\n  seed: 4  # command line\n"
    )
    whole = json.loads(lab("config", "show", "-c", file, "--json").stdout)
    assert whole["kind"] == "run"
    assert whole["origins"] == {"model.provider": f"{file}:2", "model.name": f"{file}:3", "run.seed": f"{file}:5"}
    assert whole["config"]["run"]["concurrency"] == 16


@pytest.mark.parametrize(
    "file", [file for file in CONFIGS if file.parent.name == "configs"], ids=lambda file: file.name
)
def test_what_is_shown_can_be_run(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    shown = written(tmp_path / "shown.yaml", lab("config", "show", "-c", file).stdout)
    monkeypatch.setattr("hermes_lab.config.sources.ignored_fields", lambda *_: ())  # defaults are written out, too
    again = load_config([str(shown)])
    was = load_config([str(file)])
    assert again.model_dump(exclude={"suite": {"path"}}) == was.model_dump(exclude={"suite": {"path"}})


@pytest.mark.parametrize(
    "override",
    [
        "model.headers={X-Key: SECRET, Authorization: Bearer SECRET}",
        "model.headers.Any=SECRET",
        "model.extra_body={api_key: SECRET, deep: {token: SECRET}}",
        "model.base_url=https://user:SECRET@host/v1?api-key=SECRET",
        "model.base_url=http://a/v1,https://host/v1?api-version=1&subscription_key=SECRET",
        "suite.options={password: SECRET}",
    ],
)
def test_no_secret_is_shown(override: str) -> None:
    for options in ([], ["--json"], ["--changed"]):
        shown = lab("config", "show", "-c", override, *options)
        assert shown.returncode == 0
        assert "SECRET" not in shown.stdout
        assert "***" in shown.stdout
    wrong = lab("config", "show", "-c", override, "-c", "run.seed=x")
    assert (wrong.returncode, "SECRET" in wrong.stderr) == (2, False)


def test_names_of_variables_are_shown() -> None:
    given = ["-c", "model.api_key_env=MY_KEY", "-c", "model.headers={Authorization: 'Bearer ${MY_TOKEN}'}"]
    shown = yaml.safe_load(lab("config", "show", *given).stdout)["model"]
    assert (shown["api_key_env"], shown["headers"]) == ("MY_KEY", {"Authorization": "Bearer ${MY_TOKEN}"})


def test_a_header_is_not_repeated_by_a_message() -> None:
    said = lab("config", "show", "-c", "model.provider=scripted", "-c", "model.headers.Any=SECRET").stderr
    assert said.startswith("hermes-lab: error: override model.headers.Any=***: ")


def test_trainings_and_studies_are_shown() -> None:
    shown = yaml.safe_load(lab("config", "show", "-c", ROOT / "configs/train/grpo.yaml").stdout)
    assert shown["name"] == "grpo"
    assert shown["lock"].endswith("configs/locks/grpo-cpu.yaml")
    assert "parts" in yaml.safe_load(lab("config", "show", "-c", ROOT / "configs/experiments/small.yaml").stdout)
    locked = lab("config", "show", "-c", ROOT / "configs/train/grpo.yaml", "-c", "learning_rate=1")
    assert "learning_rate is locked" in locked.stderr


# check


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_shipped_file_is_right(file: Path) -> None:
    result = lab("config", "check", file)
    assert (result.returncode, result.stdout.startswith(f"{file}: ok (")) == (0, True), result.stdout


def problems(*arguments: Any) -> list[str]:
    result = lab("config", "check", *arguments)
    assert result.returncode == 2
    return result.stdout.splitlines()


def test_all_mistakes_of_a_run_are_told_at_once_with_their_lines_and_remedies(tmp_path: Path) -> None:
    file = written(
        tmp_path / "run.yaml",
        "model:\n  provider: opnai\n  nmae: m\n  timeout: -1\n  merge: true\nsuite:\n  name: ledgr\n"
        "agent:\n  toolsets: [terminal, nope]\nsandbox:\n  image: debian\nskills:\n  library: missing/folder\n"
        "run:\n  samples: many\nwhatever: 1\n",
    )
    found = problems(file)
    lines = [int(line.removeprefix(f"{file}:").partition(": ")[0]) for line in found]
    assert lines == [2, 3, 4, 7, 9, 11, 13, 15, 16]
    text = "\n".join(found)
    assert f"{file}:2: model.provider: must be 'openai', 'anthropic'" in text
    assert "did you mean name?" in text
    assert f"{file}:4: model.timeout: " in text
    assert f"{file}:15: run.samples: must be an integer" in text
    assert f"{file}:11: sandbox.image is not used with sandbox.backend=bubblewrap" in text
    assert f"{file}:13: skills.library: no such file or folder" in text
    assert f"{file}:7: suite.name: no suite 'ledgr'; did you mean ledger?" in text
    assert f"{file}:9: agent.toolsets" in text
    rows = json.loads(lab("config", "check", file, "--json").stdout)["files"][0]["problems"]
    assert {row["field"] for row in rows} >= {"model.provider", "model.nmae", "sandbox.image", "suite.name"}


def test_a_file_that_is_right_alone_may_be_wrong_with_an_override(tmp_path: Path) -> None:
    file = written(tmp_path / "run.yaml", "suite: {name: ledger}\n")
    assert lab("config", "check", file).stdout == f"{file}: ok (run)\n"
    assert problems(file, "-c", "model.merge=true")[0].startswith("override model.merge=true: model.merge is not used")


def test_what_cannot_be_read_is_one_line_a_file(tmp_path: Path) -> None:
    broken, right = written(tmp_path / "a.yaml", "model: [\n"), written(tmp_path / "b.yaml", "")
    found = problems(broken, tmp_path / "none.yaml", right)
    assert len(found) == 3
    assert found[0].startswith(f"{broken}:2: ")
    assert found[1].startswith(f"{tmp_path}/none.yaml: cannot be read")
    assert found[2] == f"{right}: ok (run)"


def test_a_study_is_checked_run_by_run(tmp_path: Path) -> None:
    file = written(
        tmp_path / "study.yaml",
        "out: runs\nparts:\n  a: [suite.name=ledgr]\n  b: [suite.name=ledger, run.samples=0]\n"
        "variants:\n  one: [model.merge=true]\n  two: []\n",
    )
    found = problems(file)
    assert len(found) == 3
    assert found[0].startswith(f"{file}: part a, variant one: override model.merge=true: model.merge is not used")
    assert "part a, variant one: override suite.name=ledgr: suite.name: no suite 'ledgr'" in found[1]
    assert "part b, variant one: override run.samples=0: run.samples" in found[2]


def test_a_training_is_checked_with_its_lock_and_its_runs(tmp_path: Path) -> None:
    lock = written(tmp_path / "lock.yaml", (ROOT / "configs/locks/grpo-smoke.yaml").read_text())
    config = f"lock: {lock}\nrollouts: [suite.name=ledgr]\n"
    assert problems(written(tmp_path / "a.yaml", f"{config}learning_rate: 1\nnmae: x\n"))[0].startswith(
        f"{tmp_path}/a.yaml:3: learning_rate is locked at "
    )
    (found,) = problems(written(tmp_path / "b.yaml", config))
    assert found.startswith("rollouts: override suite.name=ledgr: suite.name: no suite 'ledgr'")
    written(lock, lock.read_text().replace("batch_size: ", "batch_size: 1"))
    assert "a locked field was changed by hand" in problems(tmp_path / "b.yaml")[0]
    assert "a locked field was changed by hand" in problems(lock)[0]
