"""Where the fields of a configuration come from: files, overrides, their paths and texts, and what would be ignored."""

import json
import os
import re
from contextlib import chdir
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
import yaml
from hypothesis import strategies as st

from hermes_lab.config.applies import RULES
from hermes_lab.config.schema import JudgeConfig, ModelConfig, RunConfig
from hermes_lab.config.section import Section
from hermes_lab.config.sources import absolute_paths, load_config, load_section, read_values
from hermes_lab.configs import find_config
from hermes_lab.envs.atropos.config import EnvConfig, load_env_config
from hermes_lab.errors import ConfigError
from hermes_lab.runners.experiments.study import StudyConfig, read_study
from hermes_lab.training.config import TrainConfig, load_train_config
from hermes_lab.training.grpo_config import GrpoConfig, load_grpo_config
from hermes_lab.training.lock import load_lock

ROOT = Path(__file__).parents[2]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory of its own, with a folder `conf`."""
    (tmp_path / "conf").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: str, content: Any) -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def error_of(*sources: str, schema: type[Section] = RunConfig) -> str:
    with pytest.raises(ConfigError) as error:
        load_section(schema, sources)
    assert "\n" not in str(error.value)
    return str(error.value)


# What would be ignored.


def test_a_field_that_the_provider_ignores_is_an_error_that_says_how_to_mend_it() -> None:
    assert error_of(str(ROOT / "configs/jsonl.yaml"), "model.base_url=http://host/v1") == (
        f"override model.base_url=http://host/v1: model.base_url is not used with model.provider=vllm ({ROOT}/configs/"
        "jsonl.yaml:3); add -c model.provider=openai (or anthropic, responses), or remove model.base_url"
    )


def test_the_file_that_sets_both_is_named_by_line(here: Path) -> None:
    file = write("a.yaml", "model:\n  base_url: http://host/v1\n  provider: scripted\n")
    assert error_of(file).startswith("a.yaml:2: model.base_url is not used with model.provider=scripted (a.yaml:3); ")


_CONTEXT = "model.server.max_model_len"


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (["model.sampling.max_tokens=4096"], "model.sampling.max_tokens=4096"),
        ([f"{_CONTEXT}=2048", "model.sampling.max_tokens=2048"], "model.sampling.max_tokens=2048"),
        ([f"{_CONTEXT}=512"], f"{_CONTEXT}=512"),
    ],
)
def test_a_reply_that_may_fill_the_context_of_the_managed_server_is_refused(given: list[str], named: str) -> None:
    base = ("suite.name=ledger", "model.name=x", "model.provider=vllm")
    said = error_of(*base, *given)
    assert said.startswith(f"override {named}: model.sampling.max_tokens=")
    assert f"leaves no room for a prompt in the server's context, {_CONTEXT}=" in said
    load_config([*base, *given, f"{_CONTEXT}=16384"])
    load_config([*base, *given, "model.sampling.max_tokens=null"])
    load_config([*base[:2], *(each for each in given if "server" not in each)])  # an endpoint has its own context


def test_the_record_of_a_run_whose_replies_could_fill_the_context_is_still_read() -> None:
    recorded = load_config(["suite.name=ledger", "model.provider=vllm"]).model_dump(mode="json")
    recorded["model"]["sampling"]["max_tokens"] = 4096
    assert load_config(["run.concurrency=2"], recorded).model.sampling.max_tokens == 4096


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("agent.max_cost=3", "agent.max_cost has no effect without a price"),
        (
            "model.extra_body={max_tokens: 9}",
            "model.extra_body.max_tokens would be ignored: set model.sampling.max_tokens",
        ),
        ("model.extra_body={temperature: 1}", "set model.sampling.temperature instead"),
        ("model.extra_body={max_completion_tokens: 5}", "set model.sampling.max_tokens instead"),
        ("model.extra_body={messages: []}", "model.extra_body.messages would be ignored: remove it"),
    ],
)
def test_what_never_acts_is_an_error_that_names_the_override(override: str, said: str) -> None:
    given = ("model.provider=openai", "model.name=x", "suite.name=ledger", override)
    assert error_of(*given).startswith(f"override {override}: ")
    assert said in error_of(*given)


@pytest.mark.parametrize(
    "overrides",
    [
        ("agent.max_cost=3", "model.price.prompt=1"),
        ("agent.max_cost=3", "auxiliary.name=y", "auxiliary.price.prompt=1"),
        ("model.extra_body={max_tokens: 9}", "model.sampling.max_tokens=null"),
        ("model.extra_body={chat_template_kwargs: {enable_thinking: false}, top_k: 5}",),
    ],
)
def test_what_acts_is_none(overrides: tuple[str, ...]) -> None:
    load_config(["model.provider=openai", "model.name=x", "suite.name=ledger", *overrides])


@pytest.mark.parametrize(
    ("sources", "field", "chosen"),
    [
        (["model.provider=vllm", "model.api_key_env=KEY"], "model.api_key_env", "model.provider=vllm"),
        (["model.merge=true"], "model.merge", "model.provider=openai"),
        (["model.server.port=8000"], "model.server.port", "model.provider=openai"),
        (["model.server={port: 8000}"], "model.server.port", "model.provider=openai"),
        (["model.options={a: 1}"], "model.options", "model.provider=openai"),
        (["model.options.a=1"], "model.options", "model.provider=openai"),
        (["model.prompt_cache=false"], "model.prompt_cache", "model.provider=openai"),
        (["model.provider=anthropic", "model.token_ids=true"], "model.token_ids", "model.provider=anthropic"),
        (["model.provider=responses", "model.sampling.seed=1"], "model.sampling.seed", "model.provider=responses"),
        (["model.provider=replay", "model.sampling.temperature=1"], "model.sampling.temperature", "provider=replay"),
        (["model.provider=scripted", "model.adapter=packaged"], "model.adapter", "model.provider=scripted"),
        (
            ["auxiliary.provider=replay", "auxiliary.base_url=http://x"],
            "auxiliary.base_url",
            "auxiliary.provider=replay",
        ),
        (["auxiliary.name=m", "auxiliary.server.port=1"], "auxiliary.server.port", "auxiliary.provider=openai"),
        (["agent.tool_format=hermes", "model.tool_parser=hermes"], "model.tool_parser", "agent.tool_format=hermes"),
        (["sandbox.image=debian"], "sandbox.image", "sandbox.backend=bubblewrap"),
        (["sandbox.allow_local=true"], "sandbox.allow_local", "sandbox.backend=bubblewrap"),
        (["run.ray.workers=2"], "run.ray.workers", "run.executor=local"),
        (["run.processes=2"], "run.processes", "run.executor=local"),
        (["memory.top_k=3"], "memory.top_k", "memory.vectors=off"),
        (["memory.vectors=sqlite", "memory.url_env=X"], "memory.url_env", "memory.vectors=sqlite"),
        (["web.timeout=3"], "web.timeout", "web.provider=none"),
        (["agent.distribution=all", "agent.toolsets=[file]"], "agent.toolsets", "agent.distribution=all"),
    ],
)
def test_each_selector_knows_its_fields(sources: list[str], field: str, chosen: str) -> None:
    error = error_of(*sources)
    assert f": {field} is not used with " in error
    assert chosen in error
    assert f"remove {field}" in error


@pytest.mark.parametrize(
    "sources",
    [
        # For a provider that a later source replaces.
        ["configs/demo.yaml", "model.provider=openai", "model.base_url=http://host/v1", "model.name=m"],
        [
            "configs/heldout.yaml",
            "model.provider=scripted",
            "model.name=hermes_lab.tasks.learner:learner",
            "model.merge=false",
        ],
        ["model.base_url=http://host/v1", "model.provider=vllm"],
        ["agent.toolsets=[core]", "agent.distribution=all"],
        # At its default.
        ["model.merge=false", "sandbox.image=python:3.11-slim", "memory.top_k=5", "model.server.port=0"],
        ["configs/demo.yaml", "model.provider=openai", "model.adapter=", "model.merge=false"],
        # Set, and taken back.
        ["model.merge=true", "model.merge=false"],
        # Used by any.
        ["model.provider=scripted", "model.price.prompt=1", "model.name=m"],
        ["model.provider=vllm", "model.sampling.top_k=5", "model.extra_body={a: 1}", "model.timeout=5"],
    ],
)
def test_what_is_used_dropped_or_at_its_default_is_no_error(
    sources: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    load_config(sources)


def test_a_dropped_value_stays_in_the_configuration_so_that_digests_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert load_config(["configs/demo.yaml", "model.provider=openai"]).model.merge is True


@pytest.mark.parametrize("override", ["model.api_key_env=sk-test-1", "model.api_key=sk-test-1"])
def test_a_key_is_never_repeated_or_stored(override: str) -> None:
    said = error_of("model.provider=openai", "suite.name=ledger", override)
    assert said.startswith(f"override {override.partition('=')[0]}=***: ")
    assert "sk-test" not in said


def test_naming_the_same_provider_again_hides_no_mistake(here: Path) -> None:
    file = write("a.yaml", {"model": {"provider": "vllm", "base_url": "http://host/v1"}})
    assert "model.base_url is not used with model.provider=vllm" in error_of(file, "model.provider=vllm")


def test_a_stored_configuration_is_not_checked_but_what_is_put_over_it_is() -> None:
    base = RunConfig(model=ModelConfig(provider="vllm", base_url="http://old/v1")).model_dump(mode="json")
    assert load_config(["run.samples=2"], base).model.base_url == "http://old/v1"
    with pytest.raises(ConfigError, match=r"model\.base_url is not used with model\.provider=vllm"):
        load_config(["model.base_url=http://new/v1"], base)


def test_the_table_names_fields_and_values_that_exist() -> None:
    config = RunConfig(auxiliary=ModelConfig(), judge=JudgeConfig()).model_dump()
    for rule in RULES:
        for name in (rule.selector, *rule.fields):
            value: Any = config
            for part in name.split("."):
                value = value[part]
        for choice in rule.values:
            load_config([f"{rule.selector}={choice}"])


# Paths.


def test_paths_in_a_file_are_relative_to_it_and_those_of_an_override_to_the_working_directory(here: Path) -> None:
    write("conf/tasks.jsonl", "")
    file = write("conf/run.yaml", {"suite": {"path": "tasks.jsonl"}, "run": {"out": "../runs/x"}})
    config = load_config([file])
    assert (config.suite.path, config.run.out) == ("conf/tasks.jsonl", "runs/x")
    assert load_config([file, "suite.path=data/tasks.jsonl"]).suite.path == "data/tasks.jsonl"
    assert load_config([str(here / file)]).suite.path == str(here / "conf/tasks.jsonl")
    os.chdir("conf")
    assert load_config(["run.yaml"]).suite.path == "tasks.jsonl"


def test_files_of_ssh_and_of_mcp_servers_are_relative_to_their_file_too(here: Path) -> None:
    write("conf/key", "")
    servers = {"s": {"command": "/usr/bin/python3", "installed": ["key"]}}
    content = {"sandbox": {"backend": "ssh", "ssh": {"host": "h", "key_file": "key"}}, "mcp": {"servers": servers}}
    config = load_config([write("conf/run.yaml", content)])
    assert config.sandbox.ssh.key_file == "conf/key"
    assert config.mcp.servers["s"].installed == ("conf/key",)
    assert "conf/gone" in error_of(write("conf/bad.yaml", content | {"sandbox": {"ssh": {"key_file": "gone"}}}))


def test_a_later_source_decides_whose_folder_counts(here: Path) -> None:
    write("conf/tasks.jsonl", "")
    write("tasks.jsonl", "")
    first = write("conf/a.yaml", {"suite": {"path": "tasks.jsonl", "seed": 1}})
    second = write("b.yaml", {"suite": {"path": "tasks.jsonl"}})
    assert load_config([first, second]).suite.path == "tasks.jsonl"
    assert load_config([second, first]).suite.path == "conf/tasks.jsonl"


def test_a_path_that_a_file_names_and_is_not_there_is_told_with_its_line_and_the_rule(here: Path) -> None:
    write("tasks.jsonl", "")
    file = write("conf/run.yaml", "suite:\n  path: tasks.jsonl\n")
    assert error_of(file) == (
        "conf/run.yaml:2: suite.path: no such file or folder: conf/tasks.jsonl (paths in a file are "
        "relative to that file; write ../tasks.jsonl)"
    )
    write("conf/run.yaml", {"suite": {"path": "../tasks.jsonl"}})
    assert load_config([file]).suite.path == "tasks.jsonl"


@pytest.mark.parametrize(
    ("given", "provider", "name"),
    [
        ("weights", "vllm", "conf/weights"),
        ("./new", "vllm", "conf/new"),
        ("../new", "vllm", "new"),
        ("packaged", "vllm", "packaged"),
        ("owner/model", "vllm", "owner/model"),
        ("weights", "openai", "weights"),
        ("hermes_lab.tasks.learner:learner", "scripted", "tasks.learner:learner"),
        ("run", "replay", "conf/run"),
        ("/abs/weights/", "vllm", "/abs/weights/"),
        ("~/weights", "vllm", str(Path.home() / "weights")),
    ],
)
def test_what_may_be_a_name_is_a_path_where_it_is_one(here: Path, given: str, provider: str, name: str) -> None:
    for folder in ("weights", "run", "packaged"):
        (here / "conf" / folder).mkdir()
    file = write("conf/run.yaml", {"model": {"provider": provider, "name": given}})
    assert load_config([file]).model.name == name


def test_adapters_and_libraries_are_paths_where_they_are(here: Path) -> None:
    for folder in ("conf/adapter", "conf/skills", "runs/one", "conf/@x"):
        (here / folder).mkdir(parents=True)

    def config(adapter: str, library: str) -> RunConfig:
        content = {
            "model": {"adapter": adapter},
            "learning": {"adapters": ["", adapter, "packaged"]},
            "skills": {"library": library},
        }
        return load_config([write("conf/run.yaml", content)])

    found = config("adapter", "skills")
    assert (found.model.adapter, found.skills.library) == ("conf/adapter", "conf/skills")
    assert found.learning.adapters == ("", "conf/adapter", "packaged")
    assert config("served-name", "../runs/one:on-r0-w0").model.adapter == "served-name"
    for given, meant in {
        "../runs/one:on-r0-w0": "runs/one:on-r0-w0",
        "../runs/one@0123456789abcdef": "runs/one@0123456789abcdef",
        "0123456789abcdef": "0123456789abcdef",
        "@0123456789abcdef": "@0123456789abcdef",
        "": "",
    }.items():
        assert config("served-name", given).skills.library == meant
    with pytest.raises(
        ConfigError, match=r"skills\.library: no such file or folder: conf/runs/one \(paths.*write \.\./runs/one\)"
    ):
        config("served-name", "runs/one:on-r0-w0")


def test_a_name_that_is_a_path_from_the_working_directory_alone_is_refused(here: Path) -> None:
    (here / "runs/adapter").mkdir(parents=True)
    file = write("conf/run.yaml", {"model": {"adapter": "runs/adapter"}})
    assert error_of(file).endswith(
        "model.adapter: no such file or folder: conf/runs/adapter (paths in a file are relative to that file; write "
        "../runs/adapter)"
    )


def test_the_auxiliary_model_has_paths_too(here: Path) -> None:
    (here / "conf/run").mkdir()
    file = write("conf/run.yaml", {"auxiliary": {"provider": "replay", "name": "run"}})
    auxiliary = load_config([file]).auxiliary
    assert auxiliary
    assert auxiliary.name == "conf/run"


def test_sources_in_a_study_are_relative_to_the_study(here: Path) -> None:
    write("conf/base.yaml", {"run": {"samples": 1}})
    write("conf/tasks.jsonl", "")
    (here / "conf/skills").mkdir()
    content = {
        "out": "../runs/study",
        "shared": ["base.yaml", "skills.library=skills", "suite.name=ledger"],
        "parts": {"one": ["suite.seed=1"]},
        "variants": {
            "file": ["suite.name=", "suite.path=tasks.jsonl"],
            "weights": ["learning.adapters=['', ./a b]", "model={adapter: ../c, name: m}"],
        },
    }
    study = read_study(Path(write("conf/study.yaml", content)), ["suite.seed=2"], {})
    assert study.folder == Path("runs/study")
    assert study.runs[0].sources[:2] == ["conf/base.yaml", "skills.library=conf/skills"]
    file, weights = (load_config(run.sources) for run in study.runs)
    assert (file.suite.path, file.skills.library, file.suite.seed) == ("conf/tasks.jsonl", "conf/skills", 2)
    assert (weights.learning.adapters, weights.model.adapter) == (("", "conf/a b"), "c")
    write("base.yaml", "")
    content["shared"] = ["run.samples=1", "other.yaml"]
    error = error_of(write("conf/study.yaml", yaml.safe_dump(content, sort_keys=False)), schema=StudyConfig)
    assert re.fullmatch(
        r"conf/study\.yaml:4: shared: no such file or folder: conf/other\.yaml \(paths in a file are.*\)", error
    )


def test_a_training_names_its_files_from_its_own_folder(here: Path) -> None:
    (here / "runs/demo/episodes").mkdir(parents=True)
    write("conf/locks/a.yaml", "")
    write("conf/rollouts.yaml", "")
    training = {"lock": "locks/a.yaml", "data": ["../runs/demo"], "adapters": "../adapters", "parent": "sft-v1"}
    config = load_train_config([write("conf/sft.yaml", training)])
    assert (config.lock, config.data, config.adapters) == ("conf/locks/a.yaml", ("runs/demo",), "adapters")
    assert config.parent == "sft-v1"
    grpo = {"lock": "locks/a.yaml", "rollouts": ["rollouts.yaml", "suite.name=ledger"], "out": "g"}
    assert load_grpo_config([write("conf/grpo.yaml", grpo)]).rollouts == ("conf/rollouts.yaml", "suite.name=ledger")
    assert load_grpo_config(["conf/grpo.yaml"]).out == "conf/g"
    written = absolute_paths(TrainConfig, config.model_dump(mode="json", exclude_unset=True))
    assert load_train_config([write("elsewhere/p.yaml", written)]).data == (str(here / "runs/demo"),)
    held = absolute_paths(GrpoConfig, {"rollouts": ["conf/rollouts.yaml", "suite.path=x.jsonl", "run.samples=2"]})
    assert held["rollouts"] == [str(here / "conf/rollouts.yaml"), f"suite.path={here}/x.jsonl", "run.samples=2"]


def test_an_old_training_file_says_what_to_write(here: Path) -> None:
    write("conf/locks/a.yaml", "")
    (here / "runs/demo/episodes").mkdir(parents=True)
    file = write("conf/train/sft.yaml", "lock: conf/locks/a.yaml\ndata: [../../runs/demo]\n")
    assert error_of(file, schema=TrainConfig) == (
        "conf/train/sft.yaml:1: lock: no such file or folder: conf/train/conf/locks/a.yaml (paths in a file are "
        "relative to that file; write ../locks/a.yaml)"
    )
    write(file, "lock: ../locks/a.yaml\ndata: [runs/demo]\n")
    assert error_of(file, schema=TrainConfig).endswith("that file; write ../../runs/demo)")


# Texts.


@pytest.mark.parametrize(
    "text",
    [
        *("3:30", "1_000", "0o17", "017", "1.10", "1e3", "0x1F", "on", "off", "yes", "No", "true", "2024-10-21", "="),
        *("a: b", "my #1", "[x].jsonl", "{x", "*x", "!x", "&x y", "~x"),
    ],
)
def test_a_text_field_of_an_override_is_what_was_written(text: str) -> None:
    assert load_config([f"model.name={text}"]).model.name == text
    assert load_config([f"model.name='{text}'"]).model.name == text


@pytest.mark.parametrize("null", ["null", "~", " NULL "])
def test_null_is_none_unless_it_is_quoted(here: Path, null: str) -> None:
    assert load_config([f"model.api_key_env={null}"]).model.api_key_env is None
    assert error_of(f"suite.split={null}") == f"override suite.split={null}: suite.split: must be text"
    assert error_of(write("a.yaml", f"suite: {{split: {null}}}\n")) == "a.yaml:1: suite.split: must be text"
    assert load_config([f"suite.split='{null}'"]).suite.split == null
    assert load_config([f"agent.program={null}"]).agent.program == ""  # earlier versions took it


def test_a_path_can_be_the_home_directory() -> None:
    assert load_config(["sandbox.backend=bubblewrap", "skills.library=~"]).skills.library == str(Path.home())


@pytest.mark.parametrize("text", ["3:30", "1_000", "0o17", "017", "1.10", "1e3", "on", "yes", "true", "2024-10-21"])
def test_a_text_field_of_a_file_is_what_was_written(here: Path, text: str) -> None:
    file = write("a.yaml", f"model: {{name: {text}, headers: {{X: {text}}}, sampling: {{stop: [{text}]}}}}\n")
    model = load_config([file]).model
    assert (model.name, model.headers, model.sampling.stop) == (text, {"X": text}, (text,))


def test_fields_that_are_no_texts_are_read_as_numbers_and_switches(here: Path) -> None:
    file = write(
        "a.yaml",
        "model:\n  stream: on\n  timeout: 1e3\n  extra_body: {a: 1, b: off, c: 1e-3, d: 3:30, e: 2024-10-21, 4: x}\n"
        "learning: {arms: [off, on]}\nmemory: {vectors: off}\n",
    )
    config = load_config([file])
    assert (config.model.stream, config.model.timeout) == (True, 1000.0)
    assert config.model.extra_body == {"a": 1, "b": False, "c": 0.001, "d": "3:30", "e": "2024-10-21", "4": "x"}
    assert (config.learning.arms, config.memory.vectors) == (("off", "on"), "off")
    assert load_config(["learning.arms=[on, off]"]).learning.arms == ("on", "off")
    assert error_of("run.concurrency=1_0") == "override run.concurrency=1_0: run.concurrency: must be an integer"
    assert "model.timeout: must be a number" in error_of("model.timeout=3:30")


# Written on one line of JSON, which is YAML; no text has a line break.
TEXTS = st.text(st.characters(categories=("L", "N", "P", "S", "Zs")), max_size=6) | st.sampled_from(
    ["null", "~", "'x'", '"x"', "[a]", "true", "1.10", "3:30", "a: b", "${HOME}", "#"]
)
SCALARS = st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    SCALARS | TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "model": st.fixed_dictionaries(
            {},
            optional={
                "name": TEXTS | SCALARS,
                "api_key_env": st.none() | st.sampled_from(["KEY", "null", ""]) | VALUES,
                "headers": st.dictionaries(TEXTS, TEXTS | SCALARS, max_size=3),
                "extra_body": st.dictionaries(TEXTS, VALUES, max_size=3),
                "sampling": st.fixed_dictionaries({}, optional={"temperature": SCALARS, "stop": VALUES}),
                "timeout": SCALARS | TEXTS,
                "stream": SCALARS | TEXTS,
            },
        ),
        "suite": st.fixed_dictionaries({}, optional={"split": TEXTS, "options": st.dictionaries(TEXTS, VALUES)}),
        "auxiliary": st.none() | st.fixed_dictionaries({"name": TEXTS}),
        "run": SCALARS | TEXTS | st.lists(VALUES, max_size=2),
    },
)


def loaded(source: Any) -> RunConfig | str:
    """The configuration, or the message without its place."""
    try:
        return load_config([source])
    except ConfigError as error:
        return re.sub(
            r"^(?:override .*?|\S+:\d+): (?=(?:model|suite|auxiliary|run)[.:])", "", str(error), flags=re.DOTALL
        )


@hypothesis.given(FIELDS)
def test_a_mapping_means_what_it_means_in_a_file(tmp_path_factory: pytest.TempPathFactory, fields: Any) -> None:
    file = tmp_path_factory.getbasetemp() / "mapping.yaml"
    file.write_text(json.dumps(fields, ensure_ascii=False))
    assert loaded(fields) == loaded(str(file))


def test_a_mapping_takes_sections_dots_and_values_of_python() -> None:
    given = {"model.headers": {"X.Y": 1}, "suite": {"options.n": (1, 2), "count": np.int64(3), "path": Path("x")}}
    config = load_config([given, {"model": {"headers": {"Z": "'q'"}, "name": 1.5, "api_key_env": None}}])
    assert config.model.headers == {"X.Y": "1", "Z": "'q'"}
    assert (config.model.name, config.model.api_key_env) == ("1.5", None)
    assert (config.suite.options, config.suite.count, config.suite.path) == ({"n": [1, 2]}, 3, "x")


def test_a_mistake_in_a_mapping_is_told_with_its_field_and_without_secrets() -> None:
    def said(fields: dict[str, Any]) -> str:
        with pytest.raises(ConfigError) as error:
            load_config([fields])
        return str(error.value)

    assert said({"run": {"samples": 0}}).startswith("override run.samples=0: run.samples: ")
    assert said({"run": {"samples": "4"}}) == "override run.samples=4: run.samples: must be an integer"
    assert said({"suite": {"options": {"a": ["\0"]}}}) == (
        "suite.options.a.0: contains a NUL character; use plain UTF-8 text"
    )
    assert "sk-1" not in said({"model": {"headers": {"X": {"sk-1": 1}}}})


def test_keys_of_a_study_are_texts(here: Path) -> None:
    content = "out: x\nparts: {2024-10-21: [suite.name=ledger]}\nvariants: {off: [], 1: [], on: []}\n"
    study = read_study(Path(write("a.yaml", content)), [], {})
    assert [(run.part, run.variant) for run in study.runs] == [("2024-10-21", name) for name in ("off", "1", "on")]


@pytest.mark.parametrize("content", ["model: " + "[" * 20_000, "a: &a [*a]", "x: " + "{a: " * 20_000 + "}" * 20_000])
def test_yaml_that_is_nested_too_deeply_is_told_in_one_line(here: Path, content: str) -> None:
    assert error_of(write("a.yaml", content)) in (
        "a.yaml:1: nested too deeply",
        "a.yaml:1: a.0: contains itself through an alias",
    )
    error_of("model.extra_body=" + "[" * 20_000 + "]" * 20_000)


def test_a_mistake_in_the_auxiliary_model_is_told_with_its_place_and_its_fields(here: Path) -> None:
    file = write("a.yaml", "auxiliary:\n  name: m\n  timeout: -1\n")
    assert error_of(file).startswith("a.yaml:3: auxiliary.timeout: ")
    assert load_config([file, "auxiliary=null"]).auxiliary is None
    error = error_of(file, "auxiliary=null", "auxiliary.top_p=1")
    assert error.startswith(
        "override auxiliary.top_p=1: auxiliary.top_p: unknown field; valid fields: provider, name, "
    )


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("model.max_tokens=8", "model.sampling.max_tokens"),
        ("max_rounds=8", ""),
        ("model.samples=1", "run.samples"),
    ],
)
def test_a_field_of_another_section_is_suggested(given: str, meant: str) -> None:
    error = error_of(given)
    assert error.endswith(f"; did you mean {meant}?") if meant else "did you mean" not in error


# What is shipped.

FILES = sorted(ROOT.glob("configs/*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_shipped_configuration_loads_from_anywhere(file: Path, here: Path) -> None:
    load_config([str(file)])


@pytest.mark.parametrize("file", sorted(ROOT.glob("configs/experiments/*.yaml")), ids=lambda file: file.stem)
def test_every_shipped_study_loads_and_writes_where_it_always_did(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    study = read_study(file.relative_to(ROOT), [], {})
    assert study.folder == Path("runs") / file.stem
    configs = [load_config(run.sources) for run in study.runs]
    assert {config.skills.library for config in configs} <= {"", "configs/experiments/library"}
    endpoint = {"HERMES_LAB_MODEL_URL": "http://host/v1", "HERMES_LAB_MODEL_NAME": "m"}
    for run in read_study(file, [], endpoint).runs:
        assert load_config(run.sources).model.provider == "openai"


def test_every_shipped_training_finds_its_lock_and_its_rollouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    grpo = load_grpo_config(["configs/train/grpo.yaml"])
    assert (grpo.lock, grpo.out) == ("configs/locks/grpo-cpu.yaml", "runs/grpo")
    assert (grpo.rollouts, grpo.heldout[0]) == (("configs/rollouts.yaml",), "configs/rollouts.yaml")
    for method in ("sft", "preference"):
        values = read_values(TrainConfig, [f"configs/train/{method}.yaml"])
        load_lock(Path(values["lock"]))
    assert isinstance(load_env_config(["configs/env/atropos.yaml"]), EnvConfig)


def test_an_endpoint_has_limits_that_a_model_of_today_can_work_in() -> None:
    plain, thinking = (load_config([str(ROOT / f"configs/{name}.yaml")]) for name in ("endpoint", "thinking"))
    assert plain.model.provider == thinking.model.provider == "openai"
    assert (plain.agent.prompt, plain.agent.tool_format) == ("full", "native")
    assert (plain.model.sampling.temperature, plain.model.sampling.top_p) == (None, None)
    assert (thinking.model.sampling.temperature, thinking.model.sampling.top_p) == (0.6, 0.95)
    assert thinking.model.sampling.max_tokens == 8 * (plain.model.sampling.max_tokens or 0) == 32_768
    assert thinking.agent.max_tokens > plain.agent.max_tokens
    assert thinking.model.timeout > plain.model.timeout


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            'agent:\n  settings:\n    a:\n      - "x\\ud800"\n',
            r"run\.yaml:4: agent\.settings\.a\.0: contains a lone surrogate",
        ),
        ('agent:\n  settings:\n    "\\udfff": 1\n', r"run\.yaml:2: agent\.settings: contains a lone surrogate"),
        ("model: &a {name: *a}\n", r"run\.yaml:1: model\.name: contains itself through an alias"),
    ],
)
def test_what_is_no_text_is_refused_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "run.yaml").write_text(text)
    with pytest.raises(ConfigError, match=told):
        load_config([str(tmp_path / "run.yaml")])


def test_an_override_in_another_encoding_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^override model\.name: its value is not UTF-8 text$"):
        load_config(["model.name=a\udcff"])


def test_a_field_that_is_set_twice_is_refused_with_both_lines(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("model:\n  name: a\nrun: {seed: 1}\nmodel:\n  name: b\n")
    with pytest.raises(ConfigError, match=r"run\.yaml:4: model: is set twice, first in line 1; keep one of the two"):
        load_config([str(tmp_path / "run.yaml")])


def test_a_file_of_the_package_is_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_config(["configs/one-rule.yaml"]).suite.name
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "one-rule.yaml").write_text("suite: {name: mine}")
    assert load_config(["configs/one-rule.yaml"]).suite.name == "mine"
    with pytest.raises(ConfigError, match=r"configs/none\.yaml: cannot be read"):
        load_config(["configs/none.yaml"])


def test_files_of_the_packages_folders_are_found_and_their_outputs_stay_in_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    grpo = load_grpo_config(["configs/train/grpo.yaml"])
    assert grpo.out == "runs/grpo"
    assert load_lock(Path(grpo.lock)) == load_lock(ROOT / "configs/locks/grpo-cpu.yaml")
    assert load_config(grpo.heldout).suite.split == "heldout"
    assert load_env_config(["configs/env/atropos.yaml"]).suite.name == "ledger"
    study = read_study(Path("configs/experiments/demonstrations.yaml"), [], {})
    assert study.folder == Path("runs/demonstrations")
    assert load_config(study.runs[0].sources).suite.name == "ledger"


def test_a_packaged_lock_is_found_by_name_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    values = read_values(TrainConfig, ["configs/train/sft.yaml", "lock=configs/locks/sft-smoke.yaml"])
    assert load_lock(Path(values["lock"])) == load_lock(ROOT / "configs/locks/sft-smoke.yaml")
    (tmp_path / "configs/locks").mkdir(parents=True)
    (tmp_path / "configs/locks/sft-smoke.yaml").touch()
    assert read_values(TrainConfig, ["lock=configs/locks/sft-smoke.yaml"])["lock"] == "configs/locks/sft-smoke.yaml"


@hypothesis.given(
    st.lists(st.sampled_from(["configs", "..", "train", "sft.yaml", "run.yaml", ".", "none"]), min_size=1)
)
def test_a_path_never_finds_a_file_outside_the_packages_configs(parts: list[str]) -> None:
    path = Path(*parts)
    with chdir("/"):
        found = find_config(path)
    assert found == path or (found.is_file() and found.resolve().is_relative_to(ROOT / "configs"))
