"""config.yaml of the Hermes home: how it is merged, what it means, and what is wrong with one."""

import re
import textwrap
from pathlib import Path

import pytest
from fakes.command import lab

from hermes_lab.config.home import HomeConfig
from hermes_lab.config.home_file import load_home_config, problems_in_home, resolve_home
from hermes_lab.config.home_template import TEMPLATE
from hermes_lab.config.schema import RunConfig
from hermes_lab.config.sources import load_config
from hermes_lab.errors import ConfigError


def load(home: Path, text: str, *sources: str) -> HomeConfig:
    (home / "config.yaml").write_text(text)
    return load_home_config(home, sources)


def refused(home: Path, text: str, *sources: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(home, text, *sources)
    return str(caught.value)


def test_without_a_file_a_chat_has_the_defaults(tmp_path: Path) -> None:
    config = load_home_config(tmp_path, ["model.name=m"])
    assert (config.model.name, config.agent.toolsets, config.personality) == ("m", ("core",), "none")
    assert config == load(tmp_path, "# nothing\n", "model.name=m")


def test_sources_come_after_the_file(tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("agent: {max_iterations: 7}\nuser: {name: Bob}\n")
    config = load(
        tmp_path,
        "agent: {toolsets: [terminal], max_iterations: 3}\nuser: {name: Ann, timezone: Europe/Berlin}\n",
        str(other),
        "display.verbose=off",
    )
    assert (config.agent.toolsets, config.agent.max_iterations) == (("terminal",), 7)
    assert (config.user.name, config.user.timezone, config.display.verbose) == ("Bob", "Europe/Berlin", "off")


def test_paths_are_relative_to_the_home(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    assert load(tmp_path, "skills: {library: mine}\n").skills.library == str(tmp_path / "mine")


def test_a_batch_knows_none_of_the_fields_and_does_not_read_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    (tmp_path / "config.yaml").write_text("model: {name: from-home}\n")
    assert load_config([]) == RunConfig()
    with pytest.raises(ConfigError, match=r"override personality=teacher: personality: unknown field"):
        load_config(["personality=teacher"])


# References to the environment


def test_references_are_replaced_in_every_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HL_HOST", "host")
    monkeypatch.setenv("HL_SECONDS", "9")
    config = load(
        tmp_path,
        "model: {base_url: 'http://${HL_HOST}/${HL_HOST}', timeout: '${HL_SECONDS}', extra_body: {a: ['x${HL_HOST}']}}"
        "\n"
        "user: {preferences: {shell: 'costs $5, $HOME and $${HL_HOST}'}}\n",
    )
    assert (config.model.base_url, config.model.timeout) == ("http://host/host", 9.0)
    assert config.model.extra_body == {"a": ["xhost"]}
    assert config.user.preferences == {"shell": "costs $5, $HOME and ${HL_HOST}"}


def test_a_value_that_looks_like_a_reference_is_not_replaced_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HL_A", "${HL_B}")
    monkeypatch.setenv("HL_B", "b")
    assert load(tmp_path, "user: {name: '${HL_A}'}\n").user.name == "${HL_B}"


def test_headers_are_left_to_the_client_which_hides_them_in_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HL_TOKEN", "secret")
    text = "model: {headers: {Authorization: 'Bearer ${HL_TOKEN}'}}\n"
    assert load(tmp_path, text).model.headers == {"Authorization": "Bearer ${HL_TOKEN}"}
    monkeypatch.delenv("HL_TOKEN")
    assert "config.yaml:1: model.headers.Authorization: ${HL_TOKEN}: set HL_TOKEN" in refused(tmp_path, text)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("${HL_UNSET}", "${HL_UNSET}: set HL_UNSET in the environment"),
        ("${HL_UNSET:-x}", "'${HL_UNSET:-x}' is not a reference such as ${NAME}"),
        ("a ${HL_UNSET", "'${HL_UNSET' is not a reference"),
        ("${}", "'${}' is not a reference"),
    ],
)
def test_an_unset_variable_or_a_malformed_reference_is_told_with_its_line(
    value: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HL_UNSET", raising=False)
    message = refused(tmp_path, f"user:\n  name: Ann\nagent:\n  toolsets:\n  - core\n  - '{value}'\n")
    assert message.startswith(f"{tmp_path}/config.yaml:6: agent.toolsets.1: {said}")


SECRET = "s3cret/Value"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("user: {timezone: '${HL_SECRET}'}", "user.timezone: no time zone '${HL_SECRET}'; give a name"),
        ("user: {timezone: 'Europe/${HL_SECRET}'}", "user.timezone: no time zone 'Europe/${HL_SECRET}'; "),
        ("personality: '${HL_SECRET}'", "personality: no personality '${HL_SECRET}'; there are"),
        ("user: {preferences: {personality: '${HL_SECRET}'}}", "personality: no personality '${HL_SECRET}'"),
        (
            "skills: {library: '${HL_SECRET}/../${HL_SECRET}'}",
            "skills.library: no such file or folder: ${HL_SECRET}/..",
        ),
        ("model: {overflow_pattern: '(${HL_SECRET}'}", "model.overflow_pattern: not a regular expression"),
        ("agent: {max_iterations: '${HL_SECRET}'}", "agent.max_iterations: must be an integer"),
        ("agent: {max_iterations: '${HL_ZERO}'}", "agent.max_iterations: Input should be greater than or equal to 1"),
        ("sandbox: {backend: '${HL_SECRET}'}", "sandbox.backend: must be 'bubblewrap'"),
        ("agent: {toolsets: ['${HL_SECRET}']}", "agent.toolsets: no toolset '${HL_SECRET}'; there are"),
        (
            "model: {provider: '${HL_PROVIDER}', tool_parser: hermes}",
            "model.tool_parser is not used with model.provider=${HL_PROVIDER}; add",
        ),
    ],
)
def test_a_message_has_references_as_written_and_no_values(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    for name, value in {"SECRET": SECRET, "ZERO": "0", "PROVIDER": "anthropic"}.items():
        monkeypatch.setenv(f"HL_{name}", value)
    file = tmp_path / "config.yaml"
    file.write_text(f"{text}\n")
    checked, chat = lab("config", "check"), lab("chat", "-c", "model.base_url=http://127.0.0.1:9", "hello")
    assert checked.stdout.startswith(f"{file}:1: {said}")
    assert said in chat.stderr
    assert (checked.returncode, chat.returncode) == (2, 2)
    assert not any(part in checked.stdout + chat.stderr for part in SECRET.split("/"))


def test_command_line_sources_keep_their_texts(tmp_path: Path) -> None:
    assert load(tmp_path, "", "user.name=${HL_UNSET}").user.name == "${HL_UNSET}"


def test_the_texts_as_written_are_known_where_nothing_replaced_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HL_NAME", "x")
    file = tmp_path / "config.yaml"
    file.write_text("model: {name: '${HL_NAME}'}\nuser: {name: 'A${HL_NAME}'}\n")
    assert resolve_home(file, ["model.name=y"]).written == {("user", "name"): "A${HL_NAME}"}


# Fields that may stand elsewhere


def test_settings_among_the_preferences_and_toolsets_are_put_where_they_belong(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        "user:\n  name: Ann\n  preferences:\n    model: gpt\n    personality: teacher\n    language: English\n"
        "    display: {skin: mono, verbose: off}\n"
        "toolsets: {enabled: [core, web], disabled: [web_extract]}\ndisplay: {background_process_notifications: off}\n",
    )
    assert (config.model.name, config.personality, config.user.preferences) == (
        "gpt",
        "teacher",
        {"language": "English"},
    )
    assert config.display.model_dump() == {
        "skin": "mono",
        "verbose": "off",
        "background_process_notifications": "off",
        "prompt": "> ",
    }
    assert (config.agent.toolsets, config.agent.disabled_tools) == (("core", "web"), ("web_extract",))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "model: {name: a}\nuser:\n  preferences:\n    model: b\n",
            ":4: user.preferences.model: model.name is set, too, in line 1; keep one of the two",
        ),
        ("toolsets: [core]\n", ":1: toolsets: set agent.toolsets and agent.disabled_tools"),
        ("toolsets: {enabled: [core], other: 1}\n", ":1: toolsets: set agent.toolsets and agent.disabled_tools"),
        ("user:\n  preferences:\n    modle: b\n", ":2: user.preferences: `modle` is not a preference; set model.name"),
        (
            "user:\n  preferences:\n    display: {skn: x}\n",
            "user.preferences: `display` is not a preference; set display.",
        ),
        ("user: {preferences: {display: {verbose: loud}}}\n", ":1: display.verbose: must be 'off', 'new'"),
        ("toolsets: {enabled: core}\n", ":1: agent.toolsets: must be a list"),
        ("model: gpt\nuser: {preferences: {model: b}}\n", ":1: model: is a section"),
        # Other mistakes
        (
            "user:\n  nme: Ann\n",
            ":2: user.nme: unknown field; valid fields: name, timezone, preferences; did you mean name?",
        ),
        (
            "user:\n  timezone: Europe/Berln\n",
            ":2: user.timezone: no time zone 'Europe/Berln'; did you mean Europe/Berlin?",
        ),
        ("user: {timezone: Europe}\n", ":1: user.timezone: no time zone 'Europe'"),
        ("user: {timezone: ../../etc/passwd}\n", ":1: user.timezone: no time zone"),
        ("\npersonality: teachr\n", ":2: personality: no personality 'teachr'; did you mean teacher?"),
        ("personalities: {a b: text}\n", ":1: personalities: 'a b' is not a name"),
        ("personalities: {none: text}\n", ":1: personalities: `none` means no personality"),
        ("personalities: {empty: ' '}\n", ":1: personalities: `empty` has no text"),
        ("display: {background_process_notifications: some}\n", "must be 'all', 'result', 'error' or 'off'"),
        ("suite:\n  name: ledger\n", ":1: suite: is for batches, which do not read this file; remove it"),
        ("mcp: {servers: {a: {}}}\n", ":1: mcp.servers.a: give either `command` or `url`"),
        ("terminal: {backend: nosuch}\n", ":1: sandbox.backend: must be 'bubblewrap', 'docker', "),
        ("terminal: {shell: fish}\n", ":1: terminal: set the fields of `sandbox` (docs/backends.md)"),
        ("cron:\n- name: a\n", ":2: cron.0.schedule: is required"),
        ("- user\n", ":1: expected a mapping of sections, found a list"),
        ("user: [\n", "config.yaml:2: "),
    ],
)
def test_a_mistake_is_one_line_with_file_line_field_and_remedy(text: str, said: str, tmp_path: Path) -> None:
    message = refused(tmp_path, text)
    assert message.startswith(f"{tmp_path}/config.yaml:")
    assert said in message
    assert "\n" not in message


def test_a_personality_of_ones_own_may_replace_a_built_in_one(tmp_path: Path) -> None:
    config = load(tmp_path, "personality: teacher\npersonalities: {teacher: Be strict., pirate: Arr.}\n")
    assert config.known_personalities["teacher"] == "Be strict."
    assert list(config.known_personalities)[-1] == "pirate"


def test_a_link_to_nowhere_is_not_taken_for_no_file(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").symlink_to(tmp_path / "gone.yaml")
    with pytest.raises(ConfigError, match=r"config\.yaml: cannot be read"):
        load_home_config(tmp_path, [])


def test_all_mistakes_are_found_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HL_UNSET", raising=False)
    file = tmp_path / "config.yaml"
    file.write_text(
        "run: {seed: 1}\nmodel:\n  timeout: ${HL_UNSET}\nuser:\n  timezone: Nowhere\n  nme: x\npersonality: x\n"
    )
    problems, _ = problems_in_home(file, [])
    assert sorted(problem.field for problem in problems) == sorted(
        ["run", "model.timeout", "user.timezone", "user.nme", "personality"]
    )


def test_a_terminal_is_a_sandbox(tmp_path: Path) -> None:
    config = load(tmp_path, "terminal: {backend: ssh, ssh: {host: box, user: ann, port: 2222}}\n")
    assert (config.sandbox.backend, config.sandbox.ssh.host, config.sandbox.ssh.port) == ("ssh", "box", 2222)
    config = load(tmp_path, "terminal: {backend: docker, docker: {image: my, volumes: ['/tmp:/mnt/x']}}\n")
    assert (config.sandbox.image, config.sandbox.volumes) == ("my", ("/tmp:/mnt/x",))


def test_a_server_keeps_its_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "sesame")
    config = load(tmp_path, "mcp: {servers: {a: {command: srv, env: {KEY: 'is ${A_TOKEN}'}}}}\n")
    assert config.mcp.servers["a"].env == {"KEY": "is ${A_TOKEN}"}
    assert config.mcp.servers["a"].scope == "run"


def test_the_template_is_right_as_it_stands_and_without_its_comment_signs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEARCH_TOKEN", "x")
    assert load(tmp_path, TEMPLATE) == load_home_config(tmp_path / "none", [])
    head, *sections = TEMPLATE.split("\n\n")
    assert head.count("#") == len(head.splitlines())
    lines = [line.removeprefix("#") for section in sections for line in section.splitlines()[1:]]
    config = load(tmp_path, "\n".join(lines))
    assert (config.user.name, config.user.timezone, config.personality) == ("Ann", "Europe/Berlin", "concise")
    assert config.agent.toolsets == ("core", "web")
    assert config.sandbox.workspace == str(tmp_path / "work")
    assert config.chat.record


@pytest.mark.parametrize("page", ["gateway", "platforms", "cron"])
def test_the_examples_of_the_pages_are_right(page: str, tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / f"{page}.md").read_text()
    examples = re.findall(r"^( *)```yaml\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    configs = [example for _, each in examples if "oauth_config" not in (example := textwrap.dedent(each))]
    assert configs
    for config in configs:
        load(tmp_path, config)
